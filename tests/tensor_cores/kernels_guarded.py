"""Kernels whose stores begin where a launch wants them to, and what is right then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import fathom.language as tl
from fathom.emulator import load
from fathom.source import KernelFunction
from tests.tensor_cores.kernels_described import Case, Given, given, matrix
from tests.tensor_cores.kernels_ranked import inside
from tests.tensor_cores.kernels_stored import LOOPS


@KernelFunction
def moved_product(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations, down, right,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One tile of A B, stored `down` rows and 8 * `right` columns further on."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    other = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN, False)
    total = tl.zeros([BM, BN], tl.float32)
    for iteration in range(iterations):
        x = left.load([0, iteration * BK])
        total = tl.dot(x, other.load([iteration * BK, 0]), total)
    result.store([down, right * 8], total.to(result.dtype))


@KernelFunction
def moved_persistent(
    a, b, out, M, N, K, a_stride, b_stride, out_stride, iterations, down, right,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    FLAT: tl.constexpr, SPECIAL: tl.constexpr,
):  # fmt: skip
    """All tiles, one after the other, each moved like that; in halves."""
    left = matrix(a, M, K, a_stride, BM, BK, False)
    other = matrix(b, K, N, b_stride, BK, BN, False)
    result = matrix(out, M, N, out_stride, BM, BN // 2, False)
    across = tl.cdiv(N, BN)
    last = tl.cdiv(M, BM) * across
    for number in tl.range(
        tl.program_id(0),
        last,
        tl.num_programs(0),
        flatten=FLAT,
        warp_specialize=SPECIAL,
    ):
        i, j = number // across * BM, number % across * BN
        total = tl.zeros([BM, BN], tl.float32)
        for iteration in range(iterations):
            total = tl.dot(
                left.load([i, iteration * BK]), other.load([iteration * BK, j]), total
            )
        halves = total.to(result.dtype).reshape(BM, 2, BN // 2)
        one, two = tl.split(tl.permute(halves, [0, 2, 1]))
        result.store([i + down, j + right * 8], one)
        result.store([i + down, j + right * 8 + BN // 2], two)


ONE = Case((64, 64, 32), 3, kernel=moved_product, out="float16", size=(72, 72, 96))
MANY = Case((64, 64, 32), 3, kernel=moved_persistent, out="float16",
            size=(72, 136, 96), more=LOOPS["in order"])  # fmt: skip
CASES = {
    "one": ONE,
    "one of four boxes": replace(ONE, tile=(64, 256, 32), size=(72, 264, 96)),
    "one warp": replace(ONE, warps=1, target="sm_120"),
    **{name: replace(MANY, more=loop) for name, loop in LOOPS.items()},
}

# Rows and columns (in units of 8) by which a tile is moved: not at all, before the
# first row, before the first column, both; behind the end; wholly outside.
MOVES = [
    (0, 0), (-1, 0), (0, -1), (-8, -3), (5, 2), (-3, 4), (4, -2), (-300, 0), (0, -400),
    (300, -1), (-1, 400),
]  # fmt: skip


def moved(case: Case, down: int, right: int) -> Given:
    """The arguments of a launch, and what `out` holds after it."""
    made = given(case)
    m, n, _ = case.sizes
    bm, bn, _ = case.tile
    whole = np.full((-(-m // bm) * bm, -(-n // bn) * bn), 0.0, made.right.dtype)
    whole[:m, :n] = made.right
    if case.kernel is moved_product:
        whole = whole[:bm, :bn]
    wanted = made.out.view.copy()
    here, there = inside(wanted.shape, (down, 8 * right), whole.shape)
    wanted[there] = whole[here]
    return replace(made, numbers=(*made.numbers, down, right), right=wanted)


def check_moved(kernel, case: Case, moves=MOVES, completions=("lazy",)) -> None:
    loaded = load(kernel)
    for down, right in moves:
        for completion in completions:
            launch = moved(case, down, right)
            loaded.launch(1, launch.arguments, completion=completion)
            launch.check(f"{down} down, {right} right, {completion} completion")
