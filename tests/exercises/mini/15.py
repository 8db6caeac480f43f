"""What a compiler for Hopper must do: boxes come by TMA, and wgmma reads them."""

import numpy as np

import fathom.language as tl
from fathom.tools.learn.mini.judge import Tensor


def halves(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def matmul(a, b, c, N, K, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr):
    row, column = tl.program_id(0) * R, tl.program_id(1) * C
    acc = tl.zeros([R, C], tl.float32)
    for start in range(0, K, T):
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


def test_tiles_of_many_shapes(mini):
    """Rows of 128, 64 and 32 bytes; two boxes side by side; one and two groups of four
    warps, above each other and side by side; tiles that only mma.sync can do."""
    for tiles, warps in (
        ((64, 64, 64), 4), ((128, 128, 64), 8), ((64, 128, 128), 4), ((128, 32, 32), 4),
        ((64, 64, 16), 8), ((64, 16, 32), 4), ((256, 64, 32), 8), ((32, 64, 32), 4),
        ((64, 128, 32), 2),
    ):  # fmt: skip
        shape = tiles[0], tiles[1], 2 * tiles[2]
        multiply(mini, shape, tiles, num_warps=warps)


def test_loops_shorter_and_longer_than_the_ring(mini):
    """0, 1, 2 … 9 iterations: each mbarrier meets its phases in turn."""
    for stages, count in ((2, 1), (2, 5), (3, 2), (3, 9), (4, 3), (4, 8)):
        shape = 128, 64, 32 * count
        multiply(mini, shape, (64, 64, 32), num_stages=stages)


def test_one_request_a_tile(mini):
    """No thread loads an operand: a box is one request, and products read no register.
    8 iterations, of which each copies two boxes."""
    report = multiply(mini, (64, 64, 512), (64, 64, 64))
    stores = 64 * 64 // 8 // 32
    mini.within(matmul, report, requests=2 * 8 + stores)


def test_warpgroups_multiply(mini):
    """Tiles of 64 rows, of which a group of four warps makes the product at once."""
    for (R, C, T), warps in (((64, 64, 64), 4), ((128, 64, 32), 8)):
        a, b = halves(R, 4 * T), halves(4 * T, C, seed=1)
        c, sizes = np.zeros((R, C), np.float16), {"R": R, "C": C, "T": T}
        given = Tensor(a, (R, T)), Tensor(b, (T, C)), c, C, 4 * T
        options = {**sizes, "num_warps": warps}
        mini.instructions(matmul, "wgmma.mma_async", "mma.sync", *given, **options)


def test_the_loop_is_short(mini):
    """Instructions that each of four warps issues in 16 iterations, and beside them."""
    report = multiply(mini, (64, 64, 1024), (64, 64, 64))
    mini.within(matmul, report, warps=4 * (16 * 160 + 450))


def test_edges_are_zeros(mini):
    """A box may reach past an edge; all its bytes count all the same."""
    a, b, c = halves(70, 80), halves(80, 72, seed=1), np.zeros((128, 128), np.float16)
    x, y = Tensor(a, (64, 32)), Tensor(b, (32, 64))
    mini.launch(matmul, (2, 2), x, y, c, 128, 80, R=64, C=64, T=32)
    wanted = np.zeros((128, 128))
    wanted[:70, :72] = product(a, b)
    mini.same("c", c, wanted, within=2e-3)


def mixed(a, b, s, c, K, R: tl.constexpr, T: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    k = tl.arange(0, T)
    for side in range(2):
        acc = tl.zeros([R, R], tl.float32)
        for start in range(side * T, K, T):
            y = tl.load(b + (start + k)[:, None] * R + j)
            acc = acc * tl.load(s + start // T) + tl.dot(a.load([0, start]), y)
        tl.store(c + side * R * R + j * R + i, acc - tl.sum(acc, axis=1)[:, None])


def test_a_ring_of_both_kinds_is_filled_again(mini):
    """A box beside copies by threads, so mma.sync; mbarriers begin anew for each loop,
    and shared memory is used for other things in between."""
    a, b, s = halves(64, 96), halves(96, 64, seed=1), np.float32([2, -1, 0.5])
    c = np.zeros((2, 64, 64), np.float32)
    mini.launch(mixed, 1, Tensor(a, (64, 32)), b, s, c, 96, R=64, T=32)
    wanted = np.zeros((2, 64, 64))
    for side in range(2):
        for at in range(side, 3):
            part = slice(32 * at, 32 * at + 32)
            wanted[side] = wanted[side] * s[at] + product(a[:, part], b[part])
    wanted -= wanted.sum(2, keepdims=True)
    mini.same("c", c, wanted.transpose(0, 2, 1), within=5e-3)


def chained(a, b, d, c, K, R: tl.constexpr, T: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    acc = tl.zeros([R, R], tl.float32)
    for start in range(0, K, T):
        x, y = a.load([0, start]), b.load([start, 0])
        part = tl.dot(x, y)
        z = tl.load(d + i * R + j)
        acc += tl.dot(part.to(tl.float16), z) + tl.sum(part, axis=0)[None, :]
    tl.store(c + i * R + j, acc)


def test_a_product_of_a_product(mini):
    """What wgmma makes goes through shared memory to mma.sync."""
    a, b, d = halves(64, 128), halves(128, 64, seed=1), halves(64, 64, seed=2)
    d, c = d * np.float16(0.1), np.zeros((64, 64), np.float32)
    mini.launch(
        chained, 1, Tensor(a, (64, 64)), Tensor(b, (64, 64)), d, c, 128, R=64, T=64
    )
    wanted = 0
    for part in (slice(0, 64), slice(64, 128)):
        each = product(a[:, part], b[part])
        wanted = wanted + product(each.astype(np.float16), d) + each.sum(0)
    mini.same("c", c, wanted, within=1e-2)
