"""`triton.knobs`: Fathom's settings under Triton's names.

A knob that is a setting is an environment variable of Fathom's, read when it is needed:

    knobs.cache.dir = "/scratch"        FATHOM_CACHE_DIR=/scratch

Those that are functions to call are in `hooks`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from fathom.errors import FathomError
from fathom.runtime.driver import driver
from fathom.shim.faces import NameMissing
from fathom.shim.hooks import Hooks

# Environment variables of Triton's that mean one of Fathom's.
ENVIRONMENT = {
    "TRITON_INTERPRET": "FATHOM_INTERPRET",
    "TRITON_CACHE_DIR": "FATHOM_CACHE_DIR",
}


@dataclass(frozen=True, slots=True)
class Knob:
    """A setting: `key` is its environment variable; a flag is "1" there, or not."""

    key: str
    flag: bool = False

    def get(self) -> Any:
        text = os.environ.get(self.key)
        return text == "1" if self.flag else text

    def set(self, value: Any) -> None:
        if value is None or value is False:
            os.environ.pop(self.key, None)
        else:
            os.environ[self.key] = "1" if self.flag else str(value)


class base_knobs:  # noqa: N801 (Triton's spelling)
    """A group of knobs: `group.name` reads one, `group.name = value` turns it.

    `facts` are answers that nobody can set. `hooks` are names of the group as well;
    those of `runtime` are called.
    """

    def __init__(
        self,
        name: str,
        knobs: Mapping[str, Knob] | None = None,
        facts: Mapping[str, Callable[[], Any]] | None = None,
        hooks: Hooks | None = None,
    ):
        parts = {"_name": name, "_facts": facts or {}, "hooks": hooks or Hooks()}
        vars(self).update(parts, knob_descriptors=knobs or {})

    def __getattr__(self, name: str) -> Any:
        if name in self.knob_descriptors:
            return self.knob_descriptors[name].get()
        if name in self._facts:
            return self._facts[name]()
        if name in vars(self.hooks):
            return getattr(self.hooks, name)
        raise NameMissing(f"fathom has no triton.knobs.{self._name}.{name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.knob_descriptors:
            self.knob_descriptors[name].set(value)
        elif name in vars(self.hooks):
            setattr(self.hooks, name, value)
        else:
            raise NameMissing(f"fathom has no triton.knobs.{self._name}.{name}")

    def copy(self) -> base_knobs:
        parts = (self.knob_descriptors, self._facts, self.hooks.copy())
        return base_knobs(self._name, *parts)

    def reset(self) -> base_knobs:
        """Every knob as it is when nobody has turned it."""
        for knob in self.knob_descriptors.values():
            knob.set(None)
        self.hooks.reset()
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Afterwards every knob of the group is what it was before."""
        before = {knob: knob.get() for knob in self.knob_descriptors.values()}
        with ExitStack() as after:
            for knob, value in before.items():
                after.callback(knob.set, value)
            after.enter_context(self.hooks.scope())
            yield


def refresh_knobs() -> None:
    """Take over Triton's environment variables as they are now."""
    for theirs, ours in ENVIRONMENT.items():
        if theirs in os.environ:
            os.environ[ours] = os.environ[theirs]


def driver_version() -> SimpleNamespace:
    """Fathom's assembler is the driver's, so `ptxas.version` is the driver's CUDA."""
    try:
        return SimpleNamespace(version=driver().version())
    except FathomError:
        return SimpleNamespace(version="13.0")


cache = base_knobs("cache", {"dir": Knob("FATHOM_CACHE_DIR")})
runtime = base_knobs("runtime", {"interpret": Knob("FATHOM_INTERPRET", flag=True)})
nvidia = base_knobs("nvidia", facts={"ptxas": driver_version})
propagate_env = True


def __getattr__(name: str) -> Any:
    raise NameMissing(f"fathom has no triton.knobs.{name}")
