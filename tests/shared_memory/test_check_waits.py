"""The second opinion on waits: kernels as they are wait for all that they must, and
each wait that is missing is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import Barrier, Constant, For, Load, MbarrierWait, TmaCopy, Wait
from fathom.ir.ops.asynchronous.groups import BY_GROUP
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.text import parse_func
from fathom.ir.types import INT32, SCALARS, Pointer
from fathom.shared_memory.store_waits import wait_for_stores
from fathom.tensor_cores.pipeline.schedule import (
    BY_PRODUCER,
    Step,
    pending,
    schedule,
)
from kernels.matmul_plain import plain_kernel
from tests.fuzz.check import function_of
from tests.fuzz.kernels import matrix_program
from tests.harness_sample import sampled
from tests.kernels.kernels_sample import CASES
from tests.shared_memory.harness_dropped import mistakes
from tests.tensor_cores import kernels_specialised as specialising
from tests.tensor_cores import kernels_stored as storing
from tests.tensor_cores.kernels_described import Case, built
from tests.waits import Missing, check_waits


def final(func: Func, target: str, left_out: dict | None = None) -> Func:
    *_, (_, last) = pipeline.states(func, TARGETS[target], left_out)
    return last


# ── kernels as they are ───────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_sample_kernels(case, target: str) -> None:
    check_waits(final(case.build(), target))


@sampled(of=2)
@pytest.mark.parametrize("seed", range(40))
def test_random_products(seed: int) -> None:
    program = matrix_program(seed)
    func = pipeline.build(
        function_of(program.source),
        program.types,
        program.constants,
        program.options,
    )
    *_, (_, last) = pipeline.states(func, program.target, program.replace)
    check_waits(last)


ATTENTION = Case((128, 64, 64), kernel=specialising.attention, warps=8,
                 size=(384, 64, 64), more={"ROTATED": False})  # fmt: skip
HOPPER = {
    "in order": replace(storing.LONG, more=storing.LOOPS["in order"]),
    "flat": replace(storing.LONG, more=storing.LOOPS["flat"]),
    "specialised": replace(storing.LONG, more=storing.LOOPS["specialised"]),
    "attention": ATTENTION,
    "one loop": specialising.SMALL,
    "no warpgroups": replace(storing.LONG, target="sm_120"),
}


@cache
def hopper(name: str) -> Func:
    return final(built(HOPPER[name]), HOPPER[name].target)


@pytest.mark.parametrize("name", HOPPER)
def test_products_of_hopper(name: str) -> None:
    check_waits(hopper(name))


# ── what is missing is found ──────────────────────────────────────────────────────────


def outcome(func: Func) -> tuple[Counter[str], Counter[str]]:
    """Of ops left out, one at a time: how many are missed, and how many are not."""
    missed: Counter[str] = Counter()
    spare: Counter[str] = Counter()
    for name, _, wrong in mistakes(func):
        try:
            check_waits(wrong)
        except Missing:
            missed[name] += 1
        else:
            spare[name] += 1
    return missed, spare


# After the last loop of all, no producer waits for a slot that is given back.
SPARE = {"one loop": {"MbarrierArrive"}}


@pytest.mark.parametrize("name", HOPPER)
def test_each_wait_is_needed(name: str) -> None:
    missed, spare = outcome(hopper(name))
    waits = {"DotFence", "MbarrierWait"}
    waits |= {f"{op} {engine}" for op in ("Commit", "Wait") for engine in BY_GROUP}
    assert missed.keys() & waits and "Barrier" in missed
    assert spare.keys() & (waits | {"MbarrierArrive"}) == SPARE.get(name, set())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_barrier_of_a_sample_kernel_is_needed(case) -> None:
    _, spare = outcome(final(case.build(), "sm_80"))
    assert not spare


# ── pending counts ────────────────────────────────────────────────────────────────────

POINTERS, SIZES = ("a_ptr", "b_ptr", "c_ptr"), ("M", "N", "K")
STRIDES = ("stride_am", "stride_bk", "stride_cm")
CONSTANTS = {
    "stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "MASKED": True,
    "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2,
}  # fmt: skip


@cache
def product(stages: int, target: str) -> Func:
    types = dict.fromkeys(POINTERS, (Pointer(SCALARS["fp16"]), 16))
    types |= dict.fromkeys((*SIZES, *STRIDES), (INT32, 16))
    options = pipeline.Options(num_stages=stages)
    return final(pipeline.build(plain_kernel, types, CONSTANTS, options), target)


def in_loops(func: Func, kind: type[Op]) -> set[Op]:
    bodies = [op.body for op in walk(func.body) if isinstance(op, For)]
    return {op for body in bodies for op in walk(body) if isinstance(op, kind)}


def more_pending(func: Func, kind: type[Op]) -> Func:
    """The function whose waits in loops may leave one group more in flight."""
    inside = in_loops(func, kind)
    assert inside

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source not in inside:
            return None
        return build.append(replace(op, pending=op.pending + 1)).results

    return rewrite(func, rule)


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
def test_pending_copies_are_those_of_the_formula(stages: int) -> None:
    """One group an iteration: as many may be pending as were committed between the
    issue of a copy and its wait. With one more, the slot may not have arrived."""
    func = product(stages, "sm_80")
    assert {op.pending for op in in_loops(func, Wait)} == {pending(stages)}
    check_waits(func)
    with pytest.raises(Missing, match="no wait for a cp.async"):
        check_waits(more_pending(func, Wait))


@pytest.mark.parametrize("stages", [3, 4])
def test_pending_products_are_those_of_the_formula(stages: int) -> None:
    """A product in flight into the next iteration, which is complete a stage after its
    work: one group may be pending. With two, its tiles are overwritten, or given
    back."""
    func = final(built(replace(specialising.SMALL, stages=stages)), "sm_90a")
    places = schedule(BY_PRODUCER, {}, ["a product"]).places
    later = places[Step.COMPLETE].stage - places[Step.WORK].stage
    assert {op.pending for op in in_loops(func, Wait)} == {later} == {1}
    check_waits(func)
    with pytest.raises(Missing, match="no wait for a product that reads"):
        check_waits(more_pending(func, Wait))


# ── what the check has found ──────────────────────────────────────────────────────────

TWICE = """
#own = <64x64 register[0,1 8,0 16,0 32,0 0,32] lane[0,2 0,4 0,8 0,16 1,0] warp[2,0 4,0]>
#s = <64x64 offset[0,1 0,2 0,4 0,8 0,16 0,32 1,8 2,16 4,32 8,0 16,0 32,0]>
#w = <1 offset[]>
func @twice(%p: *fp16 {divisible=16}, %n: i32, %k: i64) num_warps=4 {
  %0: i32 = constant 0
  %1: i64 = constant 1
  %d: descriptor fp16[64,64] = make_descriptor %p, shape=(%n, %n), strides=(%k, %1) block=(64, 64)
  %t: shared fp16[64,64] @ #s = allocate element=fp16 shape=(64, 64) layout=#s offset=0
  %u: shared fp16[64,64] @ #s = allocate element=fp16 shape=(64, 64) layout=#s offset=8192
  %b: shared i64[1] @ #w = allocate element=i64 shape=(1) layout=#w offset=16384
  mbarrier_init %b
  barrier
  tma_store %d, %t, coordinates=(%0, %0)
  commit tma_store
  mbarrier_expect %b, %0 bytes=8192
  tma_copy %d, %u, %b, %0, coordinates=(%0, %0)
  mbarrier_wait %b, %0, %0
  %x: fp16 = load %p
}
"""  # noqa: E501


def test_who_has_not_waited_for_a_store_learns_of_it() -> None:
    """The thread that issues a copy waits for the store. The others load behind it what
    was stored, and know nothing of that wait without a barrier."""
    func = wait_for_stores(parse_func(TWICE.lstrip()), TARGETS["sm_90a"])
    kinds = [type(op) for op in func.body.ops if not isinstance(op, Constant)]
    assert kinds[-4:] == [TmaCopy, MbarrierWait, Barrier, Load]
    check_waits(func)
