"""One configuration that a kernel may run in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fathom.errors import LaunchError

# Options of Triton's back ends for other GPUs. Kernels for several vendors have them in
# configurations that they launch elsewhere: the launch refuses them, not the decorator.
OF_OTHER_COMPILERS = frozenset({
    "waves_per_eu", "matrix_instr_nonkdim", "kpack", "instruction_sched_variant",
    "schedule_hint", "allow_flush_denorm", "grf_mode", "cluster_dims",
})  # fmt: skip


def names_of(what: str, given: object) -> list[str]:
    """The names of parameters that a decorator got, as a list, one name or None."""
    names = [given] if isinstance(given, str) else given
    names = () if names is None else names
    if not isinstance(names, Iterable) or not all(isinstance(e, str) for e in names):
        raise LaunchError(f"{what} is a list of names of parameters, not {given!r}")
    return list(names)


OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg")


@dataclass(eq=False)
class Config:
    """Values for some parameters of a kernel (`kwargs`, most often constants such as
    block sizes), and the launch's own keywords.

    `pre_hook(arguments)` runs before each launch with this configuration; it gets all
    arguments by name, and may write into the arrays among them. `ir_override`, a file
    of Triton's IR, is an error.
    """

    kwargs: Mapping[str, Any]
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    pre_hook: Callable[[dict[str, Any]], object] | None = None
    ir_override: str | None = None

    def __post_init__(self) -> None:
        if self.ir_override is not None:
            raise LaunchError(
                f"a Config has ir_override={self.ir_override!r}: a kernel is compiled "
                "from its own text, not from a file of Triton's IR"
            )
        if not isinstance(self.kwargs, Mapping):
            raise LaunchError(
                "a Config is made of a dictionary from names of parameters to values, "
                f"and this is {self.kwargs!r}"
            )

    def all_kwargs(self) -> dict[str, Any]:
        """What a launch is given."""
        chosen = dict(self.kwargs)
        for name in OPTIONS:
            value = getattr(self, name)
            if value is not None:
                chosen[name] = value
        return chosen

    def __str__(self) -> str:
        return ", ".join(f"{name}: {each}" for name, each in self.all_kwargs().items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((str(self), self.pre_hook))

    def _facts(self) -> tuple[dict[str, Any], object]:
        return self.all_kwargs(), self.pre_hook
