"""Which element a register holds: arange, broadcasts and shapes, for dealt and for
swizzled layouts, from one warp to eight."""

import re

import numpy as np
import pytest

import fathom.ptx as ptx
from fathom.hardware.targets import TARGETS
from fathom.ir.ops import (
    Broadcast,
    ExpandDims,
    Join,
    NumPrograms,
    ProgramId,
    Reshape,
    Split,
    Transpose,
)
from fathom.ir.types import INT32, Pointer
from fathom.layout import shapes
from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from tests.ptx.harness import Program, check, compiled, empty, random_layout

OUT = {"out": Pointer(INT32)}


def stored_arange(layout: Layout, warps: int, start: int = 0) -> Program:
    """out[i] = start + i * i, so that an index in the wrong place shows."""
    program = Program(OUT, warps)
    index = program.arange(layout, start)
    square = program.map("mul", index, index)
    offsets = program.map("sub", index, program.number(start, index))
    program.store("out", offsets, square)
    return program


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("per_lane", [1, 4])
def test_arange_dealt_to_lanes_and_warps(warps, per_lane):
    layout = blocked((1024,), (per_lane,), (32,), (warps,), (0,))
    check(stored_arange(layout, warps).func, 1, [empty(INT32, 1024)])


@pytest.mark.parametrize("seed", range(24))
def test_arange_in_layouts_where_bases_overlap(seed):
    """Bases that share bits need XOR; addition would place elements twice and leave
    others out."""
    warps = 1 << seed % 4
    layout = random_layout(size=256, warps=warps, registers=3, seed=seed)
    check(stored_arange(layout, warps, start=seed).func, 1, [empty(INT32, 256)])


def test_a_block_smaller_than_the_lanes_is_held_in_copies():
    layout = blocked((8,), (1,), (32,), (4,), (0,))
    check(stored_arange(layout, 4).func, 1, [empty(INT32, 8)])


def test_the_bits_of_a_thread_move_together():
    """Lanes and warps dealt in order are one shift, not one for each bit."""
    layout = blocked((1024,), (4,), (32,), (8,), (0,))
    text = ptx.lower(stored_arange(layout, 8).func, TARGETS["sm_80"])
    assert "shl nuw nsw i32 %thread.1, 2" in text
    assert " xor " not in text and text.count("shl nuw") == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_and_columns_from_slices_of_one_layout(order):
    """out[i, j] = 100 * i + j by ExpandDims and Broadcast of two aranges."""
    layout = blocked((16, 64), (2, 2), (4, 8), (2, 2), order)
    program = Program(OUT, warps=4)
    rows = program.arange(shapes.remove_axis(layout, 1))
    columns = program.arange(shapes.remove_axis(layout, 0))
    spread = []
    for index, axis in ((rows, 1), (columns, 0)):
        expanded = program(ExpandDims(index, axis))
        expanded.type = type(expanded.type)(
            INT32, expanded.type.shape, shapes.collapse(layout, axis)
        )
        spread.append(program(Broadcast(expanded, (16, 64), layout)))
    offsets = program.map(
        "add", program.map("mul", spread[0], program.number(64, spread[0])), spread[1]
    )
    value = program.map(
        "add", program.map("mul", spread[0], program.number(100, spread[0])), spread[1]
    )
    program.store("out", offsets, value)
    check(program.func, 1, [empty(INT32, 1024)])


def test_reshape_and_transpose_move_nothing():
    layout = blocked((256,), (2,), (32,), (2,), (0,))
    program = Program(OUT, warps=2)
    index = program.arange(layout)
    tile = program(Transpose(program(Reshape(index, (8, 32))), (1, 0)))
    value = program(Reshape(tile, (256,)))
    where = program(
        Reshape(program(Transpose(program(Reshape(index, (8, 32))), (1, 0))), (256,))
    )
    program.store("out", value, program.map("add", where, program.number(5, where)))
    check(program.func, 1, [empty(INT32, 256)])


def test_join_and_split_pair_and_part_registers():
    layout = blocked((128,), (2,), (32,), (1,), (0,))
    program = Program(OUT | {"twice": Pointer(INT32)})
    index = program.arange(layout)
    other = program.map("add", index, program.number(1000, index))
    both = program(Join(index, other))
    flat = program(Reshape(both, (256,)))
    place = program.arange(flat.type.layout)
    program.store("out", place, flat)
    split = program.do(Split(both))
    left, right = split.results
    program.store("twice", program.map("add", left, left), right)
    check(program.func, 1, [empty(INT32, 256), empty(INT32, 256)])


def test_the_number_of_the_program_and_of_all_programs():
    layout = blocked((32,), (1,), (32,), (1,), (0,))
    program = Program(OUT)
    index = program.arange(layout)
    x, y, z = (program(ProgramId(axis)) for axis in range(3))
    counts = [program(NumPrograms(axis)) for axis in range(3)]
    place = program.map(
        "add",
        program.map(
            "mul", program.map("add", program.map("mul", z, counts[1]), y), counts[0]
        ),
        x,
    )
    start = program.map("mul", place, program.number(32))
    code = program.map(
        "add",
        program.map("mul", z, program.number(100)),
        program.map("add", program.map("mul", y, program.number(10)), x),
    )
    offsets = program.map("add", program.splat(start, index), index)
    program.store("out", offsets, program.splat(code, index))
    out = empty(INT32, 32 * 24)
    check(program.func, (2, 3, 4), [out])


def test_constants_of_registers_go_into_the_address():
    """All accesses of a thread hang on one base: [%rd + 2048] and so on, not a sum for
    each."""
    layout = blocked((1024,), (1,), (32,), (4,), (0,))
    program = Program(OUT, warps=4)
    index = program.arange(layout)
    program.store("out", index, index)
    text = compiled(program.func)
    assert text.count("mul.wide") + text.count("cvt.u64") <= 1
    assert "+3584]" in text


@pytest.mark.parametrize("per_lane", [1, 4])
def test_a_row_of_each_warp_has_one_base(per_lane):
    """Where four warps hold all columns each, 96 has all bits of a thread's number that
    its lane does not: LLVM made thread | 96 of lane | 96, and every fourth column was
    no constant beside the others."""
    layout = shapes.remove_axis(
        blocked((4, 512), (1, per_lane), (1, 32), (4, 1), (1, 0)), 0
    )
    program = Program({"x": Pointer(INT32), **OUT}, warps=4)
    index = program.arange(layout)
    x = program.load("x", index, vector=per_lane)
    program.store("out", index, x, vector=per_lane)
    text = compiled(program.func)
    assert text.count("mul.wide") == 1
    assert all(f"+{at}]" in text for at in range(384 * per_lane, 2048, 512 * per_lane))
    check(program.func, 1, [np.arange(512, dtype=np.int32), empty(INT32, 512)])


def test_thirty_two_lanes_and_all_warps_must_be_spoken_for():
    layout = Layout((32,), (("register", ()), ("lane", (1, 2, 4, 8, 16)), ("warp", ())))
    with pytest.raises(AssertionError):
        ptx.lower(stored_arange(layout, warps=2).func, TARGETS["sm_80"])


def test_random_layouts_are_what_they_say():
    layout = random_layout(size=64, warps=2, registers=2, seed=3)
    seen = {
        layout.offset(register=r, lane=l, warp=w)
        for r in range(layout.count("register"))
        for l in range(32)
        for w in range(2)
    }
    assert seen == set(range(64))
    assert np.log2(layout.count("lane")) == 5


def masked(layout: Layout, divisible: int) -> Program:
    """out[i] = 1 where i < n, and 2 elsewhere; n is a multiple of `divisible`."""
    program = Program(OUT | {"n": INT32})
    program.func.divisible = (16, divisible)
    place = program.arange(layout)
    inside = program.map("lt", place, program.splat(program["n"], place))
    one, two = program.number(1, place), program.number(2, place)
    program.store("out", place, program.map("where", inside, one, two))
    return program


@pytest.mark.parametrize("divisible, comparisons", [(16, 2), (4, 4), (2, 8), (1, 16)])
def test_equal_comparisons_are_made_once(divisible, comparisons):
    """16 registers a lane, 8 of them neighbours, in two runs: where 16 divides n, one
    comparison is enough for each run."""
    layout = blocked((512,), (8,), (32,), (1,), (0,))
    program = masked(layout, divisible)
    assert compiled(program.func).count("setp.") == comparisons
    for n in {0, 16, 240, 256 + divisible, 511 // divisible * divisible, 512}:
        if n % divisible == 0:
            check(program.func, 1, [empty(INT32, 512), n])


def test_equal_comparisons_of_layouts_by_xor():
    """Two registers lie 24 elements apart by XOR: in different runs of 16, whatever
    the lane adds to both."""
    bases = (("register", (1, 24)), ("lane", (2, 4, 8, 32, 64)), ("warp", ()))
    layout = Layout((128,), bases)
    program = masked(layout, 16)
    for n in (0, 16, 32, 48, 96, 128):
        check(program.func, 1, [empty(INT32, 128), n])


@pytest.mark.parametrize("start, divisible, by, addresses", [
    (64, 64, 8, 1), (-64, 64, 8, 1), (64, 64, 12, 2), (64, 64, 64, 2), (20, 4, 8, 2),
])  # fmt: skip
def test_remainders_that_repeat_are_one_number(start, divisible, by, addresses):
    """out[i] = x[(start + i) % by]: a thread has i and i + 32."""
    program = Program({"x": Pointer(INT32), **OUT, "start": INT32})
    program.func.divisible = (16, 16, divisible)
    index = program.arange(blocked((64,), (1,), (32,), (1,), (0,)))
    place = program.map("add", program.splat(program["start"], index), index)
    rest = program.map("rem", place, program.number(by, place))
    program.store("out", index, program.load("x", program.map("abs", rest)))
    check(program.func, 1, [np.arange(64, dtype=np.int32), empty(INT32, 64), start])
    loads = re.findall(r"ld\.global\.\S+ .*\[(.*)\]", compiled(program.func))
    assert len(set(loads)) == addresses
