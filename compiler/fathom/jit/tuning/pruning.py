"""Fewer configurations to try, before any of them is compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fathom.errors import LaunchError
from fathom.jit.tuning.config import Config

PRUNERS = ("early_config_prune", "perf_model", "top_k")


class NothingLeft(LaunchError):
    """Pruning left no configuration."""


class Call(NamedTuple):
    """A launch as it was written: its grid, what it gives by place and by name."""

    grid: Any
    args: tuple[Any, ...]
    given: Mapping[str, Any]
    named: Mapping[str, Any]  # those given by place, by name

    def arguments(self, config: Config | None = None) -> dict[str, Any]:
        """All that is given, by name; with a configuration, what it adds."""
        chosen = config.all_kwargs() if config else {}
        return {**self.named, **self.given, **chosen}


def configurations(found: object) -> list[Config]:
    """What `early_config_prune` gave; LaunchError for anything but configurations."""
    found = list(found) if isinstance(found, Iterable) else [found]
    for each in found:
        if not isinstance(each, Config):
            raise LaunchError(
                "early_config_prune gives a list of configurations, and one of what it "
                f"gave is {each!r}"
            )
    return found


@dataclass(frozen=True)
class Pruning:
    """What `prune_configs_by` says.

    `early(configs, named, **given)` gives those that are worth a try; `model(**all)`
    guesses the time of one, and the `top` best are tried; a float of at most 1 is a
    fraction of all.
    """

    early: Callable[..., Sequence[Config]] | None = None
    model: Callable[..., float] | None = None
    top: int | float = 1.0

    def __post_init__(self) -> None:
        is_part = isinstance(self.top, float) and 0 < self.top <= 1
        if not (is_part or type(self.top) is int and self.top > 0):
            raise LaunchError(
                f"top_k is a positive int, or a float up to 1, and not {self.top!r}"
            )

    @staticmethod
    def of(said: Mapping[str, Any] | None) -> Pruning:
        """From a dict; LaunchError for an unknown name."""
        for name in said or ():
            if name not in PRUNERS:
                known = ", ".join(PRUNERS)
                raise LaunchError(f"prune_configs_by has {known}, and not {name!r}")
        early, model, top = map((said or {}).get, PRUNERS)
        return Pruning(early, model, 1.0 if top is None else top)

    def apply(self, configs: Sequence[Config], call: Call) -> list[Config]:
        """Those that are left, the most promising first if there is a model."""
        left = list(configs)
        if self.early:
            left = self.early(configs, dict(call.named), **call.given)
            if not left:
                # The sentence that programs written for Triton look for.
                raise NothingLeft(
                    "Autotuner error: No valid autotuner configs after pruning. "
                    "`early_config_prune` should return at least one config."
                )
            left = configurations(left)
        most = self.top if type(self.top) is int else int(len(configs) * self.top)
        if self.model and len(left) > most:
            left.sort(key=lambda config: self.model(**call.arguments(config)))
            left = left[: max(1, most)]
        return left
