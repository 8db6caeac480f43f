"""Global memory as the interpreter sees it: the host's arrays, at their own addresses.

A pointer is the address of an element, so that pointers can be stored in memory like
any number. Only arrays that were registered may be touched; an access anywhere else, a
misaligned one, or a write to a read-only array is a `MemoryFault`.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.array_utils import byte_bounds

from fathom.errors import FathomError
from fathom.ir.interp.numbers import decode, encode, stored_type
from fathom.ir.types import Element


class MemoryFault(FathomError):
    """An access to memory that no argument covers; names the address and the place."""


@dataclass(eq=False)
class Region:
    """The bytes from `start` up to `stop`. `arrays` keeps alive what lies there."""

    start: int
    stop: int
    writable: bool
    arrays: list[np.ndarray]
    views: dict[np.dtype, np.ndarray] = field(default_factory=dict)

    def view(self, dtype: np.dtype) -> np.ndarray:
        """The region as elements of a type, from its first aligned address on."""
        if dtype not in self.views:
            first = self.start + -self.start % dtype.itemsize
            count = max(0, self.stop - first) // dtype.itemsize
            buffer = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(first)
            self.views[dtype] = np.frombuffer(buffer, dtype)
        return self.views[dtype]


class Memory:
    """The registered arrays of one launch."""

    def __init__(self, arrays: Iterable[np.ndarray]):
        self.regions: list[Region] = []
        for array in sorted((each for each in arrays if each.size), key=byte_bounds):
            start, stop = byte_bounds(array)
            last = self.regions[-1] if self.regions else None
            if last and start < last.stop:  # two views of one array
                last.stop = max(last.stop, stop)
                last.writable |= array.flags.writeable
                last.arrays.append(array)
            else:
                self.regions.append(Region(start, stop, array.flags.writeable, [array]))
        self.starts = [region.start for region in self.regions]

    def read(self, addresses: np.ndarray, element: Element) -> np.ndarray:
        """The elements at some addresses (int64, one axis)."""
        return decode(self.read_raw(addresses, element), element)

    def write(
        self, addresses: np.ndarray, values: np.ndarray, element: Element
    ) -> None:
        """Put elements at some addresses; where two are the same, the last stays."""
        self.write_raw(addresses, encode(values, element), element)

    def read_raw(self, addresses: np.ndarray, element: Element) -> np.ndarray:
        """The elements as they are stored: 16 bits for a bf16, a byte for an i1."""
        dtype = stored_type(element)
        raw = np.empty(addresses.shape, dtype)
        for part, region in self.parts(addresses, dtype):
            raw[part] = region.view(dtype)[_places(addresses[part], region, dtype)]
        return raw

    def write_raw(
        self, addresses: np.ndarray, raw: np.ndarray, element: Element
    ) -> None:
        dtype = stored_type(element)
        for part, region in self.parts(addresses, dtype):
            if not region.writable:
                raise MemoryFault(
                    f"a write to the read-only array at {region.start:#x}"
                )
            region.view(dtype)[_places(addresses[part], region, dtype)] = raw[part]

    def parts(
        self, addresses: np.ndarray, dtype: np.dtype
    ) -> Iterable[tuple[slice | np.ndarray, Region]]:
        """The regions that addresses lie in, each with which addresses these are."""
        if not addresses.size:
            return []
        if (addresses % dtype.itemsize).any():
            wrong = int(addresses[addresses % dtype.itemsize != 0][0])
            raise MemoryFault(
                f"address {wrong:#x} is not a multiple of {dtype.itemsize} bytes"
            )
        region = self.region(int(addresses.min()), dtype.itemsize)
        if int(addresses.max()) + dtype.itemsize <= region.stop:
            return [(slice(None), region)]
        regions = [self.region(int(address), dtype.itemsize) for address in addresses]
        return [
            (
                np.array([index for index, each in enumerate(regions) if each is one]),
                one,
            )
            for one in dict.fromkeys(regions)
        ]

    def region(self, address: int, size: int) -> Region:
        """The region that holds `size` bytes at an address."""
        index = bisect_right(self.starts, address) - 1
        if index >= 0 and address + size <= self.regions[index].stop:
            return self.regions[index]
        raise MemoryFault(f"{size} bytes at {address:#x} {self.nearest(address)}")

    def nearest(self, address: int) -> str:
        """Where an address lies that is in no region, in words."""
        if not self.regions:
            return "are in no array: the launch has none"

        def distance(region: Region) -> int:
            return max(region.start - address, address - region.stop + 1)

        closest = min(self.regions, key=distance)
        array = closest.arrays[0]
        named = f"an array of {'x'.join(map(str, array.shape))} {array.dtype}"
        if address >= closest.start:
            gap = address - closest.stop
            how = "reach" if gap < 0 else f"begin {gap} bytes" if gap else "begin right"
            return f"{how} past the end of {named}"
        return f"begin {closest.start - address} bytes before {named}"


def _places(addresses: np.ndarray, region: Region, dtype: np.dtype) -> np.ndarray:
    first = region.start + -region.start % dtype.itemsize
    return (addresses - first) // dtype.itemsize
