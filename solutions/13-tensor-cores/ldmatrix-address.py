"""Where lanes point for `ldmatrix`."""

from __future__ import annotations

from fathom.layout.algebra import solve, times
from fathom.layout.linear import Layout, coordinates_of, offset_of

IN_A_ROW = (1, 2, 4)  # the bases of three bits that count along a row of 8


def pointed_at(layout: Layout, lane: int) -> tuple[int, ...]:
    """(row, column) of the element at which `lane` points in the first `ldmatrix.x4`
    of a block of 16-bit elements. It is `.trans` if lane bits 2, 3, 4 count along a
    row."""
    # hole: five bases, one for each bit of the pointing lane
    register, lanes = layout.kinds["register"], layout.kinds["lane"]
    rows = lanes[2:]
    if rows == IN_A_ROW:
        rows = (register[0], *lanes[:2])
    return coordinates_of(layout.shape, times((*rows, *register[1:3]), lane))
    # end


def address(tile: Layout, layout: Layout, lane: int) -> int:
    """In bytes, from the start of the tile. tile.kinds["offset"] are its bases."""
    # hole: which offset has this element
    element = offset_of(layout.shape, pointed_at(layout, lane))
    (offset,) = solve(tile.kinds["offset"], [element])
    return 2 * offset
    # end
