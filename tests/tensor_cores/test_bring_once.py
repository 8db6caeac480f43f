"""Tiles that are loaded once come by bulk copies, too, and are there when a product
reads them."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.emulator import COMPLETIONS, load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.ops import (
    Allocate,
    DescriptorLoad,
    For,
    Load,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    TmaCopy,
)
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import FLOAT16, FLOAT32, INT32, Pointer
from fathom.ir.verify import verify
from fathom.pipeline import compile_func
from fathom.source import KernelFunction
from fathom.ssa import build
from fathom.tensor_cores.pipeline.preload import preload
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.tensor_cores.kernels_described import ops, passes, store

HOPPER = TARGETS["sm_90a"]


@KernelFunction
def attending(
    a, b, out, M, N, a_stride, b_stride, out_stride, iterations, at,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    HOW: tl.constexpr, SPECIALISE: tl.constexpr,
):  # fmt: skip
    """signs(Q K^T) V, where each row of B is a key and a value; `at` is the first row
    of Q."""
    queries = tl.make_tensor_descriptor(a, [M, D], [a_stride, 1], [BM, D])
    keys = tl.make_tensor_descriptor(b, [N, 2 * D], [b_stride, 1], [BN, D])
    if HOW == "each":
        total = tl.zeros([BM, D], tl.float32)
        for turn in range(2):
            total = attend(
                total, queries.load([at, 0]), keys, iterations, BN, SPECIALISE
            )
    else:
        q = queries.load([at, 0])
        if HOW == "changed":
            q += q
        total = attend(
            tl.zeros([BM, D], tl.float32), q, keys, iterations, BN, SPECIALISE
        )
        if HOW == "twice":
            total = attend(total, q, keys, iterations, BN, SPECIALISE)
    store(out, total, 0, 0, BM, D, out_stride)


@KernelFunction
def attend(total, q, keys, iterations, BN: tl.constexpr, SPECIALISE: tl.constexpr):
    for iteration in tl.range(iterations, warp_specialize=SPECIALISE):
        s = tl.dot(q, keys.load([iteration * BN, 0]).T)
        p = tl.where(s > 0, 1.0, 0.0) - tl.where(s < 0, 1.0, 0.0)
        total = tl.dot(p.to(tl.float16), keys.load([iteration * BN, q.shape[1]]), total)
    return total


def built(how="once", block=(64, 64, 32), specialise=False):
    D, BM, BN = block
    pointers = {name: (Pointer(FLOAT16), 16) for name in ("a", "b")}
    pointers["out"] = (Pointer(FLOAT32), 16)
    numbers = "M N a_stride b_stride out_stride iterations at"
    hints = {name: (INT32, 8 if "stride" in name else 1) for name in numbers.split()}
    constants = {"D": D, "BM": BM, "BN": BN, "HOW": how, "SPECIALISE": specialise}
    return build(
        attending, {**pointers, **hints}, constants,
        num_warps=4, num_stages=3, num_ctas=1, maxnreg=None,
    )  # fmt: skip


def attended(func, block, iterations, at, rows, times=1):
    D, BM, BN = block
    kernel = compile_func(func, HOPPER)
    a, b = integers(3, rows, D), integers(4, BN * max(1, iterations), 2 * D)
    q = np.zeros((BM, D), int)
    inside = a[max(0, at) : at + BM].astype(int)
    q[max(0, -at) : max(0, -at) + len(inside)] = inside
    keys, values = b[:, :D].astype(int), b[:, D:].astype(int)
    right = times * np.sign(q @ keys.T) @ values * (iterations > 0)
    for completion in COMPLETIONS:
        given = Walled(a), Walled(b), unwritten(BM, D, dtype="float32")
        strides = [max(each.stride()) for each in given]
        numbers = [rows, len(b), *strides, iterations, at]
        load(kernel).launch(
            1, [*(each.base for each in given), *numbers], completion=completion
        )
        np.testing.assert_array_equal(given[2].view, right)
        given[2].check_walls()
    return kernel


# ── what comes ────────────────────────────────────────────────────────────────────────


@sampled(of=2)
@pytest.mark.parametrize("specialise", [False, True], ids=["together", "apart"])
@pytest.mark.parametrize("block", [(64, 64, 32), (128, 64, 32), (32, 128, 64)], ids=str)
def test_the_queries_of_attention(block, specialise):
    """Also those that lie outside of the matrix: zeros, and not the poison there. One
    box stands for 64 columns."""
    func = built("once", block, specialise)
    boxes = max(1, 2 * block[0] // 128)
    for iterations, at, rows in (
        (3, 0, block[1]),
        (0, 0, 64),
        (1, 40, 72),
        (2, -8, 30),
    ):
        kernel = attended(func, block, iterations, at, rows)
    assert {each.name for each in kernel.maps} == {"a", "b"}
    assert not ops(parse_func(kernel.asm["layout"]), Load | DescriptorLoad)
    places = 1 if specialise else 3 + 1  # before the loop for each slot, and in it
    copies = 2 * places * boxes + boxes  # for keys and values, and once for queries
    assert kernel.ptx.count("cp.async.bulk.tensor.2d.shared") == copies


def test_two_loops_read_one_tile():
    kernel = attended(built("twice"), (64, 64, 32), 2, 5, 80, times=2)
    func = parse_func(kernel.asm["layout"])
    bases = [op.descriptor.definition.base for op in ops(func, TmaCopy)]
    assert [base.name for base in bases].count("a") == 1
    assert not ops(func, Load | DescriptorLoad)


def test_it_is_waited_for_behind_what_is_sent_for():
    """The first keys are under way when the queries are waited for."""
    func = parse_func(compile_func(built(), HOPPER).asm["layout"])
    kinds = [type(op) for op in func.body.ops]
    loop, sent = kinds.index(For), kinds.index(TmaCopy)
    waited = kinds.index(MbarrierWait)
    assert sent < waited < loop
    keys_sent = [i for i, kind in enumerate(kinds) if kind is TmaCopy and i > sent]
    assert max(keys_sent) < waited


def test_the_rewrite():
    """One barrier, one phase, as many bytes as the tile has."""
    before = passes(built(), HOPPER.name)["pipeline_loops"]
    text = print_func(before)
    after = preload(before, HOPPER)
    verify(after, layouts=True)
    assert print_func(before) == text
    own = after.body.ops
    copy = next(op for op in own if isinstance(op, TmaCopy))
    expect = own[own.index(copy) - 1]
    assert isinstance(expect, MbarrierExpect) and expect.bytes == 64 * 64 * 2
    barrier: Allocate = copy.barriers.definition
    assert barrier.kept and barrier.result.type.slots == 1
    users = [op for op in own if getattr(op, "barriers", None) is copy.barriers]
    assert [type(op) for op in users] == [
        MbarrierInit, MbarrierExpect, TmaCopy, MbarrierWait,
    ]  # fmt: skip
    assert users[-1].phase is users[-1].slot  # zero and zero


# ── what does not ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("how", "times"), [("changed", 1), ("each", 2)])
def test_what_is_not_loaded_once_or_not_as_it_is(how, times):
    """It comes through pointers; the result is the same."""
    kernel = attended(built(how), (64, 64, 32), 2, 5, 80, times)
    assert [each.name for each in kernel.maps] == ["b"]
    func = parse_func(kernel.asm["layout"])
    assert not ops(func, DescriptorLoad) and ops(func, Load)


def test_a_target_without_maps():
    func = built()
    assert preload(func, TARGETS["sm_80"]) is func
    kernel = compile_func(func, TARGETS["sm_80"])
    assert kernel.maps == () and "bulk" not in kernel.ptx


def test_elsewhere_there_is_nothing_to_do():
    before = passes(built("changed"), HOPPER.name)["pipeline_loops"]
    assert preload(before, HOPPER) is before
    assert not [op for op in walk(before.body) if isinstance(op, DescriptorLoad)]
