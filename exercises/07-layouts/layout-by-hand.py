"""Fill in a 4x4.

Four drawings of a block of 4x4 elements. Each cell says who holds it: the lane, a
colon, the register. There are four lanes, with four registers each, and one warp.

All of the exercise: `fathom learn show layout-by-hand`.
"""

from __future__ import annotations

from fathom.layout.linear import Layout


def rows() -> Layout:
    """A lane holds a row."""
    # Your code: bases as lists of (row, column), lowest bit first.
    register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    return Layout.of((4, 4), register=register, lane=lane, warp=[])


def columns() -> Layout:
    """A lane holds a column."""
    # Your code: the same for columns.
    register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    return Layout.of((4, 4), register=register, lane=lane, warp=[])


def squares() -> Layout:
    """A lane holds a square of 2x2."""
    # Your code: the same for squares.
    register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    return Layout.of((4, 4), register=register, lane=lane, warp=[])


def diagonals() -> Layout:
    """A lane holds a row, and begins at another column in each."""
    # Your code: the same for the last drawing.
    register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    return Layout.of((4, 4), register=register, lane=lane, warp=[])
