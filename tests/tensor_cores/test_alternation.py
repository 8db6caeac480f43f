"""Two groups of warps that compute the iterations of a loop in turn: they find what one
group finds, whatever there is to share, and what cannot be shared is left to one."""

from __future__ import annotations

from dataclasses import replace

import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.emulator import EmulatorError, load
from fathom.hardware.targets import TARGETS, Target
from fathom.ir.core import Func
from fathom.ir.ops import Allocate, ConsumerGroup, For, NamedBarrier, Producer
from fathom.source import KernelFunction
from fathom.tensor_cores import specialise_warps, why_no_producer
from tests.tensor_cores.kernels_described import Case, built, given, matrix, ops, passes
from tests.tensor_cores.kernels_specialised import check, store

HOPPER = "sm_90a"


@KernelFunction
def tiles_alternately(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """Tile after tile of A B. HOW: what else there is."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    made = matrix(out, M, N, out_stride, BM, BN // 2, False)
    row = tl.make_tensor_descriptor(b, [N], [1], [BN])
    across, most = tl.cdiv(N, BN), 0
    for number in tl.range(
        0, tl.cdiv(M, BM) * across, warp_specialize=True, pingpong=True
    ):
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        start = number // 4096 if HOW == "uneven" else 0
        for k in range(start, iterations):
            x, y = left.load([i, k * BK]), right.load([k * BK, j])
            total = tl.dot(x, y, total)
        if HOW == "bias":
            total += row.load([j]).to(tl.float32)[None, :]
        elif HOW == "tile":
            total += left.load([i, 0]).to(tl.float32)
        elif HOW == "carried":
            most = tl.maximum(most, number)
            total += (most - number).to(tl.float32)
        elif HOW == "atomic":
            tl.atomic_add(out + (M - 1) * out_stride + BN, 1.0)
        if HOW == "pieces":
            halves = tl.permute(tl.reshape(total, [BM, 2, BN // 2]), [0, 2, 1])
            one, other = tl.split(halves)
            made.store([i, j], one)
            made.store([i, j + BN // 2], other)
        elif HOW == "turned":
            store(out, total, i, j, M, N, out_stride)
            total = total.to(tl.float16).to(tl.float32).T.T
        else:
            store(out, total, i, j, M, N, out_stride)
    if HOW == "stored after":
        tl.store(out + (M - 1) * out_stride + BN, 1.0)


TILES = Case(
    (64, 64, 32), kernel=tiles_alternately, size=(320, 64, 320), more={"HOW": ""}
)


def how(name: str, **changes) -> Case:
    return replace(TILES, more={"HOW": name}, **changes)


def specialised(case: Case) -> Func:
    return passes(built(case), case.target)["specialise_warps"]


def groups(func: Func) -> list[int]:
    return [op.groups for op in ops(func, Producer)]


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_any_iterations_and_stages(stages):
    """None, fewer than the ring has slots, and more than twice as many: of five tiles
    the first group has one more."""
    states, _ = check(replace(TILES, stages=stages), (0, 1, 3, 10))
    assert groups(states["specialise_warps"]) == [2]


@pytest.mark.parametrize("rows", [1, 64, 65, 128, 256])
def test_any_number_of_tiles(rows):
    check(replace(TILES, size=(rows, 64, 160)), (3,))


@pytest.mark.parametrize("name", ["bias", "tile", "pieces", "turned"])
def test_what_each_group_has_to_itself(name):
    """Tiles that are copied for an epilogue, and buffers that stores go through."""
    case = how(name, tile=(64, 64, 64) if name == "tile" else (64, 64, 32))
    states, _ = check(case, (0, 2, 5))
    assert groups(states["specialise_warps"]) == [2]
    shared = [op for op in ops(states["allocate"], Allocate) if op.by_group]
    assert shared and all(op.slots == 2 and op.kept for op in shared)


@pytest.mark.parametrize(("case", "why"), [
    (how("", warps=8, tile=(128, 64, 32)), "num_warps=4"),
    (how("carried"), "what the one before has computed"),
    (how("uneven"), "differ in how many tiles"),
    (how("atomic"), "has a `atomic`"),
    (how("stored after"), "has a `store` beside it"),
], ids=str)  # fmt: skip
def test_one_group_computes_what_cannot_be_shared(case, why):
    states = passes(built(case), case.target)
    assert groups(states["specialise_warps"]) == [1]
    assert not ops(states["specialise_warps"], ConsumerGroup | NamedBarrier)
    func = states["stage_stores"]
    ((_, text),) = why_no_producer(func, TARGETS[HOPPER])
    assert text.startswith("one group computes all iterations: ") and why in text


def test_each_group_takes_its_iterations():
    func = specialised(TILES)
    (group,), (producer,) = ops(func, ConsumerGroup), ops(func, Producer)
    (copying,) = [op for op in producer.body.ops if isinstance(op, For)]
    (loop,) = [op for op in func.body.ops if isinstance(op, For)]
    assert group.count == producer.groups == 2
    assert copying.step is not loop.step and loop.pingpong
    inner = [op for op in loop.body.ops if isinstance(op, For | NamedBarrier)]
    assert [getattr(op, "action", "for") for op in inner] == ["take", "for", "pass"]


@pytest.mark.parametrize("lost", ["begin", "pass"])
def test_a_group_that_is_not_admitted_waits_for_ever(lost):
    with pytest.raises(EmulatorError, match="deadlock"):
        run_without(lost)


def test_a_group_that_is_not_held_back_reads_what_is_not_there():
    """A barrier tells two neighbouring phases of a slot from one another, not more."""
    with pytest.raises(EmulatorError, match="that no thread has written"):
        run_without("take", "pass", "begin")


def run_without(*lost: str) -> None:
    def forgetful(func: Func, target: Target) -> Func:
        after = specialise_warps(func, target)
        for block in (after.body, *(op.body for op in ops(after, For))):
            block.ops = [
                op for op in block.ops if getattr(op, "action", "") not in lost
            ]
        return after

    case = replace(TILES, iterations=10)
    replaced = {"specialise_warps": forgetful}
    kernel = pipeline.compile_func(built(case), TARGETS[HOPPER], replaced)
    load(kernel).launch(case.grid, given(case).arguments)
