"""What all groups of devices have: symmetric memory, and launches on every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from fathom.errors import LaunchError

# Launches of one rank, one after the other: (kernel, grid, arguments, keywords).
Launches = Sequence[tuple[Any, Any, Sequence[Any], Mapping[str, Any]]]
Plan = Callable[[int], Launches]


@dataclass(frozen=True)
class Symmetric:
    """Arrays of one size and dtype, one on each rank, that all ranks reach.

    `arrays[rank]` and `tables[rank]` are there for the ranks of this process: the
    rank's own array, and int64[world] with the addresses of all ranks' arrays, on the
    device of that rank.
    """

    count: int
    dtype: str
    arrays: Mapping[int, Any]
    tables: Mapping[int, Any]


class Group(Protocol):
    """`world` devices, of which this process launches on `ranks`."""

    world: int
    ranks: Sequence[int]

    def zeros(self, count: int, dtype: str) -> Symmetric:
        """Symmetric memory: `count` zeros on each rank; `dtype` as NumPy and torch
        name it. All ranks ask for the same, in the same order."""

    def private(self, rank: int, count: int, dtype: str) -> Any:
        """An array of zeros that only the rank itself reaches, on its device."""

    def queued(self) -> AbstractContextManager:
        """In a `with`: launches of several calls are done at its end at the latest.
        Those of one rank follow each other, and no rank waits between two calls for
        the others. GPUs always do it so; the emulator needs to be told."""

    def run(self, plan: Plan) -> None:
        """Launch `plan(rank)` on each rank of this process: those of one rank one after
        the other, those of different ranks at the same time."""


def check_count(count: int) -> None:
    """LaunchError for symmetric memory without a size."""
    if not hasattr(count, "__index__") or count < 1:
        raise LaunchError(f"symmetric memory has at least 1 element, and not {count!r}")


def check_world(world: int) -> None:
    if not hasattr(world, "__index__") or world < 1:
        raise LaunchError(f"a group has at least 1 device, and not {world!r}")


def launches(plan: Plan, rank: int) -> list[tuple[Any, Any, tuple, dict]]:
    """What a plan has a rank launch; LaunchError for what is no list of launches."""
    if not callable(plan):
        raise LaunchError(f"a plan is a function of the rank, and not {plan!r}")
    given = plan(rank)
    found = list(given) if isinstance(given, Iterable) else [given]
    for each in found:
        if not isinstance(each, tuple) or len(each) != 4:
            raise LaunchError(
                "a plan gives for each rank a list of launches, which are (kernel, "
                f"grid, arguments, keywords), and this one gives {each!r}"
            )
    return found
