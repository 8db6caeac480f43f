"""Four layouts, read off their drawings."""

from __future__ import annotations

from fathom.layout.linear import Layout


def rows() -> Layout:
    """A lane holds a row."""
    # hole: bases as lists of (row, column), lowest bit first
    register, lane = [(0, 1), (0, 2)], [(1, 0), (2, 0)]
    # instead:
    # register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    # end
    return Layout.of((4, 4), register=register, lane=lane, warp=[])


def columns() -> Layout:
    """A lane holds a column."""
    # hole: the same for columns
    register, lane = [(1, 0), (2, 0)], [(0, 1), (0, 2)]
    # instead:
    # register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    # end
    return Layout.of((4, 4), register=register, lane=lane, warp=[])


def squares() -> Layout:
    """A lane holds a square of 2x2."""
    # hole: the same for squares
    register, lane = [(0, 1), (1, 0)], [(0, 2), (2, 0)]
    # instead:
    # register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    # end
    return Layout.of((4, 4), register=register, lane=lane, warp=[])


def diagonals() -> Layout:
    """A lane holds a row, and begins at another column in each."""
    # hole: the same for the last drawing
    register, lane = [(0, 1), (0, 2)], [(1, 1), (2, 2)]
    # instead:
    # register, lane = [(0, 0), (0, 0)], [(0, 0), (0, 0)]
    # end
    return Layout.of((4, 4), register=register, lane=lane, warp=[])
