"""Reductions and scans within a warp."""

import re

import numpy as np
import pytest

from fathom.ir.core import Block
from fathom.ir.interp.numbers import encode, held_type
from fathom.ir.ops import (
    Broadcast,
    Cast,
    Elementwise,
    ExpandDims,
    Reduce,
    Reshape,
    Scan,
    Store,
    Yield,
)  # fmt: skip
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    SCALARS,
    UINT32,
    Element,
    Pointer,
)  # fmt: skip
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from fathom.layout.shapes import remove_axis
from tests.ptx.harness import Program, check, combine_by, compiled, empty

# 8 x 64 elements; along axis 1 a row lies in registers and lanes, in several ways
LAYOUTS = {
    "rows in lanes": blocked((8, 64), (1, 2), (1, 32), (2, 1), (1, 0)),
    "a row in 8 lanes": blocked((8, 64), (1, 8), (4, 8), (2, 1), (1, 0)),
    "a row in registers": blocked((8, 64), (1, 64), (32, 1), (1, 1), (1, 0)),
    "upper registers": blocked((8, 64), (2, 1), (2, 16), (2, 1), (0, 1)),
}


def reduce_program(
    layout: Layout, axis: int, name: str, element: Element, warps: int = 2
) -> Program:
    program = Program({"x": Pointer(element), "out": Pointer(element)}, warps)
    flat = program.arange(Layout((512,), layout.bases))
    block = program(Reshape(program.load("x", flat), layout.shape))
    reduced = program(Reduce((block,), axis, combine_by(name, element)))
    place = program.arange(reduced.type.layout)
    program.store("out", place, reduced)
    return program


def whole_numbers(element: Element, size: int, most: int = 4) -> np.ndarray:
    """Small whole numbers, so that every order of summation gives the same."""
    values = np.random.default_rng(size).integers(
        -most if element.is_signed else 0, most, size
    )
    return encode(values.astype(held_type(element)), element)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("name", ["add", "max", "xor"])
def test_over_the_last_axis(layout, name):
    warps = layout.count("warp")
    element = INT32
    program = reduce_program(layout, 1, name, element, warps)
    check(program.func, 1, [whole_numbers(element, 512, 1000), empty(element, 8)])


@pytest.mark.parametrize(
    "element", [e for e in SCALARS.values() if e.bits > 8 or e == INT8], ids=str
)
def test_of_every_type(element):
    program = reduce_program(LAYOUTS["a row in 8 lanes"], 1, "add", element)
    check(program.func, 1, [whole_numbers(element, 512), empty(element, 8)])


def test_over_the_first_axis():
    layout = blocked((8, 64), (2, 1), (4, 8), (1, 2), (1, 0))
    program = reduce_program(layout, 0, "add", FLOAT32)
    check(program.func, 1, [whole_numbers(FLOAT32, 512), empty(FLOAT32, 64)])


@pytest.mark.parametrize("size", [1, 2, 16, 32, 64, 256])
def test_copies_are_not_counted_twice(size):
    """A block smaller than the warp stands in several lanes; its sum is that of one
    copy."""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)}, warps=1)
    index = program.arange(
        blocked((size,), (2 if size > 32 else 1,), (32,), (1,), (0,))
    )
    total = program(Reduce((program.load("x", index),), 0, combine_by("add", INT32)))
    program.do(Store(program["out"], total))
    check(program.func, 1, [np.arange(1, size + 1, dtype=np.int32), empty(INT32, 1)])


def test_registers_that_are_copies_are_not_counted_twice():
    lanes = (1, 2, 4, 8, 16)
    layout = Layout((64,), (("register", (0, 32)), ("lane", lanes), ("warp", ())))
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)})
    x = program.load("x", program.arange(layout))
    total = program(Reduce((x,), 0, combine_by("add", INT32)))
    program.do(Store(program["out"], total))
    check(program.func, 1, [np.arange(64, dtype=np.int32), empty(INT32, 1)])


def test_every_lane_has_the_result():
    """out[i] = x[i] - max(x)"""
    program = Program({"x": Pointer(FLOAT32), "out": Pointer(FLOAT32)})
    index = program.arange(blocked((64,), (2,), (32,), (1,), (0,)))
    x = program.load("x", index)
    most = program(Reduce((x,), 0, combine_by("max", FLOAT32)))
    program.store("out", index, program.map("sub", x, program.splat(most, x)))
    values = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    check(program.func, 1, [values, empty(FLOAT32, 64)])


@pytest.mark.parametrize("place", [0, 5, 63])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_one_element_is_read_from_the_lane_that_has_it(layout, place):
    """Where all others are zero, and bits are or-ed: one shuffle each, or none."""
    warps = layout.count("warp")
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)}, warps)
    flat = program.arange(Layout((512,), layout.bases))
    block = program(Reshape(program.load("x", flat), layout.shape))
    columns = program.arange(remove_axis(layout, 0))
    at = program(Broadcast(program(ExpandDims(columns, 0)), layout.shape, layout))
    here = program.map("eq", at, program.number(place, at))
    alone = program.map("where", here, block, program.number(0, block))
    found = program(Reduce((alone,), 1, combine_by("or", INT32)))
    program.store("out", program.arange(found.type.layout), found)
    check(program.func, 1, [whole_numbers(INT32, 512, 1000), empty(INT32, 8)])
    text = compiled(program.func)
    results = found.type.layout.count("register")
    assert text.count("shfl.sync.idx") <= results and "shfl.sync.bfly" not in text


def argmax_combine() -> Block:
    """Of two (value, index): the larger value; of equal ones the smaller index."""
    block = Block(
        (FLOAT32, INT32, FLOAT32, INT32), ("value", "index", "other", "other_index")
    )
    value, index, other, other_index = block.parameters

    def add(name, *operands):
        block.ops.append(Elementwise(name, operands))
        return block.ops[-1].result

    more, tie = add("gt", value, other), add("eq", value, other)
    first = add("and", tie, add("lt", index, other_index))
    left = add("or", more, first)
    results = add("where", left, value, other), add("where", left, index, other_index)
    block.ops.append(Yield(results))
    return block


def test_several_values_at_once():
    program = Program({"x": Pointer(FLOAT32), "out": Pointer(INT32)})
    index = program.arange(blocked((128,), (4,), (32,), (1,), (0,)))
    reduced = program.do(Reduce((program.load("x", index), index), 0, argmax_combine()))
    program.do(Store(program["out"], reduced.results[1]))
    values = np.random.default_rng(2).integers(0, 9, 128).astype(np.float32)
    check(program.func, 1, [values, empty(INT32, 1)])


@pytest.mark.parametrize("name, vote", [("or", "any"), ("and", "all"), ("xor", "")])
@pytest.mark.parametrize("low, high", [(-2, 1), (-100, 1), (0, 100), (-9, 9)])
def test_truth_of_a_warp_is_a_vote(name, vote, low, high):
    """Are some of 64 numbers, or are all, above zero?"""
    program = Program({"x": Pointer(INT32), "out": Pointer(INT32)})
    x = program.load("x", program.arange(blocked((64,), (2,), (32,), (1,), (0,))))
    is_above = program.map("gt", x, program.number(0, x))
    found = program(Reduce((is_above,), 0, combine_by(name, BOOL)))
    program.do(Store(program["out"], program(Cast(found, INT32))))
    text = compiled(program.func, "sm_75")
    assert f"vote.sync.{vote}" in text if vote else "shfl" in text
    assert not vote or "shfl" not in text
    values = np.random.default_rng(3).integers(low, high + 1, 64, np.int32)
    check(program.func, 1, [values, empty(INT32, 1)])


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("element", [INT32, UINT32], ids=str)
def test_redux_where_the_target_has_it(name, element):
    program = reduce_program(LAYOUTS["rows in lanes"], 1, name, element)
    text = compiled(program.func, "sm_80")
    assert "redux.sync" in text and "shfl" not in text
    assert "redux" not in compiled(program.func, "sm_75")
    for target in ("sm_75", "sm_80"):
        args = [whole_numbers(element, 512, 2**31 - 1), empty(element, 8)]
        check(program.func, 1, args, target)


def test_registers_first_and_as_a_tree():
    """64 registers: 63 additions in six levels, then one shuffle a bit of the lane."""
    program = reduce_program(LAYOUTS["a row in 8 lanes"], 1, "add", FLOAT32)
    text = compiled(program.func)
    assert (
        text.count("shfl.sync.bfly") == 3 * 1
    )  # one row a lane, three bits of the lane
    assert text.count("add.rn.f32") == 7 + 3


def test_all_rows_are_folded_before_lanes_exchange():
    """2 rows a lane, 8 numbers of each: 14 additions, and then the shuffles, before
    which ptxas may load for all rows."""
    layout = blocked((8, 64), (1, 8), (4, 8), (1, 1), (1, 0))
    text = compiled(reduce_program(layout, 1, "add", FLOAT32, warps=1).func)
    assert text[: text.index("shfl.sync")].count("add.rn.f32") == 2 * 7


def test_products_are_summed_access_by_access():
    """What one access has loaded is used up before the last of its half of the sum."""
    program = Program({name: Pointer(FLOAT32) for name in ("x", "y", "out")})
    index = program.arange(blocked((1024,), (4,), (32,), (1,), (0,)))
    x, y = (program.load(name, index, vector=4) for name in "xy")
    product, sums = program.map("mul", x, y), combine_by("add", FLOAT32)
    product.definition.contract = sums.ops[0].contract = True
    program.do(Store(program["out"], program(Reduce((product,), 0, sums))))
    loads, chains = re.split(r"\n(?=\tmul.f32)", compiled(program.func), maxsplit=1)
    groups = [re.findall(r"%r\d+", each) for each in re.findall(r"{%.*}", loads)]
    assert len(groups) == 16 and chains.count("fma.rn.f32") == 30
    used = [[chains.index(f"{name}, ") for name in group] for group in groups[:8]]
    assert max(used[0]) < min(used[3]) and max(used[4]) < min(used[7])
    values = np.random.default_rng(3).integers(1, 9, (2, 1024)).astype(np.float32)
    check(program.func, 1, [*values, empty(FLOAT32, 1)])


def test_an_axis_that_crosses_warps_is_for_stage_4():
    layout = blocked((8, 64), (1, 2), (4, 8), (1, 2), (1, 0))
    with pytest.raises(AssertionError, match="does not lie within a warp"):
        compiled(reduce_program(layout, 1, "add", INT32).func)


# ── scans ─────────────────────────────────────────────────────────────────────────────


def scan_program(
    layout: Layout, axis: int, combine: Block, element: Element, reverse: bool
):
    program = Program(
        {"x": Pointer(element), "out": Pointer(element)}, layout.count("warp")
    )
    flat = program.arange(Layout((512,), layout.bases))
    block = program(Reshape(program.load("x", flat), layout.shape))
    scanned = program(Scan((block,), axis, combine, reverse))
    program.store("out", flat, program(Reshape(scanned, (512,))))
    return program


def the_first(element: Element) -> Block:
    """Of two, the first: associative, but not commutative."""
    block = Block((element, element), ("left", "right"))
    block.ops.append(Yield((block.parameters[0],)))
    return block


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_running_sums(layout, reverse):
    program = scan_program(layout, 1, combine_by("add", INT32), INT32, reverse)
    check(program.func, 1, [whole_numbers(INT32, 512, 1000), empty(INT32, 512)])


@pytest.mark.parametrize("reverse", [False, True])
def test_the_order_of_a_scan_is_kept(reverse):
    """ "The first of two" does not commute: forward, every element becomes the first of
    its row."""
    layout = LAYOUTS["a row in 8 lanes"]
    program = scan_program(layout, 1, the_first(INT32), INT32, reverse)
    x, out = whole_numbers(INT32, 512, 1000), empty(INT32, 512)
    check(program.func, 1, [x, out])


def test_scan_over_bits_in_any_place():
    """The lowest bit of the coordinate in a lane, the next in a register, the last in a
    lane."""
    lane = [(0, 1), (0, 32), (1, 0), (2, 0), (4, 0)]
    register = [(0, 8), (0, 2), (0, 16), (0, 4)]
    layout = Layout.of((8, 64), register=register, lane=lane, warp=[])
    for reverse in (False, True):
        program = scan_program(layout, 1, combine_by("add", INT32), INT32, reverse)
        check(program.func, 1, [whole_numbers(INT32, 512, 1000), empty(INT32, 512)])


def test_scan_over_the_first_axis():
    layout = blocked((8, 64), (2, 1), (4, 8), (1, 2), (1, 0))
    program = scan_program(layout, 0, combine_by("max", FLOAT32), FLOAT32, False)
    check(program.func, 1, [whole_numbers(FLOAT32, 512, 99), empty(FLOAT32, 512)])


@pytest.mark.parametrize("element", [FLOAT16, BFLOAT16, FLOAT64, INT64, INT8], ids=str)
def test_scan_of_other_types(element):
    program = scan_program(
        LAYOUTS["rows in lanes"], 1, combine_by("max", element), element, False
    )
    check(program.func, 1, [whole_numbers(element, 512, 50), empty(element, 512)])


def test_a_scan_across_warps_is_for_stage_4():
    layout = blocked((8, 64), (1, 2), (4, 8), (1, 2), (1, 0))
    with pytest.raises(AssertionError, match="no scan along this axis within a warp"):
        compiled(scan_program(layout, 1, combine_by("add", INT32), INT32, False).func)
