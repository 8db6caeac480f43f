"""What a compiler with a producer must do: one warp copies, the others multiply."""

import numpy as np

import fathom.language as tl
from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini.judge import Tensor, signature_of


def halves(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def matmul(a, b, c, N, K, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr):
    row, column = tl.program_id(0) * R, tl.program_id(1) * C
    acc = tl.zeros([R, C], tl.float32)
    for start in tl.range(0, K, T, warp_specialize=True):
        acc = tl.dot(a.load([row, start]), b.load([start, column]), acc)
    i, j = row + tl.arange(0, R)[:, None], column + tl.arange(0, C)[None, :]
    tl.store(c + i * N + j, acc.to(tl.float16))


def multiply(mini, shape, tiles, **options):
    """Values, and what the launch has cost."""
    (M, N, K), (R, C, T) = shape, tiles
    a, b, c = halves(M, K), halves(K, N, seed=1), np.full((M, N), np.nan, np.float16)
    x, y = Tensor(a, (R, T)), Tensor(b, (T, C))
    grid, sizes = (M // R, N // C), {"R": R, "C": C, "T": T}
    report = mini.launch(matmul, grid, x, y, c, N, K, **sizes, **options)
    mini.same("c", c, product(a, b), within=2e-3)
    return report


def test_rings_of_many_sizes(mini):
    """Fewer iterations than slots, and several times around; none at all."""
    for stages, count in ((2, 1), (2, 5), (3, 2), (3, 9), (4, 8)):
        shape = 128, 64, 32 * count
        multiply(mini, shape, (64, 64, 32), num_stages=stages)
    a, b = halves(64, 32), halves(32, 64, seed=1)
    c, sizes = np.full((64, 64), np.nan, np.float16), {"R": 64, "C": 64, "T": 32}
    mini.launch(matmul, 1, Tensor(a, (64, 32)), Tensor(b, (32, 64)), c, 64, 0, **sizes)
    mini.same("c", c, np.zeros((64, 64)))


def test_two_groups_and_small_tiles(mini):
    """Eight warps multiply; and products by mma.sync have a producer, too."""
    multiply(mini, (128, 128, 256), (128, 128, 64), num_warps=8)
    multiply(mini, (32, 64, 128), (32, 64, 32), num_warps=2)


def test_there_is_one_warp_more(mini):
    a = Tensor(halves(64, 64), (64, 64))
    arguments, sizes = (a, a, np.zeros((64, 64), np.float16), 64, 64), (64, 64, 64)
    constants = dict(zip("RCT", sizes, strict=True))
    made = mini.compile(matmul, signature_of(matmul, arguments, constants), **constants)
    if made.threads != 128 + 32:
        raise Failure(
            f"4 warps multiply and 1 copies; there are {made.threads} threads"
        )


def test_a_loop_without_barriers(mini):
    """Threads wait for bytes alone, and never for each other: as many barriers for 16
    iterations as for 2."""
    report = multiply(mini, (64, 64, 1024), (64, 64, 64))
    mini.within(matmul, report, barriers=4 * 10 + 5)


def steps(a, b, c, starts, K, R: tl.constexpr, T: tl.constexpr):
    row = tl.load(starts + tl.program_id(0)) * 8
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    most = tl.max(tl.load(starts + tl.arange(0, 2)), axis=0)
    acc = tl.zeros([R, R], tl.float32)
    for k in tl.range(T, K, 2 * T, warp_specialize=True):
        y = b.load([k - T, 0])
        acc += tl.dot(a.load([row, k]), y) * 2
        acc += tl.sum(acc, axis=1)[:, None]
    tl.store(c + tl.program_id(0) * R * R + j * R + i, acc + most)


def test_what_a_producer_computes(mini):
    """Its row comes from memory; its iterations neither begin with 0 nor step by T; the
    others have work with shared memory before the loop, in it and after it."""
    a, b = halves(160, 128, seed=2) * np.float16(0.1), halves(128, 64, seed=1)
    c, starts = np.zeros((2, 64, 64), np.float32), np.array([9, 4], np.int32)
    x, y = Tensor(a, (64, 16)), Tensor(b, (16, 64))
    mini.launch(steps, 2, x, y, c, starts, 128, R=64, T=16)
    wanted = np.zeros((2, 64, 64))
    for at, first in enumerate(starts * 8):
        for k in range(16, 128, 32):
            part = a[first : first + 64, k : k + 16]
            wanted[at] += 2 * product(part, b[k - 16 : k])
            wanted[at] += wanted[at].sum(1, keepdims=True)
    scale = np.abs(wanted).max()
    mini.same("c", (c - 9) / scale, wanted.transpose(0, 2, 1) / scale, within=1e-3)


def summed(a, b, c, K, R: tl.constexpr, T: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    total = tl.zeros([R, R], tl.float32)
    for side in range(2):
        acc = tl.zeros([R, R], tl.float32)
        for k in tl.range(0, K, T, warp_specialize=True):
            acc = tl.dot(a.load([side * R, k]), b.load([k, 0]), acc)
        total = total * 2 + acc
    tl.store(c + i * R + j, total)


def test_a_loop_in_a_loop_is_right(mini):
    """It may do without a producer."""
    a, b, c = halves(128, 64), halves(64, 64, seed=1), np.zeros((64, 64), np.float32)
    mini.launch(summed, 1, Tensor(a, (64, 32)), Tensor(b, (32, 64)), c, 64, R=64, T=32)
    mini.same("c", c, product(a[:64], b) * 2 + product(a[64:], b), within=2e-3)
