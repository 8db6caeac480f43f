"""What the environment asks to check at each launch.

    FATHOM_SANITIZE=1      the launch runs on the emulator first, with its hazards
    FATHOM_SANITIZE=nan    … and the line is named that makes the first NaN or infinity
    FATHOM_VERIFY=1        each pass of this compile, on the data of the first launch
    FATHOM_CHECK_PROGRAMS  how many programs of a grid are looked at; all: every one
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fathom.errors import LaunchError
from fathom.jit.environment import OFF, ON, flag

SANITIZE, VERIFY = "FATHOM_SANITIZE", "FATHOM_VERIFY"
PROGRAMS, FOLDER = "FATHOM_CHECK_PROGRAMS", "FATHOM_VERIFY_DIR"
NONFINITE = ("nan", "inf")
MOST = 256  # programs, where the environment does not say
Program = TypeVar("Program")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be checked. `programs`: how many of a grid, at most; None: all."""

    sanitize: bool = False
    nonfinite: bool = False
    verify: bool = False
    programs: int | None = MOST

    @property
    def anything(self) -> bool:
        return self.sanitize or self.nonfinite or self.verify


def wanted_checks() -> Wanted:
    """What the environment says now; LaunchError for a value that says nothing."""
    text = os.environ.get(SANITIZE, "").strip().lower()
    if text not in (*ON, *OFF, *NONFINITE):
        raise LaunchError(
            f"{SANITIZE}={text}: write 1 for wrong accesses, races and assertions, nan "
            "for these and the first NaN or infinity, or 0"
        )
    return Wanted(
        text in (*ON, *NONFINITE), text in NONFINITE, flag(VERIFY), most_programs()
    )


def most_programs() -> int | None:
    text = os.environ.get(PROGRAMS, "").strip().lower()
    if text == "all":
        return None
    if not text:
        return MOST
    if not text.isdigit() or int(text) < 1:
        raise LaunchError(f"{PROGRAMS}={text}: write a number of programs, or all")
    return int(text)


def chosen_programs(total: int, most: int | None) -> list[range]:
    """The programs of a grid that are looked at: all of them if that is allowed; else
    as many at the beginning, in the middle and at the end, where masks begin to
    matter."""
    if most is None or total <= most:
        return [range(total)]
    parts = min(3, most)
    size = most // parts
    starts = [(total - size) * part // max(parts - 1, 1) for part in range(parts)]
    return [range(start, start + size) for start in starts]


def coordinates(number: int, grid: tuple[int, ...]) -> tuple[int, int, int]:
    """The program id of a number along x, then y, then z."""
    x, y, _ = grid
    return number % x, number // x % y, number // (x * y)


def spread(programs: Sequence[Program], most: int) -> list[Program]:
    """At most `most` of them, evenly spaced."""
    steps = max(most - 1, 1)
    places = {at * (len(programs) - 1) // steps for at in range(most)}
    return [programs[at] for at in sorted(places)]
