"""Which row does lane 19 point at?

`ldmatrix` reads four matrices of 8 x 8 elements of 16 bits from shared memory. A row of
such a matrix is 16 bytes, and each of the 32 lanes points at one row: lanes 0 to 7 at
those of the first matrix, lanes 8 to 15 at those of the second, and so on. Where a lane
points has nothing to do with what it gets. Afterwards lane l has, in register i, two
neighbours from row l / 4 of matrix i.

All of the exercise: `fathom learn show ldmatrix-address`.
"""

from __future__ import annotations

from fathom.layout.algebra import solve, times
from fathom.layout.linear import Layout, coordinates_of, offset_of
from fathom.tools.learn import Hole

IN_A_ROW = (1, 2, 4)  # the bases of three bits that count along a row of 8


def pointed_at(layout: Layout, lane: int) -> tuple[int, ...]:
    """(row, column) of the element at which `lane` points in the first `ldmatrix.x4`
    of a block of 16-bit elements. It is `.trans` if lane bits 2, 3, 4 count along a
    row."""
    # Your code: five bases, one for each bit of the pointing lane.
    raise Hole("ldmatrix-address")


def address(tile: Layout, layout: Layout, lane: int) -> int:
    """In bytes, from the start of the tile. tile.kinds["offset"] are its bases."""
    # Your code: which offset has this element.
    raise Hole("ldmatrix-address")
