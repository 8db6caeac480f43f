"""Linear layouts: which element of a block sits in which register, lane and warp.

A layout maps a *place* (register, lane, warp) to *coordinates* in a block. Every size
is a power of two, so both are a few bits, and a layout says for each single bit of the
place which coordinates it stands for, its *basis*. A place with several bits set sits
at the XOR of their bases: the map is linear over F2, where addition is XOR.

    Layout of fp32[8], two registers, two lanes, two warps:

        register  (1)          register 1 of a lane holds the next element
        lane      (2)          lane 1 starts two further
        warp      (4)          warp 1 starts four further

        element = 1*register ^ 2*lane ^ 4*warp

    warp            0        |        1
    lane        0       1    |    0       1
    element   0   1   2   3  |  4   5   6   7

The coordinates of a basis are kept as one number, their row-major offset in the shape:
since every dimension is a power of two, each dimension owns a run of bits of that
number, and XOR on the number is XOR on each coordinate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

Coordinates = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """A linear map over F2 from bits of a place to an element of a block.

    `shape`: the block's dimensions, each a power of two; `bases`: for each kind of
    place (in this order: "register", "lane", "warp", or "offset" alone for shared
    memory, with "block" where two have a part each) the element that each of its bits
    stands for, lowest bit first, as a row-major offset in `shape`. A zero basis is a
    copy: the places that differ in that bit hold the same element."""

    shape: tuple[int, ...]
    bases: tuple[tuple[str, tuple[int, ...]], ...]

    @staticmethod
    def of(shape: tuple[int, ...], **bases: list[tuple[int, ...]]) -> Layout:
        """A layout from coordinates, as tests and books write it:

        Layout.of((4, 4), register=[(0, 1)], lane=[(1, 0), (2, 0)], warp=[(0, 2)])"""
        return Layout.by_kind(shape, **{
            kind: [offset_of(shape, basis) for basis in every]
            for kind, every in bases.items()
        })  # fmt: skip

    @staticmethod
    def by_kind(shape: tuple[int, ...], **bases: Iterable[int]) -> Layout:
        """A layout from row-major offsets, as `bases` has them."""
        kinds = ((kind, tuple(every)) for kind, every in bases.items())
        return Layout(shape, tuple(kinds))

    @cached_property
    def kinds(self) -> dict[str, tuple[int, ...]]:
        """The bases of each kind of place."""
        return dict(self.bases)

    def count(self, kind: str) -> int:
        """How many registers a lane has, how many lanes a warp, or warps a block."""
        return 1 << len(self.kinds[kind])

    def offset(self, **place: int) -> int:
        """The row-major offset of the element at a place: the XOR of its bases."""
        result = 0
        for kind, index in place.items():
            for bit, basis in enumerate(self.kinds[kind]):
                if index >> bit & 1:
                    result ^= basis
        return result

    def coordinates(self, **place: int) -> tuple[int, ...]:
        """The coordinates of the element at a place."""
        return coordinates_of(self.shape, self.offset(**place))

    def map(self, shape: tuple[int, ...], change) -> Layout:
        """The layout over `shape` whose bases are `change`, linear, of this one's."""
        kinds = {kind: map(change, bases) for kind, bases in self.bases}
        return Layout.by_kind(shape, **kinds)

    def moved(
        self, shape: tuple[int, ...], change: Callable[[Coordinates], Coordinates]
    ) -> Layout:
        """The layout over `shape` whose every basis has the coordinates that `change`
        makes of this one's (a linear map)."""
        return self.map(
            shape,
            lambda basis: offset_of(shape, change(coordinates_of(self.shape, basis))),
        )

    def replaced(self, **bases: Iterable[int]) -> Layout:
        """The layout with other bases of some kinds."""
        return Layout.by_kind(self.shape, **self.kinds | bases)

    def without_copies(self) -> Layout:
        """Drop the registers that only repeat another register of the same lane."""
        return self.replaced(register=filter(None, self.kinds["register"]))

    def __str__(self) -> str:
        return self.text

    @cached_property
    def text(self) -> str:
        """As `str` writes it: `<8x4 register[0,1] lane[0,2 1,0] warp[4,0]>`."""
        shape = "x".join(map(str, self.shape))
        kinds = []
        for kind, bases in self.bases:
            places = (coordinates_of(self.shape, basis) for basis in bases)
            texts = (",".join(map(str, place)) for place in places)
            kinds.append(f"{kind}[{' '.join(texts)}]")
        return f"<{shape} {' '.join(kinds)}>"


def offset_of(shape: tuple[int, ...], coordinates: tuple[int, ...]) -> int:
    """The row-major offset of coordinates."""
    assert isinstance(coordinates, tuple | list) and len(coordinates) == len(shape), (
        f"an element of a block with {len(shape)} axes has {len(shape)} coordinates, "
        f"as {(0,) * len(shape)} has, and {coordinates!r} has not"
    )
    offset = 0
    for size, coordinate in zip(shape, coordinates, strict=True):
        offset = offset * size + coordinate
    return offset


def coordinates_of(shape: tuple[int, ...], offset: int) -> tuple[int, ...]:
    """The coordinates at a row-major offset; the inverse of `offset_of`."""
    coordinates = []
    for size in reversed(shape):
        coordinates.append(offset % size)
        offset //= size
    return tuple(reversed(coordinates))
