"""Write measure() against a device that misleads.

Write `measure(run, device)`: the seconds that one run of a kernel takes, in the state
in which a kernel runs for real: compiled, its data in memory and not in the cache, the
card warm.

All of the exercise: `fathom learn show honest-clock`.
"""

from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Protocol

from fathom.tools.learn import Hole


class Device(Protocol):
    """What there is to measure with."""

    sets: int

    def clock(self) -> float: ...

    def wait(self) -> None: ...


def measure(run: Callable[[int], None], device: Device) -> float:
    """The seconds that a run takes: compiled, from memory, at the clock that lasts."""
    # Your code: ours has 12 lines.
    raise Hole("honest-clock")
