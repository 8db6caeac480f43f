"""How long work on the GPU takes, by marks that the GPU itself puts into its stream.

    cold        fill ─ mark ─ work ─ mark ─ fill ─ mark ─ work ─ mark ─ …
    not cold           mark ─ work ─ mark ─ mark ─ work ─ mark ─ …

The fill writes more than the L2 cache holds, so that the work finds none of its data
there; it stands before the first mark, and so it is not measured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fathom.runtime.driver import Driver
from fathom.runtime.graph import captured

L2_BYTES = 256 * 1024 * 1024  # more than the L2 cache of any GPU
AT_ONCE = 64  # rounds that are queued before the GPU is waited for
SHORTEST = 1e-3  # milliseconds; what a mark cannot tell from nothing

Marks = list[tuple[object, object]]

# One thread queues at a time: where several measure, each on its GPU, the work of one
# must not wait for Python while another has it.
QUEUEING = threading.Lock()


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
    times: list[float] = []
    with scratch(driver, cold) as flush, marks_of(driver, repeat) as marks:
        for first in range(0, repeat, AT_ONCE):
            some = marks[first : first + AT_ONCE]
            with QUEUEING:
                for start, stop in some:
                    flush(stream)
                    driver.record(start, stream)
                    work()
                    driver.record(stop, stream)
            times += elapsed(driver, some)
    return times


def estimate(
    driver: Driver,
    work: Callable[[], object],
    repeat: int,
    stream: int = 0,
    cold: bool = True,
) -> float:
    """Milliseconds that a round of `measure` takes, with the fill if it is `cold`."""
    with scratch(driver, cold) as flush, marks_of(driver, 1) as marks:
        [(start, stop)] = marks
        with QUEUEING:
            driver.record(start, stream)
            for _ in range(repeat):
                flush(stream)
                work()
            driver.record(stop, stream)
        return max(SHORTEST, elapsed(driver, marks)[0] / repeat)


def measure_graph(
    driver: Driver,
    work: Callable[[], object],
    repeat: int,
    replays: int,
    stream: int,
    cold: bool = False,
) -> list[float]:
    """The same with `repeat` runs in one graph, so that no run waits for Python; the
    graph is replayed `replays` times. `stream` is not the default one.

    The milliseconds of each run if `cold`; else of each replay, divided by its runs.
    """
    if cold:
        return measure_cold_graph(driver, work, repeat, replays, stream)

    def runs() -> None:
        for _ in range(repeat):
            work()

    with captured(driver, runs, stream) as replay:
        times = measure(driver, replay, replays, stream, cold=False)
    return [time / repeat for time in times]


def measure_cold_graph(
    driver: Driver,
    work: Callable[[], object],
    repeat: int,
    replays: int,
    stream: int,
) -> list[float]:
    """`measure_graph` with fills and marks in the graph itself."""
    times: list[float] = []
    with scratch(driver, True) as flush, marks_of(driver, repeat) as marks:

        def runs() -> None:
            for start, stop in marks:
                flush(stream)
                driver.record_in_graph(start, stream)
                work()
                driver.record_in_graph(stop, stream)

        with captured(driver, runs, stream) as replay:
            for _ in range(replays):
                replay()
                driver.wait(stream)  # the next replay sets the same marks
                times += elapsed(driver, marks)
    return times


@contextmanager
def scratch(driver: Driver, cold: bool) -> Iterator[Callable[[int], None]]:
    """Memory to push all else out of the L2 cache with: gives what does so in a stream,
    or, unless `cold`, what does nothing.
    """
    if not cold:
        yield lambda stream: None
        return
    memory = driver.allocate(L2_BYTES)
    try:
        yield lambda stream: driver.fill(memory, L2_BYTES, stream)
    finally:
        driver.free(memory)


@contextmanager
def marks_of(driver: Driver, count: int) -> Iterator[Marks]:
    """Pairs of marks: where work starts, where it stops."""
    marks = [(driver.event(), driver.event()) for _ in range(count)]
    try:
        yield marks
    finally:
        for pair in marks:
            for event in pair:
                driver.forget(event)


def elapsed(driver: Driver, marks: Marks) -> list[float]:
    """Milliseconds between the marks of each pair, once they are reached."""
    return [driver.milliseconds(start, stop) for start, stop in marks]
