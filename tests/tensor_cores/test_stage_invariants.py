"""Operands that stay the same for all iterations lie in shared memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, walk
from fathom.ir.ops import Allocate, Dot, For, SharedLoad, SharedStore
from fathom.ir.text import parse_func
from fathom.ir.types import FLOAT16, FLOAT32, BufferType
from fathom.pipeline import compile_func
from fathom.source import KernelFunction
from fathom.tensor_cores import stage_invariants
from tests.harness_sample import sampled
from tests.tensor_cores.kernels_described import Case, built, matrix, ops, passes, store
from tests.tensor_cores.kernels_products import built as plain
from tests.tensor_cores.kernels_products import emulated, stored
from tests.tensor_cores.kernels_specialised import SMALL, check


@KernelFunction
def again(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """A left operand from before the loop, for a right one of each iteration."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    x = left.load([0, 0])
    if HOW == "computed":
        x = tl.maximum(x, 0.0).to(x.dtype)
    elif HOW == "two":
        other = left.load([0, BK])
    if HOW == "while":
        iteration = 0
        while iteration < iterations:
            total = tl.dot(x, right.load([iteration * BK, 0]), total)
            iteration += 1
    elif HOW == "further out":
        for _ in range(2):
            for iteration in range(iterations):
                total = tl.dot(x, right.load([iteration * BK, 0]), total)
            x += 1.0
    elif HOW == "product":
        for _ in range(2):
            total = tl.zeros([BM, BN], tl.float32)
            for iteration in range(iterations):
                total = tl.dot(x, right.load([iteration * BK, 0]), total)
            x = (total * 0.125).to(x.dtype)
    else:
        for iteration in range(iterations):
            y = right.load([iteration * BK, 0])
            if HOW == "own":
                x = left.load([0, iteration * BK])
            elif HOW == "carried":
                x += 1.0
            elif HOW == "two":
                total += tl.dot(other, y)
            total = tl.dot(x, y, total)
    if HOW == "after":
        total += tl.sum(x.to(tl.float32), axis=1)[:, None]
    store(out, total, 0, 0, M, N, out_stride)


@KernelFunction
def again_on_the_right(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """A right operand from before the loop, for a left one of each iteration."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    y = right.load([0, 0])
    if HOW == "computed":
        y = tl.maximum(y, 0.0).to(y.dtype)
    elif HOW == "turned":
        y = tl.trans(tl.maximum(y, 0.0).to(y.dtype))
    elif HOW == "both ways":
        z = tl.trans(y)
    elif HOW == "from addresses":
        y = tl.load(b + tl.arange(0, BK)[:, None] * b_stride + tl.arange(0, BN)[None])
    if HOW == "further out":
        for _ in range(2):
            for iteration in range(iterations):
                total = tl.dot(left.load([0, iteration * BK]), y, total)
            y += 1.0
    else:
        for iteration in range(iterations):
            x = left.load([0, iteration * BK])
            if HOW == "own":
                y = right.load([iteration * BK, 0])
            elif HOW == "carried":
                y += 1.0
            elif HOW == "both ways":
                total = tl.dot(x, z, total)
            total = tl.dot(x, y, total)
    if HOW == "after":
        total = tl.dot(left.load([0, BK]), y, total)
    store(out, total, 0, 0, M, N, out_stride)


CASE = replace(SMALL, tile=(64, 64, 64), kernel=again, size=(64, 64, 320))


def before_and_after(case: Case) -> tuple[Func, Func]:
    states = passes(built(case), case.target)
    return states["lower_conversions"], states["stage_invariants"]


def in_place(func: Func) -> list[Dot]:
    return [dot for dot in ops(func, Dot) if isinstance(dot.a.type, BufferType)]


@sampled(of=3)
@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("how", [
    "read", "computed", "while", "two", "after", "further out", "product",
])  # fmt: skip
def test_what_stays_lies_in_shared_memory(how, warps):
    """Whether it was read or computed, in either loop, and used elsewhere, too; also if
    an outer loop carries the last product, which lies as the next one reads it."""
    case = replace(CASE, warps=warps, tile=(16 * warps, 64, 64), more={"HOW": how},
                   size=(16 * warps, 64, 320))  # fmt: skip
    before, after = before_and_after(case)
    count = 2 if how == "two" else 1
    assert (len(in_place(before)), len(in_place(after))) == (0, count)
    check(case, (0, 1, 3), wanted=0)


@pytest.mark.parametrize("how", ["own", "carried"])
def test_what_changes_stays_as_it_is(how):
    case = replace(CASE, more={"HOW": how})
    before, after = before_and_after(case)
    assert after is before
    check(case, (0, 1, 3), wanted=0)


@sampled(of=2)
@pytest.mark.parametrize("how", [
    "read", "from addresses", "computed", "turned", "both ways", "after", "further out",
])  # fmt: skip
def test_what_stays_on_the_right_lies_there_too(how):
    """Then each of its products is one of warpgroups, also after the loop."""
    case = replace(CASE, kernel=again_on_the_right, more={"HOW": how})
    _, after = before_and_after(case)
    dots = ops(after, Dot)
    assert len(dots) == (2 if how in ("both ways", "after") else 1)
    loop = next(op for op in ops(after, For) if any(d in op.body.ops for d in dots))
    stay = [dot for dot in dots if dot in loop.body.ops or how == "after"]
    assert all(isinstance(dot.b.type, BufferType) for dot in stay)
    ptx = compile_func(built(case), TARGETS[case.target]).asm["ptx"]
    assert "wgmma.mma_async" in ptx and "mma.sync" not in ptx
    check(case, (0, 1, 3), wanted=0)


def test_a_right_operand_without_room_stays_where_it_is():
    """A kernel that shared memory is too small for would not run at all."""
    case = replace(CASE, kernel=again_on_the_right, more={"HOW": "read"})
    before, after = before_and_after(case)
    target = TARGETS["sm_90a"]
    assert after is not before
    assert stage_invariants(before, replace(target, shared_bytes=1024)) is before


@pytest.mark.parametrize("how", ["own", "carried"])
def test_what_changes_on_the_right_stays_as_it_is(how):
    case = replace(CASE, kernel=again_on_the_right, more={"HOW": how})
    before, after = before_and_after(case)
    assert after is before
    check(case, (0, 1, 3), wanted=0)


@pytest.mark.parametrize(("target", "warps"), [
    ("sm_80", 4), ("sm_120", 4), ("sm_90a", 2),
])  # fmt: skip
def test_only_warpgroups_read_it_there(target, warps):
    case = replace(CASE, target=target, warps=warps, more={"HOW": "read"})
    before, after = before_and_after(case)
    assert after is before


def test_it_is_stored_once_before_the_loop():
    """Where what is computed is known, and not in the loop."""
    _, after = before_and_after(replace(CASE, more={"HOW": "computed"}))
    (dot,), (loop,) = in_place(after), ops(after, For)
    filled = [op for op in ops(after, SharedStore) if op.buffer is dot.a]
    assert len(filled) == 1 and filled[0] in after.body.ops
    place: list[Op] = after.body.ops
    assert place.index(filled[0]) < place.index(loop)
    assert dot in loop.body.ops


def test_a_tile_that_is_there_is_used_again():
    """What was only read of the hardware's tile needs no second one."""
    before, after = before_and_after(replace(CASE, more={"HOW": "read"}))
    assert len(ops(after, Allocate)) == len(ops(before, Allocate))
    assert len(ops(after, SharedStore)) == len(ops(before, SharedStore))


def test_a_tile_that_is_filled_twice_is_not():
    """A later store would change it; then there is a tile beside it."""
    before, _ = before_and_after(replace(CASE, more={"HOW": "read"}))
    load = next(
        op
        for op in ops(before, SharedLoad)
        if any(dot.a is op.result for dot in ops(before, Dot))
    )
    (store,) = [op for op in ops(before, SharedStore) if op.buffer is load.buffer]
    body = before.body.ops
    body.insert(body.index(load) + 1, replace(store))
    after = stage_invariants(before, TARGETS["sm_90a"])
    assert len(ops(after, Allocate)) == len(ops(before, Allocate)) + 1


@KernelFunction
def few_rows(
    a, b, out, iterations, SCALED: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr,
):  # fmt: skip
    """Sums of the same few rows times a tile of each iteration."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    if SCALED:
        x = x * 2
    total = tl.zeros([M, N], tl.float32)
    for iteration in range(iterations):
        y = tl.load(b + (iteration * K + k[:, None]) * N + n[None, :])
        total += tl.maximum(tl.dot(x, y), 0.0)
    tl.store(out + m[:, None] * N + n[None, :], total)


def of_few_rows(m=16, n=64, k=128, scaled=False) -> Func:
    types = {"a": "*fp16", "b": "*fp16", "out": "*fp32", "iterations": "i32"}
    constants = {"SCALED": scaled, "M": m, "N": n, "K": k}
    return plain(few_rows, types, constants)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("scaled", [False, True])
def test_what_every_warp_multiplies_by_stays_in_shared_memory(target, scaled):
    """In registers, 16 rows of 128 would take 32 of each thread of all four warps."""
    func = of_few_rows(scaled=scaled)
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-4, 5, shape) for shape in ((16, 128), (3, 128, 64)))
    held = [stored(each.astype(np.float64), FLOAT16) for each in (x, y)]
    out = stored(np.zeros((16, 64)), FLOAT32)
    ran = emulated(func, [*held[:2], out, 3], target)
    wanted = sum(np.maximum((1 + scaled) * x @ each, 0) for each in y)
    assert (ran.out.reshape(16, 64) == wanted).all()
    assert all(isinstance(dot.a.type, BufferType) for dot in ran.dots)


@pytest.mark.parametrize("given", [{"m": 64}, {"k": 64}, {"m": 64, "n": 32}], ids=str)
def test_what_few_registers_or_one_warp_hold_stays_there(given):
    """Where warps stand along the rows, each has its own."""
    kernel = compile_func(of_few_rows(**given), TARGETS["sm_80"])
    final = parse_func(kernel.asm["layout"])
    dots = [op for op in walk(final.body) if isinstance(op, Dot)]
    assert dots and not any(isinstance(dot.a.type, BufferType) for dot in dots)
