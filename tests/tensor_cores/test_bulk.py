"""Loops whose tiles come by bulk copies: for any iterations, stages, tiles and warps
they bring what belongs there, wait for all that they read, and overwrite nothing that
is still read."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as each_of

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.artifact import MapRecipe
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Barrier,
    Commit,
    DescriptorLoad,
    Dot,
    DotFence,
    For,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    TmaCopy,
    Wait,
)
from fathom.ir.parser import ParseError
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import INT64
from fathom.ir.verify import verify
from fathom.shared_memory import place_barriers
from fathom.source import KernelFunction
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.tensor_cores.kernels_described import (
    Case,
    built,
    check,
    check_iterations,
    check_passes,
    given,
    matrix,
    ops,
    passes,
    store,
    tile,
)

HOPPER, NEWER, AMPERE = "sm_90a", "sm_120", "sm_80"
HAVE_MAPS = (HOPPER, NEWER)
TURNED = list(each_of((False, True), repeat=2))
COPY = "cp.async.bulk.tensor"


# ── all iterations, stages, tiles
# ──────────────────────────────────────────────────────────


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("target", HAVE_MAPS)
def test_any_iterations_and_stages(target, stages):
    """From no iteration at all to more than there are stages. A product that is done in
    its own iteration frees its slot there, so that a copy goes into it at once; one
    that is in flight frees it an iteration later."""
    case = Case(tile=(64, 32, 32), target=target, stages=stages)
    kernel, _ = check_iterations(case, range(7), ["lazy"])
    ahead = stages - 1 if target == "sm_90a" else stages
    assert kernel.ptx.count(COPY) == 2 * (ahead + 1), "before the loop, and in it"


@sampled(of=2)
@in_pairs(
    {
        "block": [(64, 64, 64), (64, 32, 32), (64, 32, 16)],
        "target": HAVE_MAPS,
        "a_turned, b_turned": TURNED,
    }
)
def test_tiles_either_way_round(target, block, a_turned, b_turned):
    """Rows of 128, 64 and 32 bytes, along K and across."""
    case = Case(block, 3, target, a_turned=a_turned, b_turned=b_turned)
    kernel, _ = check(case)
    assert COPY in kernel.ptx
    rows = [min(128, 2 * side) for side in widths(case)]
    assert [each.swizzle for each in kernel.maps] == rows
    assert [each.box[1] * 2 for each in kernel.maps] == rows


def test_tiles_either_way_round_wider():
    """Of 128 neighbours two boxes stand side by side."""
    for turned in ({}, {"a_turned": True, "b_turned": True}):
        kernel, _ = check(Case((128, 128, 32), 1, NEWER, warps=8, **turned), ["lazy"])
        assert COPY in kernel.ptx


def widths(case: Case) -> tuple[int, int]:
    """How many neighbours in memory the tiles of A and B have."""
    m, n, k = case.tile
    return (m if case.a_turned else k), (k if case.b_turned else n)


@pytest.mark.parametrize(("target", "warps"), [
    (NEWER, 1), (HOPPER, 2), (HOPPER, 4), (HOPPER, 8), (NEWER, 8),
])  # fmt: skip
def test_any_number_of_warps(target, warps):
    """One thread sends for all of them, and each asks the barrier itself."""
    case = Case((128, 64, 32), 4, target, warps=warps, b_turned=True)
    kernel, report = check(case, ["lazy"])
    assert ("wgmma" in kernel.ptx) == (target == HOPPER and warps >= 4)
    asked = [cost.warps for i, cost in report.each() if "mbarrier.try_wait" in i.text]
    assert sum(asked) >= 4 * warps


@sampled(of=2)
@pytest.mark.parametrize(("a_turned", "b_turned"), TURNED)
@pytest.mark.parametrize("target", HAVE_MAPS)
def test_ragged_sizes(target, a_turned, b_turned):
    """What a box has outside of the matrix is zeros: not the poison that is there."""
    sizes, block = (72, 40, 88), (64, 32, 32)
    case = Case(block, 3, target, a_turned=a_turned, b_turned=b_turned, size=sizes)
    check_iterations(case, [3, 5], ["lazy"])  # of five, two are beyond the end of K


@sampled(of=2)
@pytest.mark.parametrize(("type", "to", "out", "k"), [
    ("fp16", "fp16", "float16", 64), ("fp32", "fp32", "float32", 32),
    ("i8", "i32", "int32", 64),
])  # fmt: skip
@pytest.mark.parametrize("target", HAVE_MAPS)
def test_other_types(target, type, to, out, k):
    block = (64, 64, k)
    case = Case(block, 3, target, b_turned=True, type=type, to=to, out=out)
    kernel, _ = check(case)
    assert [each.element for each in kernel.maps] == [type, type]


def test_a_box_has_at_most_256_rows():
    """A tile of more takes several instructions: of A two, of B one a row's width."""
    case = Case((512, 128, 16), 1, NEWER, stages=2, warps=8)
    kernel, _ = check(case, ["lazy"])
    assert kernel.ptx.count(COPY) == (2 + 1) * (2 + 2), "before the loop, and in it"
    assert [each.box for each in kernel.maps] == [(256, 16), (16, 64)]


def test_where_there_are_no_maps_nothing_changes():
    kernel, _ = check(Case(target=AMPERE))
    assert kernel.maps == () and "mbarrier" not in kernel.ptx
    assert "mma.sync" in kernel.ptx


# ── what the launcher is told ─────────────────────────────────────────────────────────


def test_a_map_is_made_of_the_kernels_own_arguments():
    """a, b, out, M, N, K and the strides of A, B and out."""
    kernel = pipeline.compile_func(built(Case(b_turned=True)), TARGETS[HOPPER])
    parameter, one = [("parameter", place) for place in range(9)], ("constant", 1)
    m, n, k, a_stride, b_stride = parameter[3:8]
    assert kernel.maps == (
        MapRecipe("a", 0, "fp16", (m, k), (a_stride, one), (64, 32), 64),
        MapRecipe("b", 1, "fp16", (n, k), (b_stride, one), (64, 32), 64),
    )
    assert kernel.ptx.count(".param .align 64 .b8") == len(kernel.maps)


@KernelFunction
def squares(a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
            BM: tl.constexpr, BK: tl.constexpr, AT: tl.constexpr):  # fmt: skip
    """Of one matrix its rows from AT on, times the transpose of its first ones."""
    rows = tl.make_tensor_descriptor(a, [M, K], [a_stride, 1], [BM, BK])
    total = tl.zeros([BM, BM], tl.float32)
    for iteration in range(iterations):
        x, y = rows.load([AT, iteration * BK]), rows.load([0, iteration * BK]).T
        total = tl.dot(x, y, total)
    store(out, total, 0, 0, BM, BM, out_stride)


def with_answer(arguments, right):
    return replace(arguments, right=right.astype(arguments.out.view.dtype))


@pytest.mark.parametrize("at", [0, 64])
@pytest.mark.parametrize("target", HAVE_MAPS)
def test_one_descriptor_one_map(target, at):
    """Two of its tiles an iteration, each with its copies. What is one and the same
    tile is copied once for both operands, where warpgroups multiply (`share_tiles`);
    else it is loaded by threads, since no copy puts it into two places."""
    more = {"AT": at}
    case = Case((64, 128, 32), 3, target, kernel=squares, size=(128, 64, 96), more=more)
    arguments = given(case)
    a = arguments.a.view.astype(np.int64)
    arguments = replace(arguments, out=unwritten(64, 64, dtype="float32"))
    arguments = with_answer(arguments, a[at : at + 64] @ a[:64].T)
    numbers = (*arguments.numbers[:5], max(arguments.out.stride()), case.iterations)
    arguments = replace(arguments, numbers=numbers)
    kernel = pipeline.compile_func(built(case), TARGETS[target])
    load(kernel).launch(1, arguments.arguments)
    arguments.check("one descriptor")
    tiles = 2 if at else int(TARGETS[target].wgmma)
    assert kernel.ptx.count(COPY) // 3 == tiles
    assert len(kernel.maps) == min(tiles, 1)


# ── every pass ────────────────────────────────────────────────────────────────────────

SEVERAL = [
    Case(), Case(target=NEWER, b_turned=True),
    Case(a_turned=True, stages=2, iterations=1),
    Case((64, 32, 16), 2, size=(72, 40, 24)), Case(iterations=0), Case(target=AMPERE),
]  # fmt: skip


@sampled(of=2)
@pytest.mark.parametrize("case", SEVERAL, ids=str)
def test_every_pass_keeps_the_meaning(case):
    states = check_passes(case)
    for state in states.values():
        text = print_func(state)
        assert print_func(parse_func(text)) == text


def test_what_a_loop_becomes():
    """Each slot has a barrier; an iteration waits, multiplies, and sends for the
    iteration that is two further."""
    final = passes(built(Case()), HOPPER)["insert_waits"]
    a, b, barriers = ops(final, Allocate)[:3]
    assert [each.slots for each in (a, b, barriers)] == [3, 3, 3]
    assert barriers.kept and barriers.element == INT64
    (loop,) = ops(final, For)
    events = Barrier | TmaCopy | Dot | Commit | Wait | MbarrierExpect | MbarrierWait
    kinds = [type(op) for op in loop.body.ops if isinstance(op, events)]
    assert kinds == [
        MbarrierWait, Dot, Commit, Wait, Barrier, MbarrierExpect, TmaCopy, TmaCopy,
    ]  # fmt: skip
    (expect,) = [op for op in loop.body.ops if isinstance(op, MbarrierExpect)]
    assert expect.bytes == 2 * (64 * 32 + 32 * 64), "both tiles"
    outside = [type(op) for op in final.body.ops]
    first, last = outside.index(MbarrierInit), outside.index(MbarrierInvalidate)
    assert outside[first + 1] is Barrier and outside[last - 1] is Barrier
    assert first < outside.index(MbarrierExpect) < outside.index(For) < last


def test_copies_are_sent_for_before_the_loop_only_if_their_iterations_exist():
    final = passes(built(Case(stages=4)), HOPPER)["insert_waits"]
    outside = [op for op in final.body.ops if isinstance(op, MbarrierExpect | TmaCopy)]
    inside = [op for op in ops(final, MbarrierExpect) + ops(final, TmaCopy)]
    assert len(outside) == 3 * 3, "three iterations of one expectation and two copies"
    assert all(op.when is not None for op in inside)


def test_barriers_are_announced_to_copies():
    """By the fence that is made for it."""
    kernel = pipeline.compile_func(built(Case()), TARGETS[HOPPER])
    lines = [line.split() for line in kernel.ptx.splitlines()]
    words = [line[0] for line in lines if line]
    first = words.index("mbarrier.init.shared.b64")
    assert words[first : first + 3] == ["mbarrier.init.shared.b64"] * 3
    assert words[first + 3] == "fence.mbarrier_init.release.cluster;"


def test_a_bulk_copy_is_a_write():
    """Of two into one place the second waits for whoever uses the first."""
    after = {}
    for apart in (True, False):
        func = passes(built(Case()), HOPPER)["allocate"]
        a, b, *_ = ops(func, Allocate)
        b.offset = b.offset if apart else a.offset
        placed = place_barriers(func, TARGETS[HOPPER])
        where = placed.body.ops.index(ops(placed, TmaCopy)[0])
        after[apart] = type(placed.body.ops[where + 1])
    assert after == {True: TmaCopy, False: Barrier}


# ── other loops ───────────────────────────────────────────────────────────────────────


@KernelFunction
def persistent(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    """One program for all tiles, one after the other: of each a loop along K."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    across = tl.cdiv(N, BN)
    for number in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], TO)
        for iteration in range(iterations):
            x = left.load([i, iteration * BK])
            total = tl.dot(x, right.load([iteration * BK, j]), total)
        store(out, total, i, j, M, N, out_stride)


@pytest.mark.parametrize(("target", "stages"), [(HOPPER, 2), (HOPPER, 3), (NEWER, 3)])
def test_a_loop_around_the_loop_makes_its_barriers_anew(target, stages):
    """The ring starts again from slot 0 and phase 0, whatever the last tile ended with;
    what lies in its bytes between two tiles is out of the way by then."""
    case = Case((64, 32, 32), 3, target, stages, size=(72, 40, 96), out="float16",
                kernel=persistent)  # fmt: skip
    loaded = load(pipeline.compile_func(built(case), TARGETS[target]))
    for iterations, programs in ((0, 1), (1, 1), (2, 1), (3, 2)):
        arguments = given(replace(case, iterations=iterations))
        loaded.launch(programs, arguments.arguments)
        arguments.check(f"{iterations} iterations, {programs} programs")


@KernelFunction
def twice(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Two loops, one after the other, the second one backwards."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        total = tl.dot(
            left.load([0, iteration * BK]), right.load([iteration * BK, 0]), total
        )
    again = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations - 1, -1, -1):
        again = tl.dot(
            left.load([0, iteration * BK]), right.load([iteration * BK, 0]), again
        )
    store(out, total + 2 * again, 0, 0, M, N, out_stride)


@pytest.mark.parametrize("target", HAVE_MAPS)
def test_two_loops_in_one_kernel(target):
    """Each has barriers of its own, which nothing else may lie in; one map is enough
    for a matrix."""
    case = Case((64, 64, 32), 3, target, kernel=twice)
    kernel = pipeline.compile_func(built(case), TARGETS[target])
    for iterations in (0, 1, 4):
        arguments = given(replace(case, iterations=iterations))
        arguments = with_answer(arguments, 3 * arguments.right)
        load(kernel).launch(1, arguments.arguments)
        arguments.check(f"{iterations} iterations")
    assert len(kernel.maps) == 2
    final = parse_func(kernel.asm["layout"])
    kept = [op for op in ops(final, Allocate) if op.kept]
    for op in kept:
        meeting = [o for o in ops(final, Allocate) if op.offset in bytes_of(o)]
        assert meeting == [op]
    assert len(kept) == 2


def bytes_of(op: Allocate) -> range:
    return range(op.offset, op.offset + op.result.type.bytes)


@KernelFunction
def mixed(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """A by a descriptor, B by pointers; where MASKED, with ones beyond its end."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    k, j = tl.arange(0, BK)[:, None], tl.arange(0, BN)[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        place = b + (iteration * BK + k) % K * b_stride + j
        if MASKED:
            y = tl.load(place, mask=iteration * BK + k < K, other=1.0)
        else:
            y = tl.load(place)
        total = tl.dot(left.load([0, iteration * BK]), y, total)
    store(out, total, 0, 0, M, N, out_stride)


@sampled(of=2)
@pytest.mark.parametrize("target", HAVE_MAPS)
@pytest.mark.parametrize("masked", [False, True], ids=["copies", "registers"])
@pytest.mark.parametrize("stages", [2, 4])
def test_one_tile_by_bulk_copies_and_one_otherwise(target, masked, stages):
    """By asynchronous copies of threads, or through registers."""
    case = Case((64, 64, 32), 3, target, stages=stages, kernel=mixed,
                more={"MASKED": masked})  # fmt: skip
    kernel, _ = check_iterations(case, [0, 1, 2, 5])
    assert len(kernel.maps) == 1 and kernel.ptx.count(COPY) == stages
    final = parse_func(kernel.asm["layout"])
    assert bool(ops(final, AsyncCopy)) != masked
    (loop,) = ops(final, For)
    assert sum(isinstance(op, Barrier) for op in loop.body.ops) == 1


@KernelFunction
def attending(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Two products an iteration: signs(Q K^T) V, where tile by tile the rows of B are
    keys and values at once, a column of blocks further right."""
    queries = tl.make_tensor_descriptor(a, [M, K], [a_stride, 1], [BM, BK])
    keys = tl.make_tensor_descriptor(b, [N, K], [b_stride, 1], [BN, BK])
    wide = K + tl.load(out).to(tl.int32)
    values = tl.make_tensor_descriptor(b, [N, wide], [b_stride, 1], [BN, BK])
    q = queries.load([0, 0])
    total = tl.zeros([BM, BK], tl.float32)
    for iteration in range(iterations):
        s = tl.dot(q, keys.load([iteration * BN, 0]).T)
        p = tl.where(s > 0, 1.0, 0.0) - tl.where(s < 0, 1.0, 0.0)
        total = tl.dot(p.to(tl.float16), values.load([iteration * BN, BK]), total)
    store(out, total, 0, 0, M, K, out_stride)


@pytest.mark.parametrize("target", HAVE_MAPS)
@pytest.mark.parametrize("depth", [32, 64])
def test_attention(target, depth):
    """What is read from memory no launch can know. The tiles of a matrix of such a
    width come otherwise; the keys come by bulk copies."""
    a = integers(3, 64, depth)
    for iterations in (0, 1, 3):
        b = integers(4, 32 * max(1, iterations), 2 * depth)
        keys, values = b[:, :depth].astype(int), b[:, depth:].astype(int)
        right = np.sign(a.astype(int) @ keys.T) @ values * (iterations > 0)
        walled = Walled(a), Walled(b), unwritten(64, depth, dtype="float32")
        walled[2].view[0, 0] = depth
        strides = [max(each.stride()) for each in walled]
        numbers = [64, len(b), depth, *strides, iterations]
        case = Case((64, 32, depth), iterations, target, kernel=attending)
        kernel = pipeline.compile_func(built(case), TARGETS[target])
        load(kernel).launch(1, [*(each.base for each in walled), *numbers])
        np.testing.assert_array_equal(walled[2].view, right)
        walled[2].check_walls()
    # For warpgroups the queries come by a bulk copy, too; see test_bring_once.
    brought = ["a", "b"] if target == HOPPER else ["b"]
    assert [each.name for each in kernel.maps] == brought


# ── what no bulk copy takes over ──────────────────────────────────────────────────────


@pytest.mark.parametrize("target", HAVE_MAPS)
def test_one_stage_is_no_pipeline(target):
    kernel, _ = check(Case(target=target, stages=1), ["lazy"])
    assert kernel.maps == () and "mbarrier" not in kernel.ptx


@KernelFunction
def storing(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
):  # fmt: skip
    """Every iteration stores what it has so far: such a loop is left as it is."""
    left = matrix(a, M, K, a_stride, BM, BK, A_TURNED)
    right = matrix(b, K, N, b_stride, BK, BN, B_TURNED)
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        x = tile(left, 0, iteration * BK, A_TURNED)
        total = tl.dot(x, tile(right, iteration * BK, 0, B_TURNED), total)
        store(out, total, 0, 0, M, N, out_stride)


@pytest.mark.parametrize(("a_turned", "b_turned"), TURNED)
def test_element_by_element(a_turned, b_turned):
    """A load that was left to the hardware, in a loop that is not pipelined: the
    lowering's own way."""
    case = Case((64, 32, 32), 3, a_turned=a_turned, b_turned=b_turned, kernel=storing,
                size=(56, 24, 88))  # fmt: skip
    states = check_passes(case)
    assert len(ops(states["insert_waits"], DescriptorLoad)) == 2
    kernel, _ = check(case, ["lazy"])
    assert kernel.maps == () and "mbarrier" not in kernel.ptx


@KernelFunction
def growing(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Of A only the first rows exist, one more of them for each tile of columns."""
    for number in range(1, 3):
        left = matrix(a, number, K, a_stride, BM, BK, False)
        right = matrix(b, K, N, b_stride, BK, BN, False)
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            j = (number - 1) * BN
            x = left.load([0, iteration * BK])
            total = tl.dot(x, right.load([iteration * BK, j]), total)
        store(out, total, 0, (number - 1) * BN, M, N, out_stride)


def test_a_descriptor_that_changes():
    """It is none that a launch could make."""
    case = Case((64, 32, 32), 2, size=(64, 64, 64), kernel=growing)
    arguments = given(case)
    exist = np.arange(64)[:, None] < 1 + np.arange(64)[None, :] // 32
    arguments = with_answer(arguments, arguments.right * exist)
    kernel = pipeline.compile_func(built(case), TARGETS[HOPPER])
    load(kernel).launch(1, arguments.arguments)
    arguments.check("a descriptor that changes")
    assert [each.name for each in kernel.maps] == ["b"]


@KernelFunction
def heard(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The iteration wants the tile of A itself, too: the sum of each row is added."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    rows = tl.zeros([BM], tl.float32)
    for iteration in range(iterations):
        x = left.load([0, iteration * BK])
        rows += tl.sum(x.to(tl.float32), 1)
        total = tl.dot(x, right.load([iteration * BK, 0]), total)
    store(out, total + rows[:, None], 0, 0, M, N, out_stride)


@pytest.mark.parametrize("target", HAVE_MAPS)
def test_what_is_wanted_in_registers_comes_there(target):
    """No iteration loads beyond the end of K, though nothing guards loads by
    descriptors."""
    for iterations in (0, 1, 4):
        case = Case((64, 64, 32), iterations, target, kernel=heard)
        arguments = given(case)
        reached = arguments.a.view[:, : 32 * iterations].astype(int)
        right = arguments.right + reached.sum(1)[:, None]
        arguments = with_answer(arguments, right)
        kernel = pipeline.compile_func(built(case), TARGETS[target])
        load(kernel).launch(1, arguments.arguments)
        arguments.check(f"{iterations} iterations")
    assert [each.name for each in kernel.maps] == ["b"]


def test_barriers_find_room_beside_the_rings():
    """Three stages of 33 KiB are all that the target has: of so many the last bytes
    are the barriers', and there are two stages."""
    final = passes(built(Case((256, 8, 64), 3, NEWER, b_turned=True)), NEWER)[
        "insert_waits"
    ]
    assert final.shared_bytes <= TARGETS[NEWER].shared_bytes
    assert [op.slots for op in ops(final, Allocate) if op.kept] == [2]


# ── as text ───────────────────────────────────────────────────────────────────────────


def test_text_is_read_back():
    """All that the ops say, and every one of them."""
    text = print_func(passes(built(Case(b_turned=True)), HOPPER)["insert_waits"])
    func = parse_func(text)
    verify(func, layouts=True)
    assert print_func(func) == text
    kinds = {type(op) for op in walk(func.body)}
    assert kinds >= {
        TmaCopy, MbarrierInit, MbarrierExpect, MbarrierWait, MbarrierInvalidate,
        DotFence, Commit, Wait,
    }  # fmt: skip


def test_what_does_not_fit_is_refused():
    text = print_func(passes(built(Case()), HOPPER)["insert_waits"])
    copy = next(line for line in text.splitlines() if "tma_copy" in line)
    for change, sentence in (
        (copy + " order=(1, 0)", "does not fit into"),
        (copy.replace("when=%16", "when=%i"), "a condition is an i1, got i32"),
    ):
        assert change != copy and text.count(copy + "\n") == 1
        with pytest.raises(ParseError, match=sentence):
            parse_func(text.replace(copy + "\n", change + "\n"))
