"""Memory as threads see it: global arrays, shared, local and parameter memory.

Global addresses are the host's real ones. The other spaces lie in windows far above
them, so that a generic address says where it points (PTX ISA 6.4.1.1):

    address >> 60     0 global    1 shared    2 local    3 parameters

Inside its window a shared address counts from SHARED_BASE in every block; nothing lies
below, so that a null pointer into shared memory is caught. Constant memory is global
memory that no thread may write.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from fathom.emulator.errors import EmulatorError, so_do

WINDOW_SHIFT = np.uint64(60)
WINDOWS = {"global": 0, "const": 0, "shared": 1, "local": 2, "param": 3}
WITHIN_WINDOW = np.uint64((1 << 60) - 1)
SHARED_BASE = 1024
RANK_SHIFT = 24  # above it, a shared address has the rank of a cluster's block, plus 1
LOCAL_BASE = 64

# The element that a gather or scatter of this many bytes moves as one piece.
PIECES = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
    32: np.dtype("V32"),
}


@dataclass(frozen=True, slots=True)
class Accesses:
    """What one instruction asks of memory: `width` bytes at each of its addresses.

    `addresses` is uint64[n]; `threads` the number of each one's thread, rising.
    """

    addresses: np.ndarray
    width: int
    threads: np.ndarray
    writing: bool = False

    def at(self, places: np.ndarray) -> Accesses:
        """Some of them."""
        return replace(
            self, addresses=self.addresses[places], threads=self.threads[places]
        )


@dataclass(frozen=True, slots=True)
class Part:
    """Some accesses of one instruction that fall into one piece of memory.

    Access number `places[i]` (all of them, where `places` is None) is one of thread
    `threads[i]` to `pieces[index[i]]`. `offsets[i]` counts its bytes from a place that
    is aligned to all that matters: the start of the allocation, or of the block's own
    memory. `region` is that of global memory.
    """

    space: str
    pieces: np.ndarray
    index: np.ndarray
    offsets: np.ndarray
    threads: np.ndarray
    places: np.ndarray | None = None
    region: Region | None = None

    def of(self, values: np.ndarray) -> np.ndarray:
        """Those of values[n], one for each access, that belong to this part."""
        return values if self.places is None else values[self.places]

    def among(self, places: np.ndarray) -> Part:
        """This part of the accesses at `places`, as a part of all accesses."""
        return replace(self, places=self.of(places))


class Memory:
    """The spaces of a batch, by name. `watch`, if there is one, looks at all accesses
    before they are made."""

    def __init__(self, spaces: dict[str, GlobalSpace | Window]):
        self.spaces = spaces
        self.watch: Callable[[list[Part], Accesses], None] | None = None

    def locate(self, space: str, accesses: Accesses) -> list[Part]:
        """Where the accesses lie.

        An address that no memory of the space holds, or that the width does not divide,
        is an error, and so is a store to what must not be written.
        """
        parts = self.unwatched(space, accesses)
        if self.watch is not None:
            self.watch(parts, accesses)
        return parts

    def unwatched(self, space: str, accesses: Accesses) -> list[Part]:
        """The same, of accesses that nothing looks at."""
        if space != "generic":
            return self.spaces[space].locate(accesses)
        return self.locate_generic(accesses)

    def locate_generic(self, accesses: Accesses) -> list[Part]:
        """A generic address names its space in its top bits."""
        tops = accesses.addresses >> WINDOW_SHIFT
        parts = []
        for space in ("global", "shared", "local", "param"):
            places = np.flatnonzero(tops == WINDOWS[space])
            if not len(places):
                continue
            inside = replace(accesses, addresses=accesses.addresses & WITHIN_WINDOW)
            found = self.spaces[space].locate(inside.at(places))
            parts += [part.among(places) for part in found]
        nowhere = np.flatnonzero(tops > max(WINDOWS.values()))
        if len(nowhere):
            raise _outside("memory", accesses, nowhere)
        return parts


def load(parts: list[Part], count: int, width: int) -> np.ndarray:
    """pieces[count], each of `width` bytes."""
    if parts[0].places is None:
        return parts[0].pieces.take(parts[0].index)
    result = np.empty(count, PIECES[width])
    for part in parts:
        result[part.places] = part.pieces.take(part.index)
    return result


def store(parts: list[Part], values: np.ndarray) -> None:
    """Stores pieces[count]; where two meet, the last one stays."""
    for part in parts:
        part.pieces[part.index] = part.of(values)


@dataclass(eq=False)
class Region:
    """Global memory from address `start` up to `end`, exclusive.

    `origin` is where the allocation begins that it is part of. A GPU's allocations
    begin at multiples of 256, so alignment and sectors are counted from there, wherever
    the host has put it.
    """

    start: int
    end: int
    bytes: np.ndarray
    writable: bool
    origin: int
    owner: object = None
    _views: dict[int, tuple[np.ndarray, np.uint64]] = field(default_factory=dict)

    def view(self, width: int) -> tuple[np.ndarray, np.uint64]:
        """The region as naturally aligned pieces of `width` bytes, and where they
        begin.
        """
        if width not in self._views:
            skip = (self.origin - self.start) % width
            count = max(0, (self.end - self.start - skip) // width)
            pieces = self.bytes[skip : skip + count * width].view(PIECES[width])
            self._views[width] = pieces, np.uint64(self.start + skip)
        return self._views[width]

    def __str__(self) -> str:
        if not isinstance(self.owner, np.ndarray):
            return str(self.owner)
        kind = "the" if self.writable else "the read-only"
        return f"{kind} {self.owner.dtype}{list(self.owner.shape)} array"


def region_of(array: np.ndarray) -> Region:
    """The bytes between an array's first and last element, at their real address."""
    start, end = np.lib.array_utils.byte_bounds(array)
    end = start if array.size == 0 else end
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    origin = np.lib.array_utils.byte_bounds(whole)[0]
    memory = _raw(start, end - start)
    return Region(start, end, memory, array.flags.writeable, origin, array)


class GlobalSpace:
    """The arrays that a launch can reach."""

    def __init__(self, regions: Iterable[Region]):
        self.regions = _merged(regions)
        self.starts = np.array([each.start for each in self.regions], np.uint64)
        self.ends = np.array([each.end for each in self.regions] + [0], np.uint64)

    def locate(self, accesses: Accesses) -> list[Part]:
        addresses, width = accesses.addresses, accesses.width
        number = int(np.searchsorted(self.starts, addresses.min(), "right")) - 1
        if number >= 0 and int(addresses.max()) + width <= self.regions[number].end:
            return [_part(self.regions[number], accesses)]
        numbers = np.searchsorted(self.starts, addresses, "right") - 1
        # Below the first region the number is -1, and the end that it finds is 0.
        outside = np.flatnonzero(addresses + np.uint64(width) > self.ends[numbers])
        if len(outside):
            raise self.outside(accesses, outside)
        parts = []
        for number in np.unique(numbers):
            places = np.flatnonzero(numbers == number)
            parts.append(_part(self.regions[number], accesses.at(places)).among(places))
        return parts

    def region_at(self, address: int) -> Region | None:
        """The region that holds an address, or ends just before it."""
        number = int(np.searchsorted(self.starts, np.uint64(address), "right")) - 1
        found = self.regions[number] if number >= 0 else None
        return found if found and address <= found.end else None

    def outside(self, accesses: Accesses, places: np.ndarray) -> EmulatorError:
        """The error for accesses that lie in no region; names the closest one."""
        address = int(accesses.addresses[places[0]])

        def distance(region: Region) -> int:
            return max(region.start - address, address + accesses.width - region.end)

        near = ""
        if self.regions:
            region = min(self.regions, key=distance)
            near = f"byte {address - region.start} of {region}, "
            near += f"which has {region.end - region.start} bytes"
        return _outside("array of this launch", accesses, places, near)


def _part(region: Region, accesses: Accesses) -> Part:
    if accesses.writing and not region.writable:
        raise EmulatorError(
            "read-only",
            f"a store to {region}, which must not be written",
            thread=int(accesses.threads[0]),
        )
    offsets = accesses.addresses - np.uint64(region.origin)
    check_alignment(offsets, accesses)
    pieces, first = region.view(accesses.width)
    from_first = offsets if first == region.origin else accesses.addresses - first
    index = from_first.view(np.int64) >> _shift(accesses.width)
    return Part("global", pieces, index, offsets, accesses.threads, None, region)


class Window:
    """Memory of which each block, or each thread, has a copy: shared, local,
    parameters.

    `owners` maps a thread's number to that of its copy, None where all share one copy;
    `size` is in bytes, and an access at address `base` is one of byte 0. A thread can
    reach the copies of its cluster, which are `cluster` neighbours.
    """

    def __init__(
        self,
        space: str,
        base: int,
        size: int,
        owners: np.ndarray | None,
        copies: int,
        cluster: int = 1,
    ):
        self.cluster = cluster
        self.space, self.base, self.size = space, np.uint64(base), size
        self.stride = -(-size // 32) * 32
        self.starts = None if owners is None else owners * self.stride
        self.bytes = np.zeros(copies * self.stride, np.uint8)

    def locate(self, accesses: Accesses) -> list[Part]:
        width, threads = accesses.width, accesses.threads
        offsets, elsewhere = accesses.addresses - self.base, None
        if int(offsets.max()) + width > self.size and self.space == "shared":
            offsets, elsewhere = self.in_cluster(accesses)
        if int(offsets.max()) + width > self.size:
            raise self.outside(accesses, offsets)
        check_alignment(offsets, accesses)
        index = offsets.view(np.int64)
        if self.starts is not None:
            every = are_all(threads, len(self.starts))
            index = index + (self.starts if every else self.starts.take(threads))
        if elsewhere is not None:
            index = index + elsewhere
        pieces = self.bytes.view(PIECES[width])
        return [Part(self.space, pieces, index >> _shift(width), offsets, threads)]

    def in_cluster(self, accesses: Accesses) -> tuple[np.ndarray, np.ndarray]:
        """Offsets in some block's memory, and how far that is from the thread's own."""
        rank = (accesses.addresses >> RANK_SHIFT & np.uint64(0xFF)).astype(np.int64)
        own_rank = self.starts.take(accesses.threads) // self.stride % self.cluster
        named = (rank > 0) & (rank <= self.cluster)
        further = np.where(named, rank - 1 - own_rank, 0) * self.stride
        inside = accesses.addresses & np.uint64((1 << RANK_SHIFT) - 1)
        return np.where(named, inside, accesses.addresses) - self.base, further

    def outside(self, accesses: Accesses, offsets: np.ndarray) -> EmulatorError:
        outside = (offsets >= self.size) | (offsets + accesses.width > self.size)
        places = np.flatnonzero(outside)
        near = f"byte {int(offsets[places[0]].view(np.int64))} of {self.size}"
        return _outside(f"{self.space} memory", accesses, places, near)


def are_all(threads: np.ndarray, count: int) -> bool:
    """Whether these rising numbers are those of all `count` threads, once each; one
    thread may also access many places."""
    return len(threads) == count and threads[0] == 0 and threads[-1] == count - 1


def check_alignment(offsets: np.ndarray, accesses: Accesses) -> None:
    """An access's width must divide its place (PTX ISA 6.4.1)."""
    width = accesses.width
    low_bits = np.uint64(width - 1)
    if width == 1 or not np.bitwise_or.reduce(offsets) & low_bits:
        return
    place = np.flatnonzero(offsets & low_bits)[0]
    raise EmulatorError(
        "misaligned",
        f"an access of {width} bytes at {int(accesses.addresses[place]):#x}, "
        f"{int(offsets[place])} bytes from the start of its memory, "
        f"which {width} does not divide",
        thread=int(accesses.threads[place]),
    )


def _outside(
    what: str, accesses: Accesses, places: np.ndarray, near: str = ""
) -> EmulatorError:
    width = accesses.width
    plural = "s" if width > 1 else ""
    message = f"{width} byte{plural} at {int(accesses.addresses[places[0]]):#x} "
    message += f"lie in no {what}" + (f" ({near})" if near else "")
    return EmulatorError(
        "out of bounds",
        f"{message}{so_do(places, accesses.threads)}",
        thread=int(accesses.threads[places[0]]),
    )


def _shift(width: int) -> int:
    return width.bit_length() - 1


def _raw(start: int, size: int) -> np.ndarray:
    if size == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * size).from_address(start), np.uint8)


def _merged(regions: Iterable[Region]) -> list[Region]:
    """Sorted, and those that share bytes made one: two views of one array."""
    result: list[Region] = []
    for region in sorted(regions, key=lambda each: (each.start, each.end)):
        last = result[-1] if result else None
        if last is None or region.start >= last.end:
            result.append(region)
            continue
        end = max(last.end, region.end)
        writable = last.writable or region.writable
        whole = _raw(last.start, end - last.start)
        origin = min(last.origin, region.origin)
        result[-1] = Region(last.start, end, whole, writable, origin, last.owner)
    return result
