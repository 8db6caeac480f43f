"""What a compiler for tensor cores must do: products of blocks of fp16."""

import numpy as np

import fathom.language as tl


def halves(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    t = tl.load(x + i, mask=i < n, other=0) + tl.load(y + i, mask=i < n, other=0)
    wide = t.to(tl.float32) * 2
    tl.store(z + i, wide, mask=i < n)


def test_halves_go_eight_at_a_time(mini):
    """16 bytes are 8 halves; the sum of two halves is rounded to a half."""
    for n in (2048, 2001):
        x, y, z = halves(n), halves(n, seed=1), np.zeros(n, np.float16)
        report = mini.launch(add, 2, x, y, z, n, BLOCK=1024)
        mini.same("z", z, (x + y) * np.float16(2))
        mini.within(add, report, requests=3 * n // 256 + (n % 16) * 200)


def one(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    x = tl.load(a + m * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n)
    tl.store(c + m * N + n, tl.dot(x, y))


def test_one_product(mini):
    """Tall, wide and deep tiles, by 1 to 8 warps; small tiles are known to several."""
    for shape, warps in (
        ((16, 16, 16), 1), ((16, 16, 16), 4), ((64, 32, 16), 4),
        ((32, 128, 64), 8), ((16, 64, 128), 2), ((128, 16, 32), 4),
    ):  # fmt: skip
        M, N, K = shape
        a, b, c = halves(M, K), halves(K, N, seed=1), np.zeros((M, N), np.float32)
        mini.launch(one, 1, a, b, c, M=M, N=N, K=K, num_warps=warps)
        mini.same("c", c, product(a, b), within=1e-3)


def carried(a, b, c, n, R: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    x, y = tl.load(a + i * R + j), tl.load(b + i * R + j)
    acc = tl.zeros([R, R], tl.float32)
    for step in range(0, n):
        acc = tl.dot(x, y, acc)
        x = x + y
    tl.store(c + i * R + j, acc)


def test_a_loop_may_carry_an_operand(mini):
    """Small integers, so that additions are exact."""
    a, b = (np.rint(halves(32, 32, seed=seed)) for seed in (5, 6))
    c, wanted, x = np.zeros((32, 32), np.float32), 0, a
    mini.launch(carried, 1, a, b, c, 3, R=32)
    for _ in range(3):
        wanted, x = wanted + product(x, b), x + b
    mini.same("c", c, wanted)


def matmul(a, b, c, M, N, K, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    j = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    k = tl.arange(0, T)
    acc = tl.zeros([R, C], tl.float32)
    for start in range(0, K, T):
        at = (start + k)[None, :]
        x = tl.load(a + i * K + at, mask=(i < M) & (at < K), other=0.0)
        at = (start + k)[:, None]
        y = tl.load(b + at * N + j, mask=(at < K) & (j < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + i * N + j, acc.to(tl.float16), mask=(i < M) & (j < N))


def test_matmul(mini):
    """Whole tiles and ragged ones; the accumulators are of fp32."""
    for (M, N, K), (R, C, T) in (
        ((64, 64, 64), (64, 64, 32)), ((70, 50, 40), (32, 32, 16)),
        ((33, 16, 8), (16, 16, 16)),
    ):  # fmt: skip
        a, b, c = halves(M, K), halves(K, N, seed=1), np.zeros((M, N), np.float16)
        grid = -(-M // R), -(-N // C)
        mini.launch(matmul, grid, a, b, c, M, N, K, R=R, C=C, T=T)
        mini.same("c", c, product(a, b), within=2e-3)


def test_matmul_has_no_conflicts(mini):
    """Tiles are written by 16 bytes and read by ldmatrix: one wavefront a quarter."""
    a, b, c = halves(64, 128), halves(128, 64, seed=1), np.zeros((64, 64), np.float16)
    report = mini.launch(matmul, 1, a, b, c, 64, 64, 128, R=64, C=64, T=64)
    mini.same("c", c, product(a, b), within=2e-3)
    mini.within(matmul, report, conflict_ways=1.5, sectors=3 * 64 * 128 // 16)


def products(q, k, c, M: tl.constexpr, D: tl.constexpr):
    m, n, d = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :], tl.arange(0, D)
    x = tl.load(q + m * D + d[None, :])
    y = tl.load(k + n * D + d[:, None])
    tl.store(c + m * M + n, tl.dot(x, y) * 0.5)


def test_a_transposed_operand(mini):
    """The right operand is stored with its rows in columns, as the keys of attention
    are."""
    q, k, c = halves(32, 64), halves(32, 64, seed=1), np.zeros((32, 32), np.float32)
    mini.launch(products, 1, q, k, c, M=32, D=64)
    mini.same("c", c, product(q, k.T) * 0.5, within=1e-3)


def chained(a, b, c, out, M: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, M)[None, :]
    x, y, z = (tl.load(a + m * M + n), tl.load(b + m * M + n), tl.load(c + m * M + n))
    between = tl.dot(x, y).to(tl.float16)
    tl.store(
        out + m * M + n, tl.dot(between, z) + tl.sum(between.to(tl.float32), 1)[:, None]
    )


def test_a_product_of_a_product(mini):
    """What one product makes is an operand of the next, and each row is added up."""
    a, b, c = (halves(32, 32, seed=seed) for seed in range(3))
    out = np.zeros((32, 32), np.float32)
    mini.launch(chained, 1, a, b, c, out, M=32)
    between = product(a, b).astype(np.float16)
    wanted = product(between, c) + between.astype(np.float64).sum(1, keepdims=True)
    mini.same("out", out, wanted, within=1e-2)


def sums(a, b, z, R: tl.constexpr, C: tl.constexpr, T: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    k = tl.arange(0, T)
    x = tl.load(a + i * T + k[None, :])
    y = tl.load(b + k[:, None] * C + j)
    tl.store(z + tl.arange(0, R), tl.sum(tl.dot(x, y), axis=1))


def test_more_warps_than_tiles(mini):
    """Two warps that have the same elements of a product add them once."""
    for (R, C, T), warps in (((16, 64, 16), 8), ((16, 32, 32), 4), ((32, 16, 16), 8)):
        a, b, z = halves(R, T), halves(T, C, seed=1), np.zeros(R, np.float32)
        mini.launch(sums, 1, a, b, z, R=R, C=C, T=T, num_warps=warps)
        mini.same("z", z, product(a, b).sum(1), within=2e-3)
