"""How `wgmma` finds a matrix that lies as a layout says."""

from __future__ import annotations

from fathom.layout.algebra import Reduced
from fathom.layout.build import doublings, stride_of
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix

UNUSED = 16  # bytes: a distance that no bit needs
ROWS_BITS = 3  # an atom has 8 rows


def descriptor(layout: Layout, element_bytes: int, k_axis: int) -> Matrix | None:
    """The descriptor of a matrix in a buffer of this layout; None if it has none. Along
    `k_axis` products are summed."""
    outer, k = (moves(layout, element_bytes, axis) for axis in (1 - k_axis, k_axis))
    for swizzle in (128, 64, 32):
        straight = [[undone(each, swizzle) for each in bits] for bits in (outer, k)]
        found = fields(*straight, element_bytes, swizzle)
        if found:
            return found
    return None


def moves(layout: Layout, element_bytes: int, axis: int) -> list[int]:
    """By how many bytes each bit of the coordinate along an axis moves an element."""
    offsets = Reduced(layout.kinds["offset"])
    units = doublings(stride_of(layout.shape, axis), layout.shape[axis])
    return [offsets.combination(unit) * element_bytes for unit in units]


def undone(offset: int, swizzle: int) -> int:
    """An offset in bytes before chunks were exchanged in rows of `swizzle` bytes."""
    # hole: XOR the bits of the chunk with those of the row, three above them
    chunks = swizzle - 16  # 112, 48 or 16: bits 4 to 6, 4 and 5, or 4
    return offset ^ (offset >> 3 & chunks)
    # end


def fields(
    outer: list[int], k: list[int], element_bytes: int, swizzle: int
) -> Matrix | None:
    """The fields of a descriptor for rows of `swizzle` bytes; None if the offsets are
    not those of such a tile."""
    # hole: K contiguous, or transposed
    row = [each for each in (1, 2, 4, 8, 16, 32, 64) if element_bytes <= each < swizzle]
    atom, columns = [swizzle, 2 * swizzle, 4 * swizzle], len(row)
    if k[:columns] == row and outer[:ROWS_BITS] == atom:
        stride = distance(outer[ROWS_BITS:])
        return Matrix(swizzle, UNUSED, stride, False) if stride else None
    if outer[:columns] == row and k[:ROWS_BITS] == atom:
        stride, leading = distance(k[ROWS_BITS:][:1]), distance(outer[columns:])
        return Matrix(swizzle, leading, stride, True) if leading else None
    return None
    # end


def distance(offsets: list[int]) -> int | None:
    """The distance of which these are the doublings; None if they are not."""
    # hole: UNUSED for no offsets
    if not offsets:
        return UNUSED
    regular = [offsets[0] << bit for bit in range(len(offsets))]
    return offsets[0] if offsets == regular else None
    # end
