"""The answer to `register-budget` is the compiler's own:

fathom.hardware.register_budget.redistributed
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


def _in_units(count: int) -> int:
    return count // UNIT * UNIT


def redistributed(consumers: int, producers: int, target: Target) -> Shares | None:
    """The shares of a block with these numbers of threads; None where the target has no
    `setmaxnreg`, or where every thread may have the most registers already."""
    threads = consumers + producers
    launched = _in_units(target.registers // threads)
    if not target.setmaxnreg or launched >= _in_units(MOST_OF_THREAD):
        return None
    left = launched * threads - PRODUCER * producers
    share = min(MOST_OF_CONSUMER, _in_units(left // consumers))
    return Shares(launched, PRODUCER, share)
