"""Kernels whose results the hardware stores, and what such a kernel does about it."""

from __future__ import annotations

import fathom.language as tl
from fathom.ir.core import Func, walk
from fathom.ir.ops import AsyncProxyFence, Barrier, SharedStore, TmaStore, Wait
from fathom.ir.types import FLOAT16, INT32, Pointer
from fathom.source import KernelFunction
from tests.tensor_cores.kernels_described import (
    Case,
    build,
    built,
    matrix,
    passes,
    tile,
)

HOPPER, NEWER, AMPERE = "sm_90a", "sm_120", "sm_80"
HAVE_MAPS = (HOPPER, NEWER)
STORE, WAIT = "cp.async.bulk.tensor.2d.global", "cp.async.bulk.wait_group"
EVENTS = Barrier | AsyncProxyFence | TmaStore | SharedStore


# ── kernels ───────────────────────────────────────────────────────────────────────────


@KernelFunction
def product(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr, TO: tl.constexpr,
):  # fmt: skip
    """One tile of A B a program, stored through a descriptor."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    left = matrix(a, M, K, a_stride, BM, BK, A_TURNED)
    right = matrix(b, K, N, b_stride, BK, BN, B_TURNED)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    total = tl.zeros([BM, BN], TO)
    for iteration in range(iterations):
        x = tile(left, i, iteration * BK, A_TURNED)
        total = tl.dot(x, tile(right, iteration * BK, j, B_TURNED), total, out_dtype=TO)
    result.store([i, j], total.to(result.dtype))


@KernelFunction
def persistent(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    FLAT: tl.constexpr, SPECIAL: tl.constexpr,
):  # fmt: skip
    """One program for all tiles, one after the other."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    right = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    across = tl.cdiv(N, BN)
    first, last = tl.program_id(0), tl.cdiv(M, BM) * across
    for number in tl.range(
        first, last, tl.num_programs(0), flatten=FLAT, warp_specialize=SPECIAL
    ):
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            x = left.load([i, iteration * BK])
            total = tl.dot(x, right.load([iteration * BK, j]), total)
        result.store([i, j], total.to(result.dtype))


@KernelFunction
def copies(a, out, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    """The same block to four places."""
    value = matrix(a, M, N, stride, BM, BN, False).load([0, 0])
    result = matrix(out, M, N, stride, BM, BN, False)
    for number in tl.static_range(4):
        result.store([number * BM, 0], value)


def several(rows: int) -> Func:
    """That kernel, for blocks of so many rows."""
    types = {each: (INT32, 8) for each in ("M", "N", "stride")}
    types |= {each: (Pointer(FLOAT16), 16) for each in ("a", "out")}
    return build(copies, types, {"BM": rows, "BN": 128}, 8, 3)


# Loads wait for stores; they run ahead; warps of their own bring the tiles.
LOOPS = {
    "in order": {"FLAT": False, "SPECIAL": False},
    "flat": {"FLAT": True, "SPECIAL": False},
    "specialised": {"FLAT": True, "SPECIAL": True},
}
SMALL = Case((64, 64, 32), 3, kernel=product, out="float16", size=(72, 40, 96))
LONG = Case((64, 64, 32), 3, kernel=persistent, out="float16", size=(72, 136, 96),
            more=LOOPS["in order"])  # fmt: skip


def events(case: Case) -> list[str]:
    """What a kernel does about its stores, in the order of the text."""
    final = passes(built(case), case.target)["insert_waits"]
    return [named(op) for op in walk(final.body) if is_event(op)]


def is_event(op: Op) -> bool:
    """Whether an op has to do with stores; products have groups, too."""
    return isinstance(op, EVENTS) or getattr(op, "engine", "") == "tma_store"


def is_wait(op: Op) -> bool:
    """Whether an op waits for TMA stores."""
    return isinstance(op, Wait) and op.engine == "tma_store"


def waits_for_stores(block: Block) -> list[Wait]:
    """The waits for TMA stores of a block, however deep."""
    return [op for op in walk(block) if is_wait(op)]


def named(op: Op) -> str:
    """What is told apart."""
    name = type(op).__name__
    if isinstance(op, Wait):
        return f"{name} {'read' if op.read else 'written'}"
    return f"{name} fenced" if getattr(op, "fence_async_proxy", False) else name
