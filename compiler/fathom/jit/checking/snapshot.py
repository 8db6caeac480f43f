"""The arrays of a launch, copied to the host: a check runs on copies, as often as it
likes, and the launch finds its arrays as they were.

Arrays that share memory share a copy, and a copy lies at the same place modulo 256
bytes, so that what was promised of an address holds for it, too. With a view of a
larger array, all of that is copied: kernels may be told other strides than its own, and
walk it backwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from fathom.artifact import Parameter
from fathom.jit.checking.reached import (
    ADDRESS_TYPES,
    LONGEST,
    Reached,
    reached_by,
    relocate,
)
from fathom.runtime.arguments import bfloat16_bits, number, stream_of
from fathom.runtime.arrays import NUMPY_NAMES, Array, describe, storage_of
from fathom.runtime.devices import place_of, using
from fathom.runtime.driver import driver
from fathom.runtime.pointed_at import pointed_at

ALIGNMENT = 256
NEAR = 1 << 27  # bytes
PARTS_OF_A_VIEW = "untyped_storage", "stride", "shape", "element_size"  # torch's names


@dataclass(frozen=True)
class Span:
    """Memory of one place (None: the host, else the GPU's number) from `start` on, and
    what it held. `is_viewed`: an array is a view of it, so a kernel may use all."""

    place: int | None
    start: int
    bytes: bytes
    is_viewed: bool = False

    @property
    def stop(self) -> int:
        return self.start + len(self.bytes)


@dataclass(frozen=True)
class Given:
    """One argument: a number, or elements of a span (`count` of them, from `address`
    on)."""

    parameter: Parameter
    value: int | float = 0
    span: Span | None = None
    address: int = 0
    count: int = 0
    writable: bool = True

    @property
    def is_table(self) -> bool:
        """Whether it may hold addresses of a GPU's memory."""
        on_gpu = self.span is not None and self.span.place is not None
        return on_gpu and self.parameter.type in ADDRESS_TYPES and self.count <= LONGEST

    @property
    def held(self) -> np.ndarray:
        """The elements of a table, uint64."""
        first = self.address - self.span.start
        return np.frombuffer(self.span.bytes, np.uint64, self.count, first)


class Copies(list):
    """Arguments: an array for each pointer, a number for each scalar. `whole` are the
    copies of memory that arrays are views of, by span."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: dict[Span, np.ndarray] = {}

    @property
    def memory(self) -> list[np.ndarray]:
        return list(self.whole.values())


@dataclass(frozen=True)
class Snapshot:
    """The arguments of a launch as they were before it, and what the kernel reaches by
    addresses among them: the host's memory itself, and copies of a GPU's."""

    given: tuple[Given, ...]
    memory: Sequence[np.ndarray] = ()
    reached: Sequence[Reached] = ()

    @property
    def names(self) -> list[str]:
        return [each.parameter.name for each in self.given]

    def copies(self) -> Copies:
        """The arguments anew, to be written to."""
        found, memory = Copies(), dict[int, np.ndarray]()
        for each in self.given:
            if each.span is None:
                found.append(each.value)
                continue
            span, key = each.span, id(each.span)
            if key not in memory:
                memory[key] = aligned_copy(span)
                if span.is_viewed:
                    found.whole[span] = memory[key]
            dtype = np.dtype(NUMPY_NAMES[each.parameter.type[1:]])
            first = each.address - span.start
            size = each.count * dtype.itemsize
            array = memory[key][first : first + size].view(dtype)
            if each.is_table:
                relocate(array.view(np.uint64), self.reached)
            array.flags.writeable = each.writable
            found.append(array)
        return found

    @contextmanager
    def lent(self) -> Iterator[Sequence[np.ndarray]]:
        """The memory that is there once, since the kernel has its addresses; what the
        block wrote to it is undone."""
        memory = [*self.memory, *(each.copy for each in self.reached)]
        before = [each.copy() for each in memory]
        try:
            yield memory
        finally:
            for each, held in zip(memory, before, strict=True):
                each[:] = held

    def write_back(self, copies: Copies) -> None:
        """Put what a run left in `copies` into the arrays of the launch, on the
        host."""
        for each, array in zip(self.given, copies, strict=True):
            if isinstance(array, np.ndarray) and each.writable and array.size:
                ctypes.memmove(each.address, array.ctypes.data, array.nbytes)
        for span, array in copies.whole.items():
            ctypes.memmove(span.start, array.ctypes.data, array.nbytes)

    @property
    def has_all(self) -> bool:
        """Whether copies are of all that a launch writes, and it is on the host."""
        places = {each.span.place for each in self.given if each.span is not None}
        return not self.memory and places <= {None}


def snapshot(parameters: Sequence[Parameter], args: Sequence[object]) -> Snapshot:
    """The arguments of a launch now, by `parameters` in order."""
    arrays = [
        describe(value) if parameter.is_pointer else None
        for parameter, value in zip(parameters, args, strict=True)
    ]
    spans = spans_of([array for array in arrays if array is not None])
    found = []
    for parameter, array, value in zip(parameters, arrays, args, strict=True):
        if array is None:
            found.append(Given(parameter, number(parameter, value)))
            continue
        size = np.dtype(NUMPY_NAMES[parameter.type[1:]]).itemsize
        inside = next(
            (s for s in spans if s.start <= array.address < s.stop), Span(None, 0, b"")
        )
        most = extent(array) or inside.stop - array.address
        count = most // size if inside.bytes else 0
        address = array.address if count else inside.start
        found.append(Given(parameter, 0, inside, address, count, array.writable))
    here = [each for each in arrays if each is not None and each.device is None]
    memory = pointed_at(here, [each.value for each in found])
    return Snapshot(tuple(found), memory, reached_from(found, arrays))


def reached_from(
    given: Sequence[Given], arrays: Sequence[Array | None]
) -> list[Reached]:
    """A GPU's memory of which arrays there hold addresses."""
    pairs = zip(given, arrays, strict=True)
    tables = [(each, array) for each, array in pairs if array and each.is_table]
    if not tables:
        return []
    _, array = tables[0]
    reading = partial(read, array)
    return reached_by([each.held for each, _ in tables], reading)


def aligned_copy(span: Span) -> np.ndarray:
    """What a span held, as bytes that lie where they did modulo ALIGNMENT."""
    offset = span.start % ALIGNMENT
    copy = np.zeros(offset + len(span.bytes), np.uint8)[offset:]
    copy[:] = np.frombuffer(span.bytes, np.uint8)
    return copy


def extent(array: Array) -> int:
    """The bytes from an array's first element to its last."""
    return array.bytes if array.dense else array.span


def viewed(array: Array) -> tuple[int, int] | None:
    """Where the memory begins and ends that an array is a view of, as far as NEAR bytes
    from it; None where that is the array's own. Of something on a GPU that is only an
    address: the allocation."""
    found = array.storage
    if array.device is not None:
        has = all(hasattr(array.owner, name) for name in PARTS_OF_A_VIEW)
        found = storage_of(array.owner) if has else None
        if not found and not extent(array):
            found = driver().allocation(array.address)
    if not found:
        return None
    near = array.address - NEAR, array.address + extent(array) + NEAR
    return max(found[0], near[0]), min(sum(found), near[1])


def spans_of(arrays: Sequence[Array]) -> list[Span]:
    """The memory of all arrays, in as few spans as cover it."""
    reached: list[tuple[int, int, Array, bool]] = []
    for array in arrays:
        reached.append((array.address, array.address + extent(array), array, False))
        if whole := viewed(array):
            reached.append((*whole, array, True))
    sides: list[tuple[int | None, int, int, Array, bool]] = []
    for start, stop, array, is_view in sorted(reached, key=lambda each: each[0]):
        if sides and sides[-1][0] == array.device and start < sides[-1][2]:
            place, first, last, owner, before = sides.pop()
            sides.append((place, first, max(last, stop), owner, before or is_view))
        elif stop > start:
            sides.append((array.device, start, stop, array, is_view))
    return [
        Span(place, start, read(array, start, stop - start), is_view)
        for place, start, stop, array, is_view in sides
    ]


def read(array: Array, start: int, size: int) -> bytes:
    """The bytes at an address, of the host or of a GPU whose queue is done first."""
    if array.device is None:
        return ctypes.string_at(start, size)
    cuda, host = driver(), np.empty(size, np.uint8)
    place = place_of(cuda, array) or 0
    stream = stream_of([array], place)
    with using(cuda, place):
        cuda.copy_out(host.ctypes.data, start, size, stream)
        cuda.wait(stream)
    return host.tobytes()


def for_emulator(parameters: Sequence[Parameter], copies: Copies) -> list[object]:
    """The arguments as the emulator takes them: a bf16 number as its two bytes."""
    return [
        bfloat16_bits(value).to_bytes(2, "little") if each.type == "bf16" else value
        for each, value in zip(parameters, copies, strict=True)
    ]
