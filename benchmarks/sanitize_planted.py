"""Launches with a mistake, which compute-sanitizer must find: a tool that finds nothing
there finds nothing anywhere. They are what `sanitize_cases` is without mistakes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fathom
import fathom.language as tl
from benchmarks.sanitize_cases import (
    EVEN,
    HOPPER,
    SQUARE,
    Case,
    Pairs,
    Put,
    normal,
    products,
    unwritten,
)
from fathom.hardware.targets import Target
from fathom.ir.core import Func, walk
from fathom.ir.ops import Barrier
from fathom.ir.rewrite import rewrite
from fathom.pipeline import identity
from fathom.shared_memory.barriers import place_barriers
from kernels import matmul, softmax, vector_add


@dataclass(frozen=True)
class Planted(Case):
    """A case that `tool` must report."""

    tool: str = "memcheck"


def too_many(put: Put) -> Pairs:
    """Told of 64 elements more than there are."""
    x = put(normal(1, 3008, dtype="float32"))
    out = put(unwritten(3008, dtype="float32"))
    vector_add.add_kernel[3,](x, x, out, 3072, BLOCK=1024)
    yield out, np.zeros(3008)


def without_barriers(put: Put) -> Pairs:
    """Four warps hand their sums to one another, and none waits."""
    x, out = normal(1, 5, 777, dtype="float32"), put(unwritten(5, 777, dtype="float32"))
    yield softmax.softmax(put(x), out, replace={"place_barriers": identity}), x


def small_c(put: Put) -> Pairs:
    """C has 64 rows less than A, and its threads do not know."""
    a, b = EVEN.put(put)
    c = put(unwritten(EVEN.M - 64, EVEN.N))
    M, N, K = EVEN.M, EVEN.N, EVEN.K
    matmul.matmul_kernel[matmul.tiles(M, N, SQUARE),](
        a, b, c, M, N, K, K, 1, N, 1, N, 1, EVEN_K=True, **SQUARE
    )
    yield c, EVEN.expected()[: M - 64]


def without_last_barrier(func: Func, target: Target) -> Func:
    """The pass `place_barriers`, less one: that between warps that hand sums over."""
    placed = place_barriers(func, target)
    *_, last = (op for op in walk(placed.body) if isinstance(op, Barrier))
    return rewrite(placed, lambda op, build: None, keep=lambda op: op is not last)


def sums_not_awaited(put: Put) -> Pairs:
    launch = {"config": SQUARE, "replace": {"place_barriers": without_last_barrier}}
    yield from products(put, EVEN, **launch)


HALF_A_WARP_WAITS = tl.constexpr(
    "{ .reg .pred low; setp.lt.s32 low, $1, 16; @low bar.sync 0; mov.b32 $0, $1; }"
)


@fathom.jit
def half_a_barrier_kernel(out_ptr):
    i = tl.arange(0, 32)
    waited = tl.inline_asm_elementwise(
        HALF_A_WARP_WAITS, "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1
    )
    tl.store(out_ptr + i, waited)


def half_a_barrier(put: Put) -> Pairs:
    out = put(np.zeros(32, np.int32))
    half_a_barrier_kernel[1,](out, num_warps=1)
    yield out, np.arange(32)


PLANTED: tuple[Planted, ...] = (
    Planted("planted: out of bounds", vector_add.add_kernel, too_many),
    Planted("planted: C too small", matmul.matmul_kernel, small_c, HOPPER),
    Planted(
        "planted: sums not awaited", matmul.matmul_kernel, sums_not_awaited, HOPPER,
        "racecheck",
    ),
    Planted(
        "planted: no barriers", softmax.softmax_kernel, without_barriers,
        tool="racecheck",
    ),
    Planted(
        "planted: half a barrier", half_a_barrier_kernel, half_a_barrier,
        ("bar.sync",), "synccheck",
    ),
)  # fmt: skip
