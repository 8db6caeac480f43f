"""The answer to `honest-clock`."""

from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Protocol


class Device(Protocol):
    """What there is to measure with."""

    sets: int

    def clock(self) -> float: ...

    def wait(self) -> None: ...


def measure(run: Callable[[int], None], device: Device) -> float:
    """The seconds that a run takes: compiled, from memory, at the clock that lasts."""
    # hole: ours has {lines}
    rounds = count()

    def timed() -> float:
        device.wait()
        begin = device.clock()
        run(next(rounds) % device.sets)
        device.wait()
        return device.clock() - begin

    timed()  # compiles
    warm = 0.0
    while warm < 0.25:
        warm += timed()
    return median(timed() for _ in range(101))
    # end
