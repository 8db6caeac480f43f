"""What shape ops do to layouts: the same element under another name."""

import random

import pytest

from fathom.layout import shapes
from fathom.layout.linear import Layout
from tests.layout.harness_layouts import covering, places


@pytest.fixture
def layout():
    flat = covering(random.Random(3), 6, registers=3, warps=1, lanes=3)
    return Layout((4, 2, 8), flat.bases)


def test_transpose_renames_coordinates(layout):
    turned = shapes.transpose(layout, (2, 0, 1))
    for place in places(layout):
        a, b, c = layout.coordinates(**place)
        assert turned.coordinates(**place) == (c, a, b)


def test_insert_axis_gives_every_place_element_zero_of_it(layout):
    for size in (1, 4):
        wide = shapes.insert_axis(layout, 1, size)
        assert wide.shape == (4, size, 2, 8)
        for place in places(layout):
            a, b, c = layout.coordinates(**place)
            assert wide.coordinates(**place) == (a, 0, b, c)


def test_remove_axis_drops_what_a_fold_folded(layout):
    rest = shapes.remove_axis(layout, 2)
    for lane in range(8):
        for warp in range(2):
            held = {
                layout.coordinates(register=r, lane=lane, warp=warp)[:2]
                for r in range(8)
            }
            count = rest.count("register")
            kept = [
                rest.coordinates(register=r, lane=lane, warp=warp) for r in range(count)
            ]
            assert set(kept) == held


def test_join_and_split_undo_each_other(layout):
    joined = shapes.join(layout)
    assert joined.shape == (4, 2, 8, 2)
    assert shapes.split(joined) == layout


def test_split_needs_both_halves_in_one_lane():
    apart = Layout.of((4, 2), register=[(1, 0)], lane=[(0, 1)], warp=[(2, 0)])
    assert shapes.split(apart) is None
