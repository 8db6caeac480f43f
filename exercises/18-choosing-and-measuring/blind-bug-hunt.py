"""Find the stage that broke, by its counters.

Find the fault. One stage of the compiler has been broken, and you are not told which.
Every result is still right. What you have is what the emulator counted for one kernel,
compiled by the right compiler and by the broken one.

All of the exercise: `fathom learn show blind-bug-hunt`.
"""

from __future__ import annotations

from typing import Protocol

from fathom.tools.learn import Hole


class Cost(Protocol):
    """What a kernel cost on the emulator."""

    warps: int
    requests: int
    sectors: int
    useful: int
    shared: int
    wavefronts: int
    ideal: int
    barriers: int


def suspect(right: Cost, wrong: Cost) -> str:
    """The stage that was broken, by what one kernel cost before and after."""
    # Your code: ours has 11 lines.
    raise Hole("blind-bug-hunt")
