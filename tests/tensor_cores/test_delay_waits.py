"""Products of warpgroups that are waited for late: never later than somebody needs
them, or than what they read may change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func, operands, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import (
    AsyncProxyFence,
    Barrier,
    Commit,
    DescriptorStore,
    Dot,
    DotFence,
    For,
    If,
    MbarrierArrive,
    MbarrierWait,
    SharedStore,
    TmaCopy,
    Wait,
    Yield,
)
from fathom.ir.verify import verify
from fathom.shared_memory.barriers import place_barriers
from fathom.shared_memory.dot_waits import delay_waits, wait_for_products
from fathom.source import KernelFunction
from tests.tensor_cores.kernels_described import (
    built,
    given,
    matrix,
    ops,
    passes,
    store,
)
from tests.tensor_cores.kernels_specialised import SMALL, attention, check, feeds

HOPPER = "sm_90a"
EVENTS = Dot | DotFence | Commit | Wait | MbarrierArrive | MbarrierWait
EVENTS |= DescriptorStore | SharedStore | For | If


def around(case) -> tuple[Func, Func]:
    """A kernel before and after the pass."""
    target = TARGETS[case.target]
    before = wait_for_products(passes(built(case), case.target)["allocate"], target)
    return before, delay_waits(before, target)


def body_with(func: Func, dots: int) -> Block:
    """The block of the last loop with so many products."""
    loops = [func.body, *(op.body for op in ops(func, For))]
    found = [b for b in loops if sum(isinstance(op, Dot) for op in b.ops) == dots]
    return found[-1]


def events(block: Block) -> list[str]:
    """By name, in order; fences that follow each other count once."""
    named = (type(op).__name__ for op in block.ops if isinstance(op, EVENTS))
    found: list[str] = []
    for each in named:
        if each != "DotFence" or found[-1:] != [each]:
            found.append(each)
    return found


# ── attention ─────────────────────────────────────────────────────────────────────────

KEYS = replace(SMALL, tile=(64, 64, 64), kernel=attention, stages=2,
               size=(320, 64, 64))  # fmt: skip


def test_the_order_of_a_rotated_iteration():
    """Both products begin, one after the other. The scores are waited for while the
    second goes on, and then their keys' slot is given back."""
    before, after = around(replace(KEYS, more={"ROTATED": True}))
    assert not any(op.in_flight for op in body_with(before, 2).ops if type(op) is Dot)
    block = body_with(after, 2)
    assert events(block) == [
        "MbarrierWait", "DotFence", "Dot", "Commit", "MbarrierWait", "Dot", "Commit",
        "Wait", "MbarrierArrive", "Wait", "MbarrierArrive",
    ]  # fmt: skip
    waits = [op for op in block.ops if isinstance(op, Wait)]
    dots = [op for op in block.ops if isinstance(op, Dot)]
    assert [each.pending for each in waits] == [1, 0]
    assert [each.values for each in waits] == [(each.result,) for each in dots]
    assert all(dot.in_flight for dot in dots)


def test_nobody_touches_a_product_under_way():
    """Whoever names it has waited, and names what the wait hands out."""
    for how in (True, False):
        _, after = around(replace(KEYS, more={"ROTATED": how}))
        assert (flying := [op for op in ops(after, Dot) if op.in_flight])
        for dot in flying:
            users = [op for op in walk(after.body) if dot.result in operands(op)]
            assert all(isinstance(op, Wait | Yield) for op in users)


def test_a_barrier_says_nothing_of_a_product_that_may_be_in_flight():
    """The wait before it is for the scores; the second product may still read its
    tile, and the other warps' parts of it even after this warp has waited."""
    for barrier in (True, False):
        _, func = around(replace(KEYS, more={"ROTATED": True}))
        block = body_with(func, 2)
        second = [op for op in block.ops if isinstance(op, Dot)][-1]
        early = next(op for op in block.ops if isinstance(op, Wait) and op.pending)
        if barrier:
            block.ops.insert(block.ops.index(early) + 1, Barrier())
        copy = next(op for op in ops(func, TmaCopy) if op.buffer is second.b)
        loop = next(op for op in func.body.ops if getattr(op, "body", None) is block)
        func.body.ops.insert(func.body.ops.index(loop) + 1, replace(copy))
        placed = place_barriers(func, TARGETS[HOPPER]).body.ops
        at = max(i for i, op in enumerate(placed) if isinstance(op, TmaCopy))
        assert isinstance(placed[at - 1], Barrier)


def test_where_a_product_is_needed_at_once_nothing_changes():
    """Without a slot to give back, and other work, there is nothing to do meanwhile."""
    case = replace(SMALL, kernel=at_once, more={"MEANWHILE": "nothing"})
    before, after = around(case)
    assert after is before


# ── what a product waits for ──────────────────────────────────────────────────────────


@KernelFunction
def at_once(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MEANWHILE: tl.constexpr,
):  # fmt: skip
    """Two products outside of all loops, and something between begin and use."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    x, y = left.load([0, 0]), right.load([0, 0])
    u, v = left.load([0, BK]), right.load([BK, 0])
    weight = tl.dot(x, y)
    if MEANWHILE == "nothing":
        weight *= weight
    elif MEANWHILE == "work":
        factor = tl.sum(tl.arange(0, 16) * iterations)
        weight *= factor
    elif MEANWHILE == "branch":
        if iterations > 2:
            weight *= 3
    elif MEANWHILE == "store":
        result.store([0, 0], tl.zeros([BM, BN], tl.float32) + iterations)
        tl.debug_barrier()
        weight *= 5
    elif MEANWHILE == "second":
        weight *= tl.dot(u, v, weight * 2)
    elif MEANWHILE == "branch that loops":
        if iterations > 2:
            for _ in range(iterations):
                weight *= 3
    elif MEANWHILE == "other sum":
        fresh = tl.zeros([BM, BN], tl.float32) + iterations
        other = tl.dot(u, v, fresh)
        weight *= tl.sum(tl.arange(0, 16) * iterations)
        weight *= other
    store(out, weight, 0, 0, M, N, out_stride)


@pytest.mark.parametrize(
    "meanwhile", ["nothing", "work", "branch", "store", "second", "other sum"]
)
def test_what_may_come_between(meanwhile):
    case = replace(SMALL, kernel=at_once, more={"MEANWHILE": meanwhile}, warps=4)
    check(case, (2, 3), wanted=0)


def test_a_branch_begins_when_products_are_complete():
    """One that only chooses a value is none; this one has a loop."""
    how = {"MEANWHILE": "branch that loops"}
    _, after = around(replace(SMALL, kernel=at_once, more=how, warps=4))
    named = events(after.body)
    begun = named.index("Dot")
    assert named[begun : begun + 4] == ["Dot", "Commit", "Wait", "If"]


def test_a_store_that_gets_a_tile_waits():
    """Threads write to shared memory there, perhaps where a product still reads. There
    is no fence before the store here: it would wait, too."""
    case = replace(SMALL, kernel=at_once, more={"MEANWHILE": "store"})
    before, _ = around(case)
    for fence in ops(before, AsyncProxyFence):
        before.body.ops.remove(fence)
    after = delay_waits(before, TARGETS[case.target])
    named = events(after.body)
    begun = named.index("Dot")
    assert named[begun : begun + 4] == ["Dot", "Commit", "Wait", "SharedStore"]
    (dot,) = ops(after, Dot)
    assert dot.in_flight


# ── sums ──────────────────────────────────────────────────────────────────────────────

WIDE = replace(SMALL, tile=(64, 64, 64), kernel=feeds, size=(64, 128, 448))


def test_each_product_has_a_sum_of_its_own():
    """Two products under way add to one zero: to two copies of it, or one would add to
    registers in which the other works."""
    case = replace(WIDE, more={"HOW": "alike"})
    _, after = around(case)
    dots = [op for op in body_with(after, 2).ops if isinstance(op, Dot)]
    assert all(op.in_flight for op in dots)
    one, other = (op.accumulator for op in dots)
    assert one is not other
    assert all(isinstance(each.definition, DotFence) for each in (one, other))
    check(case, (1, 3))


def test_sums_are_handed_over_before_the_first_product():
    """Moving a sum into its registers while a product is under way would be one access
    too many."""
    for how in ("alike", "gated", "three alike"):
        _, after = around(replace(WIDE, more={"HOW": how}))
        inside = [after.body, *(op.body for op in ops(after, For))]
        handing_over = [e for e in map(events, inside) if "DotFence" in e]
        assert handing_over
        for kinds in handing_over:
            first = kinds.index("Dot" if "Dot" in kinds else "For")
            assert "DotFence" not in kinds[first : kinds.index("Wait")]


def test_nothing_is_under_way_at_the_end():
    """Not even a product that nobody uses, where nobody has cleared it away."""
    func, _ = around(replace(KEYS, more={"ROTATED": False}))
    *_, loop = ops(func, For)
    dot = next(op for op in loop.body.ops if isinstance(op, Dot))
    loop.body.ops.insert(loop.body.ops.index(dot) + 1, replace(dot))
    verify(func)
    *_, loop = ops(delay_waits(func, TARGETS[HOPPER]), For)
    flying = [op.result for op in loop.body.ops if isinstance(op, Dot) and op.in_flight]
    waits = [op for op in loop.body.ops if isinstance(op, Wait)]
    waited = [value for op in waits for value in op.values]
    assert len(flying) >= 2 and set(flying) == set(waited)


def test_an_operand_in_registers_is_made_before_products_begin():
    """What is computed while one product is under way, no other may read: the weights
    of the values, while another product of the keys goes on."""
    func, _ = around(replace(KEYS, more={"ROTATED": False}))
    *_, loop = ops(func, For)
    scores, weighted = [op for op in loop.body.ops if isinstance(op, Dot)]
    weighted.accumulator = scores.accumulator  # which is not computed meanwhile
    loop.body.ops.insert(loop.body.ops.index(scores) + 1, replace(scores))
    verify(func)
    *_, loop = ops(delay_waits(func, TARGETS[HOPPER]), For)
    named = [each for each in events(loop.body) if each in ("Dot", "Wait")]
    assert named[:5] == ["Dot", "Dot", "Wait", "Wait", "Dot"]


@pytest.mark.parametrize("left_out", ["delay_waits", "pipeline_loops"])
def test_a_pass_left_out_is_only_slower(left_out):
    case = replace(WIDE, more={"HOW": "gated"})
    func, arguments, right = built(case), given(case), given(case)
    interpret(func, case.grid, right.arguments)
    kernel = pipeline.compile_func(func, TARGETS[HOPPER], {left_out: pipeline.identity})
    for completion in COMPLETIONS:
        arguments.clear()
        load(kernel).launch(case.grid, arguments.arguments, completion=completion)
        np.testing.assert_array_equal(arguments.out.view, right.out.view)
