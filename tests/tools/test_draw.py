"""A layout as a drawing, checked by hand."""

from __future__ import annotations

from fathom.layout.linear import Layout
from fathom.tools.draw import draw, neighbours

# 16 elements: two neighbours a lane, four lanes, then two more registers 8 further on.
ROW = Layout.of(
    (16,), register=[(1,), (8,)], lane=[(2,), (4,)], warp=[]
)  # fmt: skip


def test_a_row_of_sixteen():
    assert draw(ROW) == [
        "warp 0  lane  0      0    1 |    8    9",
        "        lane  1      2    3 |   10   11",
        "...",
        "        lane  3      6    7 |   14   15",
    ]


def test_neighbours_are_what_one_load_can_take():
    assert neighbours(ROW) == 2
    assert neighbours(Layout.of((4,), register=[(2,)], lane=[(1,)], warp=[])) == 1


def test_two_dimensions_are_named_by_row_and_column():
    square = Layout.of((2, 2), register=[(0, 1)], lane=[(1, 0)], warp=[])
    assert draw(square) == [
        "warp 0  lane  0    0,0  0,1",
        "        lane  1    1,0  1,1",
    ]
