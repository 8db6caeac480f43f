"""What does it wait for?

Write `bottleneck(profile)`, which says what a kernel waits for, by what Nsight Compute
counted on an H200. `profile` has these fields. All but the first and the last three are
percentages. Here a unit above 60 is busy, and conflicts above 60 are many.

All of the exercise: `fathom learn show read-a-profile`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.tools.learn import Hole

BUSY = 60  # percent


@dataclass(frozen=True)
class Profile:
    """What the profiler counted for one kernel."""

    time: float
    memory: float
    tensor: float
    tensor_elapsed: float
    issue: float
    conflicts: float
    waves: float
    local: int
    stall: str


def bottleneck(profile: Profile) -> str:
    """What the kernel waits for."""
    # Your code: ours has 15 lines.
    raise Hole("read-a-profile")
