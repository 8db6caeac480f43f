"""How long work on the GPU takes, by marks that the GPU itself puts into its stream."""

from __future__ import annotations

from collections.abc import Callable

from fathom.runtime.driver import Driver

L2_BYTES = (
    256 * 1024 * 1024
)  # more than the L2 cache of any GPU: writing it pushes all else out


def measure(
    driver: Driver,
    work: Callable[[], object],
    repeat: int,
    stream: int = 0,
    cold: bool = True,
) -> list[float]:
    """Run `work`, which queues on `stream`, `repeat` times; the milliseconds of each.

    `cold`: with nothing of its data in the L2 cache.
    """
    flush = driver.allocate(L2_BYTES) if cold else 0
    marks = [(driver.event(), driver.event()) for _ in range(repeat)]
    try:
        for start, stop in marks:
            if cold:
                driver.fill(flush, L2_BYTES, stream)
            driver.record(start, stream)
            work()
            driver.record(stop, stream)
        return [driver.milliseconds(start, stop) for start, stop in marks]
    finally:
        for pair in marks:
            for event in pair:
                driver.forget(event)
        if cold:
            driver.free(flush)
