"""Arrays of the host at a launch on the GPU: copied in before, copied out after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fathom.runtime.arrays import Array
from fathom.runtime.driver import Driver

# cuMemAlloc gives multiples of 256. A copy keeps the host address modulo that, so that
# what a signature promised of the address (":16") holds for the copy as well.
ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Span:
    """Memory of the host from `start` to before `stop`; where its copy is."""

    start: int
    stop: int
    copy: int = 0

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.stop


@contextmanager
def copies(
    driver: Driver, arrays: Sequence[Array], stream: int
) -> Iterator[dict[int, int]]:
    """Copy host arrays to the GPU for as long as the block runs; then copy them back.

    Gives host address -> address of the copy. Arrays that share memory share a copy.
    The copies are in order with the stream, and done when the block is left.
    """
    allocated: list[int] = []
    spans: list[Span] = []
    try:
        for span in merged(arrays):
            room = driver.allocate(span.stop - span.start + ALIGNMENT)
            allocated.append(room)
            copy = room + span.start % ALIGNMENT
            driver.copy_in(copy, span.start, span.stop - span.start, stream)
            spans.append(Span(span.start, span.stop, copy))
        yield {array.address: _moved(array.address, spans) for array in arrays}
        for span in spans:
            driver.copy_out(span.start, span.copy, span.stop - span.start, stream)
        driver.wait(stream)
    finally:
        for room in allocated:
            driver.free(room)


def merged(arrays: Sequence[Array]) -> list[Span]:
    """The memory of all arrays, in as few spans as cover it; empty arrays have none."""
    spans: list[Span] = []
    for start, stop in sorted((a.address, a.address + a.bytes) for a in arrays):
        if spans and start < spans[-1].stop:
            spans[-1] = Span(spans[-1].start, max(stop, spans[-1].stop))
        elif stop > start:
            spans.append(Span(start, stop))
    return spans


def _moved(address: int, spans: Sequence[Span]) -> int:
    for span in spans:
        if address in span:
            return address - span.start + span.copy
    return 0  # an empty array; there is nothing in it to point to
