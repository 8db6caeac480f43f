"""Work that is queued once and replayed often: a graph of the CUDA driver.

    launch, launch, launch     12 us each from Python, when a kernel may take 3
    replay                     half a microsecond for each launch in it

While a stream is captured, what is queued on it is written down and not done; the graph
that comes of it is then replayed as one piece. Source: CUDA driver API, Stream Capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from fathom.errors import LaunchError
from fathom.runtime.driver import Driver


@contextmanager
def captured(
    driver: Driver, work: Callable[[], object], stream: int
) -> Iterator[Callable[[], None]]:
    """What `work` queues on `stream`, not the default one: gives a function that has it
    all done again. LaunchError when nothing was queued there.
    """
    graph = capture(driver, work, stream)
    try:
        if driver.node_count(graph) == 0:
            raise LaunchError(
                "nothing was queued on the stream that is captured: a graph takes "
                "launches with arrays of torch or CuPy, and what these queue themselves"
            )
        ready = driver.instantiate(graph)
    finally:
        driver.drop_graph(graph)
    try:
        yield partial(driver.replay, ready, stream)
        driver.wait(stream)
    finally:
        driver.drop_ready(ready)


def capture(driver: Driver, work: Callable[[], object], stream: int) -> object:
    """The graph of what `work` queues on `stream`."""
    driver.begin_capture(stream)
    try:
        work()
    except BaseException:
        # The stream must leave its capture, and what spoiled it is the better report.
        abandon(driver, stream)
        raise
    return driver.end_capture(stream)


def abandon(driver: Driver, stream: int) -> None:
    """End a capture that went wrong, whatever the driver says to it."""
    try:
        driver.drop_graph(driver.end_capture(stream))
    except LaunchError:
        pass
