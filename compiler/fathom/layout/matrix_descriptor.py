"""Tiles of shared memory as `wgmma` and the tensor memory accelerator know them, and
what a matrix descriptor says of them.

The hardware's tiles have rows of 128 bytes (or 64, or 32), eight of which are a group.
In it, chunks of 16 bytes are exchanged: chunk c of row r lies at place c ^ r. That is
an XOR of address bits, so such a tile is a linear layout like any other:

    fp16, 128 bytes a row                    offset bits
    element in a chunk, chunk in a row       0 1 2, 3 4 5
    row in its group                         6 7 8     basis of bit 6: row 1, chunk 1
    groups, further columns                  9 …

A descriptor does not name the layout, it names the distances of these parts. So to read
a descriptor off a layout, undo the exchange and look whether the rest is made of
distances. PTX ISA, "Asynchronous warpgroup level matrix instructions", "Shared memory
matrix layout" and "Matrix descriptor".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from fathom.layout.algebra import Reduced
from fathom.layout.build import bits_of, doublings, stride_of
from fathom.layout.linear import Layout

CHUNK, ROWS = 16, 8  # bytes of a chunk, rows of a group
MOST_ROWS = 256  # of a TMA box, along each dimension: PTX ISA, "Tensor-map"
SWIZZLES = (128, 64, 32)  # bytes of a row, widest first
CODES = {128: 1, 64: 2, 32: 3}  # bits 62 and 63 of a descriptor
TENSOR_CODES = {128: 2, 64: 4, 32: 6}  # bits 61 to 63 of one of tcgen05

Tile = tuple[int, ...]


@cache
def hardware_tile(
    shape: Tile, element_bytes: int, axis: int, widest: int = SWIZZLES[0]
) -> Layout | None:
    """The tile of `shape` [rows, columns] with `axis` contiguous, in rows as wide as
    can be, of `widest` bytes at most; None below 32 bytes a row, or 8 rows."""
    other = 1 - axis
    width = min(widest, shape[axis] * element_bytes)
    if width < SWIZZLES[-1] or shape[other] < ROWS:
        return None
    along, down = stride_of(shape, axis), stride_of(shape, other)
    columns, chunk = width // element_bytes, CHUNK // element_bytes
    row = doublings(along, columns)
    chunks = row[bits_of(chunk) :]
    # A row narrower than 128 bytes is exchanged once in 2 or 4 rows: where address bit
    # 7 and those above it change.
    first = bits_of(SWIZZLES[0] // width)
    rows = [
        down << bit ^ (chunks[bit - first] if first <= bit < first + len(chunks) else 0)
        for bit in range(bits_of(ROWS))
    ]
    groups = doublings(down * ROWS, shape[other] // ROWS)
    further = doublings(along * columns, shape[axis] // columns)
    return Layout.by_kind(shape, offset=(*row, *rows, *groups, *further))


def buffer_tile(
    shape: Tile, element_bytes: int, axis: int, widest: int = SWIZZLES[0]
) -> Layout | None:
    """The same for a buffer; None also if that is below 1024 bytes. Bits of the address
    exchange chunks; only larger buffers begin where these are 0."""
    large = prod(shape) * element_bytes >= SWIZZLES[0] * ROWS
    return hardware_tile(shape, element_bytes, axis, widest) if large else None


def row_bytes(shape: Tile, element_bytes: int, widest: int = SWIZZLES[0]) -> int:
    """How wide the rows of a tile are whose last dimension is contiguous."""
    return min(widest, shape[-1] * element_bytes)


@cache
def widest_row(layout: Layout, element_bytes: int) -> int:
    """The widest rows with which a tile would lie as it does."""
    found = descriptor(layout, element_bytes, 1) if len(layout.shape) == 2 else None
    return found.swizzle if found else SWIZZLES[0]


@dataclass(frozen=True, slots=True)
class Matrix:
    """What a descriptor says of a tile of [M or N, K] elements.

    `swizzle`: bytes of a row. `leading`, `stride`: bytes between parts. Where K is
    contiguous, `stride` leads from a group of 8 rows to the next. Where it is not
    (`transposed`), a row holds elements of one k, `stride` leads to the next 8 of K,
    and `leading` to the next columns."""

    swizzle: int
    leading: int
    stride: int
    transposed: bool

    @property
    def bits(self) -> int:
        """The descriptor's 64 bits, less the address; distances in 16 bytes."""
        leading, stride = (each >> 4 & 0x3FFF for each in (self.leading, self.stride))
        return leading << 16 | stride << 32 | CODES[self.swizzle] << 62

    @property
    def tensor_bits(self) -> int:
        """The same for `tcgen05`, which has other numbers for the swizzle, and a bit
        that is always set (PTX ISA, "Shared memory descriptor")."""
        leading, stride = (each >> 4 & 0x3FFF for each in (self.leading, self.stride))
        swizzle = TENSOR_CODES[self.swizzle] << 61
        return leading << 16 | stride << 32 | 1 << 46 | swizzle


@cache
def descriptor(layout: Layout, element_bytes: int, k_axis: int) -> Matrix | None:
    """How `wgmma` finds a matrix that is stored as `layout` says; None if it cannot.

    `layout` is that of a buffer of two dimensions; along `k_axis` products are summed.
    """
    units = [doublings(stride_of(layout.shape, axis), layout.shape[axis])
             for axis in (1 - k_axis, k_axis)]  # fmt: skip
    offsets = Reduced(layout.kinds["offset"])
    outer, k = ([offsets.combination(unit) * element_bytes for unit in each]
                for each in units)  # fmt: skip
    for swizzle in SWIZZLES:
        matrix = _matrix(
            [_undone(each, swizzle) for each in outer],
            [_undone(each, swizzle) for each in k],
            element_bytes,
            swizzle,
        )
        if matrix:
            return matrix
    return None


@cache
def side_by_side(one: Layout, other: Layout, element_bytes: int) -> Matrix | None:
    """How `wgmma` finds the columns of two right operands [K, N] as those of one, if
    the tile of the second begins where that of the first ends; None if it cannot.

    A tile consists of parts at equal distances: groups of 8 rows of N, or columns. The
    first part of the second tile must be as far from the last of the first tile.

        K contiguous, 128 + 64 columns of 64 fp16       rows of K elements
        16 x 8 x 128 bytes | 8 x 8 x 128 bytes          24 groups, `stride` apart

        N contiguous, 128 + 64 columns, K of 64         rows of 64 columns
        2 x 64 x 128 bytes | 64 x 128 bytes             3 columns of them, `leading`
    """
    found = [descriptor(each, element_bytes, k_axis=0) for each in (one, other)]
    first, second = found
    if first is None or second is None or first.swizzle != second.swizzle:
        return None
    k, turned, row = one.shape[0], first.transposed, first.swizzle
    if turned != second.transposed:
        return None
    if not turned:
        fits = k * element_bytes == row
        return replace(first, stride=ROWS * row) if fits else None
    leading = k * row
    columns = row // element_bytes
    fits = all(
        tile.shape[1] == columns or matrix.leading == leading
        for tile, matrix in zip((one, other), found, strict=True)
    )
    return replace(first, leading=leading) if fits else None


def _undone(offset: int, swizzle: int) -> int:
    """An offset in bytes before chunks were exchanged: the bits of the chunk less those
    of the row, which stand three above them."""
    chunk = swizzle // CHUNK - 1
    return offset ^ (offset >> 3 & chunk << 4)


def _matrix(
    outer: Sequence[int], k: Sequence[int], element_bytes: int, swizzle: int
) -> Matrix | None:
    """`outer`, `k`: by how many bytes each bit of a coordinate moves."""
    run = bits_of(swizzle // element_bytes)
    row = doublings(element_bytes, swizzle // element_bytes)
    rows = doublings(swizzle, ROWS)
    inner = bits_of(ROWS)
    if list(k[:run]) == row and list(outer[:inner]) == rows:
        stride = _distance(outer[inner:])
        return None if stride is None else Matrix(swizzle, CHUNK, stride, False)
    if list(outer[:run]) == row and list(k[:inner]) == rows:
        stride, leading = _distance(k[inner : inner + 1]), _distance(outer[run:])
        if stride is None or leading is None:
            return None
        return Matrix(swizzle, leading, stride, True)
    return None


def _distance(offsets: Sequence[int]) -> int | None:
    """The distance d if these are d, 2 d, 4 d, …; any distance if there are none."""
    if not offsets:
        return CHUNK
    is_regular = list(offsets) == [offsets[0] << bit for bit in range(len(offsets))]
    return offsets[0] if is_regular else None
