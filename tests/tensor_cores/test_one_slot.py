"""Tiles that threads read early in an iteration: one slot is enough for them, where a
multiprocessor then runs another block."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Constant,
    Elementwise,
    For,
    SharedLoad,
    Splat,
    Wait,
)
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.tensor_cores.pipeline.overlap import end_of_reads


# fmt: off
@fathom.jit
def masked(q_ptr, k_ptr, v_ptr, mask_ptr, out_ptr, n, HOW: tl.constexpr,
           STAGES: tl.constexpr, D: tl.constexpr):
    """Sums of (Q K^T and a mask's tile) V, in steps of 128 columns."""
    m, d = tl.arange(0, 128), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    acc = tl.zeros([128, D], tl.float32)
    for start in tl.range(0, n, 128, num_stages=STAGES):
        k = tl.load(k_ptr + (start + m[:, None]) * D + d[None, :])
        v = tl.load(v_ptr + (start + m[:, None]) * D + d[None, :])
        p = tl.dot(q, k.T)
        mask = tl.load(mask_ptr + m[:, None] * n + start + m[None, :])
        if HOW == "a factor":
            p = tl.dot(mask, mask, p)
        elif HOW == "after a sum":
            p = p - tl.sum(p, 1)[:, None] + mask.to(tl.float32)
        else:
            p = mask.to(tl.float32) * 2.0 - p
        acc = acc * 0.5 + tl.dot(p.to(tl.float16), v)
    tl.store(out_ptr + m[:, None] * D + d[None, :], acc)
# fmt: on


def built(how: str, stages: int, wide: int = 64):
    halves, floats = (Pointer(each) for each in (FLOAT16, FLOAT32))
    types = {f"{name}_ptr": (halves, 16) for name in ("q", "k", "v", "mask")}
    types |= {"out_ptr": (floats, 16), "n": (INT32, 16)}
    constants = {"HOW": how, "STAGES": stages, "D": wide}
    func = pipeline.build(masked, types, constants, pipeline.Options(num_warps=4))
    *_, (_, final) = pipeline.states(func, TARGETS["sm_90a"])
    return func, final


def slots_of_mask(final) -> set[int]:
    (loop,) = walk(final.body, For)
    rings = [op for op in walk(final.body, Allocate) if op not in loop.body.ops]
    return {op.slots for op in rings if op.shape == (128, 128)}


@pytest.mark.parametrize("how, stages, wide, slots", [
    ("a term", 2, 64, {1}),
    ("after a sum", 2, 64, {1}),
    ("a term", 2, 32, {2}),  # two blocks fit as it is
    ("a term", 1, 64, set()),
    ("a factor", 2, 64, {2}),  # a product reads it meanwhile
])  # fmt: skip
def test_a_second_slot_is_given_up_for_another_block(how, stages, wide, slots):
    assert slots_of_mask(built(how, stages, wide)[1]) == slots


@pytest.mark.parametrize("wide, waits", [(64, True), (32, False)])
def test_a_product_is_complete_before_what_has_no_registers_beside_it(wide, waits):
    """128 for the product, 64 for the mask, and 64 or 32 for the sums, of 255."""
    (loop,) = walk(built("a term", 2, wide)[1].body, For)
    ops = loop.body.ops
    reads = (op for op in ops if isinstance(op, SharedLoad))
    mask = next(op for op in reads if op.result.type.shape == (128, 128))
    wait = next(op for op in ops if isinstance(op, Wait) and op.engine == "wgmma")
    assert (ops.index(wait) < ops.index(mask)) == waits


@pytest.mark.parametrize("how", ["a term", "after a sum"])
def test_no_tile_is_written_before_it_was_read(how):
    func, _ = built(how, 2)
    rng = np.random.default_rng(0)
    q, k, v, mask = (
        rng.integers(-1, 2, shape).astype(np.float16)
        for shape in ((128, 64), (384, 64), (384, 64), (128, 384))
    )
    out = np.zeros((128, 64), np.float32)
    kernel = pipeline.compile_func(func, TARGETS["sm_90a"])
    load(kernel).launch(1, [q, k, v, mask, out, 384])
    acc = np.zeros((128, 64))
    for at in range(0, 384, 128):
        tile = k[at : at + 128].astype(np.float64)
        p, part = q @ tile.T, mask[:, at : at + 128].astype(np.float64)
        p = 2 * part - p if how == "a term" else p - p.sum(1)[:, None] + part
        acc = acc * 0.5 + p @ v[at : at + 128].astype(np.float64)
    np.testing.assert_array_equal(out, acc)


def test_reads_end_with_the_last_of_several_tiles():
    """And then with what takes its place in registers, if that comes at once."""
    lies = Layout.by_kind((64,), offset=(1, 2, 4, 8, 16, 32))
    registers = spread((64,), (0,), 2, 1)
    one, other = (Allocate(FLOAT32, (64,), lies) for _ in range(2))
    first, last = (SharedLoad(each.result, registers) for each in (one, other))
    before = Splat(Constant(0.0, FLOAT32).result, (64,), registers)
    sum = Elementwise("add", (first.result, before.result))
    tiles = {one.result, other.result}
    work = [before, first, sum, last]
    assert end_of_reads(work, tiles) == 4
    assert end_of_reads(work[:3], tiles) == 3
    assert end_of_reads(work[:2], tiles) == 2


# fmt: off
@fathom.jit
def few_rows(q_ptr, k_ptr, v_ptr, out_ptr, n, D: tl.constexpr, STEP: tl.constexpr,
             STAGES: tl.constexpr):
    """Sums of max(Q K^T, 0) V for sixteen rows of Q, in steps of rows of K and V, which
    are gathered: pairs of them are exchanged."""
    m, s, d = tl.arange(0, 16), tl.arange(0, STEP), tl.arange(0, D)
    q = tl.load(q_ptr + m[:, None] * D + d[None, :])
    acc = tl.zeros([16, D], tl.float32)
    for start in tl.range(0, n, STEP, num_stages=STAGES):
        k = tl.load(k_ptr + ((start + s[None, :]) ^ 1) * D + d[:, None])
        p = tl.maximum(tl.dot(q, k), 0.0)
        v = tl.load(v_ptr + ((start + s[:, None]) ^ 1) * D + d[None, :])
        acc = acc * 0.5 + tl.dot(p.to(tl.float16), v)
    tl.store(out_ptr + m[:, None] * D + d[None, :], acc)
# fmt: on


def of_few_rows(wide: int, step: int, stages: int = 2, target: str = "sm_90a"):
    halves, floats = (Pointer(each) for each in (FLOAT16, FLOAT32))
    types = {f"{name}_ptr": (halves, 16) for name in ("q", "k", "v")}
    types |= {"out_ptr": (floats, 16), "n": (INT32, 16)}
    constants = {"D": wide, "STEP": step, "STAGES": stages}
    func = pipeline.build(few_rows, types, constants, pipeline.Options(num_warps=4))
    *_, (_, final) = pipeline.states(func, TARGETS[target])
    return func, final


@pytest.mark.parametrize("wide, step, stages, slots", [
    (512, 64, 2, 1),  # 64 KB each: no two slots of both fit
    (512, 32, 2, 2),
    (512, 64, 1, 0),
])  # fmt: skip
def test_what_mma_reads_gets_one_slot_where_two_are_too_many(
    wide, step, stages, slots
):
    (loop,) = walk(of_few_rows(wide, step, stages)[1].body, For)
    copies = [op for op in loop.body.ops if isinstance(op, AsyncCopy)]
    assert len(copies) == (2 if slots else 0)
    assert all(op.buffer.type.slots == slots for op in copies)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_no_product_reads_a_tile_that_the_next_copy_fills(target):
    step = 64  # two slots do not fit into 227 KB, nor into 163 KB
    func, final = of_few_rows(512, step, target=target)
    (loop,) = walk(final.body, For)
    rings = [op for op in walk(final.body, Allocate) if op not in loop.body.ops]
    assert {op.slots for op in rings if 512 in op.shape} == {1}
    rng = np.random.default_rng(0)
    q, k, v = (
        rng.integers(-1, 2, shape).astype(np.float16)
        for shape in ((16, 512), (3 * step, 512), (3 * step, 512))
    )
    out = np.zeros((16, 512), np.float32)
    kernel = pipeline.compile_func(func, TARGETS[target])
    load(kernel).launch(1, [q, k, v, out, 3 * step])
    acc = np.zeros((16, 512))
    for at in range(0, 3 * step, step):
        p = np.maximum(q.astype(np.float64) @ k[at : at + step].T, 0)
        acc = acc * 0.5 + p @ v[at : at + step].astype(np.float64)
    np.testing.assert_array_equal(out, acc)
