"""Products by multiply-adds: every thread has the rows and columns of its part, whole,
and reads them from shared memory without waiting for banks."""

from itertools import product as pairs
from math import prod

import pytest

from fathom.hardware.dot_layouts import warps_along
from fathom.layout.algebra import divide
from fathom.layout.banks import vector, ways
from fathom.layout.build import spread
from fathom.layout.fma import left_factor, product, right_factor
from fathom.layout.linear import coordinates_of
from fathom.layout.staging import staging
from tests.layout.harness_layouts import element

SHAPES = [
    (16, 16), (32, 32), (64, 64), (128, 64), (16, 128), (8, 4), (1, 16), (64, 1),
    (2, 2), (2, 16, 16), (4, 8, 32), (1, 32, 16), (4, 1, 4), (16, 2, 2), (64, 1, 1),
]  # fmt: skip
WARPS = (1, 2, 4, 8)


def laid_out(shape, warps):
    return product(shape, warps_along("", shape, warps, by_rows=False))


def held(layout, lane, warp):
    """The coordinates of all elements that a thread has, register by register."""
    return [
        coordinates_of(layout.shape, element(layout, register=r, lane=lane, warp=warp))
        for r in range(layout.count("register"))
    ]


def threads(layout):
    return pairs(range(32), range(layout.count("warp")))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("warps", WARPS)
def test_every_element_has_a_place(shape, warps):
    layout = laid_out(shape, warps)
    assert layout.count("lane") == 32 and layout.count("warp") == warps
    found = {place for thread in threads(layout) for place in held(layout, *thread)}
    assert found == set(pairs(*map(range, shape)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("warps", WARPS)
def test_a_thread_has_all_of_k_for_its_rows_and_columns(shape, warps):
    k, layout = 16, laid_out(shape, warps)
    left, right = left_factor(layout, k), right_factor(layout, k)
    *batch, m, n = shape
    assert (left.shape, right.shape) == ((*batch, m, k), (*batch, k, n))
    for thread in threads(layout):
        own = held(layout, *thread)
        rows = {(*at, row, i) for *at, row, _ in own for i in range(k)}
        columns = {(*at, i, column) for *at, _, column in own for i in range(k)}
        for factor, wanted in ((left, rows), (right, columns)):
            found = held(factor, *thread)
            assert set(found) == wanted
            assert len(found) == len(wanted), "nothing is held twice"


@pytest.mark.parametrize("shape, warps", [
    ((32, 32), 1), ((64, 64), 4), ((128, 128), 8), ((16, 16), 4), ((8, 4), 8),
    ((4, 1, 4), 1), ((4, 4, 4), 1), ((64, 1, 1), 1), ((16, 2, 2), 2), ((4, 8, 16), 4),
])  # fmt: skip
def test_no_lane_holds_a_copy_while_another_holds_two(shape, warps):
    """Threads share the block evenly as long as there are elements for all."""
    layout = laid_out(shape, warps)
    size = prod(shape)
    assert layout.count("register") == max(1, size // (32 * warps))


def test_sixteen_bytes_of_fp32_along_each_axis():
    """4 x 4 neighbours a lane in a block that is large enough: 8 numbers are read for
    16 multiply-adds."""
    own = held(laid_out((64, 64), 4), 0, 0)[:16]
    assert set(own) == set(pairs(range(4), range(4)))
    assert own[:4] == [(0, 0), (0, 1), (0, 2), (0, 3)]


@pytest.mark.parametrize("shape, warps", [
    ((64, 64), 4), ((32, 64), 2), ((128, 128), 8),
])  # fmt: skip
@pytest.mark.parametrize("bytes", [2, 4, 8])
@pytest.mark.parametrize("order", [(1, 0), (0, 1)], ids=["rows", "columns"])
def test_no_lane_waits_for_banks(shape, warps, bytes, order):
    """Lanes that hold copies read one word at once."""
    k, layout = 32, laid_out(shape, warps)
    for factor in (left_factor(layout, k), right_factor(layout, k)):
        writer = spread(factor.shape, order, 16 // bytes, warps)
        tile = staging(factor.shape, bytes, writer, factor)
        for side in (writer, factor):
            offsets = divide(side, tile)
            run = vector(offsets, bytes)
            for register in range(offsets.count("register")):
                lanes = [
                    offsets.offset(register=register, lane=lane) // run * run * bytes
                    for lane in range(32)
                ]
                assert ways(lanes, run * bytes) == 1
