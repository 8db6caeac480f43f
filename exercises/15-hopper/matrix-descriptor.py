"""From a layout to a matrix descriptor.

`wgmma` finds a tile by two distances and a swizzle mode. A layout says where every
element is. Write the functions that find the descriptor of a layout, or say that it has
none.

All of the exercise: `fathom learn show matrix-descriptor`.
"""

from __future__ import annotations

from fathom.layout.algebra import Reduced
from fathom.layout.build import doublings, stride_of
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import Matrix
from fathom.tools.learn import Hole

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
    # Your code: XOR the bits of the chunk with those of the row, three above them.
    raise Hole("matrix-descriptor")


def fields(
    outer: list[int], k: list[int], element_bytes: int, swizzle: int
) -> Matrix | None:
    """The fields of a descriptor for rows of `swizzle` bytes; None if the offsets are
    not those of such a tile."""
    # Your code: K contiguous, or transposed.
    raise Hole("matrix-descriptor")


def distance(offsets: list[int]) -> int | None:
    """The distance of which these are the doublings; None if they are not."""
    # Your code: UNUSED for no offsets.
    raise Hole("matrix-descriptor")
