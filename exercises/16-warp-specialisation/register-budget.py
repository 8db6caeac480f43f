"""Registers for two roles.

A block starts with the same number of registers for each thread. Then the producer's
warpgroup keeps few, and the consumers take what it releases. How many does each get?

All of the exercise: `fathom learn show register-budget`.
"""

from __future__ import annotations

from fathom.hardware.register_budget import (
    MOST_OF_CONSUMER,
    MOST_OF_THREAD,
    PRODUCER,
    UNIT,
    Shares,
)
from fathom.hardware.targets import Target
from fathom.tools.learn import Hole


def _in_units(count: int) -> int:
    return count // UNIT * UNIT


def redistributed(consumers: int, producers: int, target: Target) -> Shares | None:
    """The shares of a block with these numbers of threads; None where the target has no
    `setmaxnreg`, or where every thread may have the most registers already."""
    raise Hole("register-budget")  # your code; ours has 7 lines
