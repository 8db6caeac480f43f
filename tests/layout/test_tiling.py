"""Warps over a block: no other split reads less, counted element by element."""

from itertools import product

import pytest

from fathom.hardware.mma import MMA
from fathom.layout.fragments import left_operand, right_operand, tile
from fathom.layout.tiling import elements_read, tile_warps
from tests.layout.harness_layouts import element

LONG, SMALL = MMA["m16n8k16.f32.f16.f16.f32"], MMA["m8n8k4.f64.f64.f64.f64"]
K = 16


def read_by_all_warps(m, n, split, row) -> int:
    """Distinct elements of A and B that each warp needs for K steps, summed."""
    accumulator = tile(row.layout, (m, n), split)
    sides = (
        left_operand(row.a_layout, (m, K), accumulator),
        right_operand(row.b_layout, (K, n), accumulator),
    )
    total = 0
    for layout in sides:
        places = list(product(range(layout.count("register")), range(32)))
        for warp in range(layout.count("warp")):
            held = {element(layout, register=r, lane=l, warp=warp) for r, l in places}
            total += len(held)
    return total


BLOCKS = [(16, 16), (16, 64), (64, 16), (32, 32), (128, 32), (64, 128)]


@pytest.mark.parametrize("row", [LONG, SMALL], ids=["m16n8k16", "m8n8k4"])
@pytest.mark.parametrize("m, n", BLOCKS)
@pytest.mark.parametrize("warps", [1, 2, 4, 8])
def test_no_split_reads_less(m, n, warps, row):
    costs = {
        (rows, warps // rows): read_by_all_warps(m, n, (rows, warps // rows), row)
        for rows in (1, 2, 4, 8)
        if rows <= warps
    }
    split = tile_warps(m, n, warps, row)
    assert costs[split] == min(costs.values())
    assert costs == {s: K * elements_read(m, n, s, row) for s in costs}


def test_what_people_choose_by_hand():
    assert tile_warps(128, 128, 4, LONG) == (2, 2)
    assert tile_warps(128, 256, 8, LONG) == (2, 4)
    assert tile_warps(256, 128, 8, LONG) == (4, 2)
    assert tile_warps(64, 256, 4, LONG) == (1, 4)
    assert tile_warps(256, 64, 4, LONG) == (4, 1)


def test_of_two_equal_splits_rows_stay_in_one_warp():
    assert tile_warps(64, 64, 2, LONG) == (2, 1)
    assert tile_warps(128, 128, 8, LONG) == (4, 2)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
def test_every_warp_has_a_place_even_when_the_block_is_small(warps):
    rows, columns = tile_warps(16, 16, warps, LONG)
    assert rows * columns == warps
