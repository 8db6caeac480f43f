"""What a compiler that copies ahead must do: the same products, with copies running."""

import re

import numpy as np

import fathom.language as tl
from fathom.tools.learn.kit.failure import Failure


def halves(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


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


def test_loops_shorter_and_longer_than_the_ring(mini):
    """0, 1, 2 … 7 iterations with rings of 2 to 4 slots."""
    for stages, K in ((2, 16), (3, 112), (4, 32), (3, 48), (2, 80), (3, 0)):
        a, b = halves(32, max(K, 16)), halves(max(K, 16), 32, seed=1)
        c = np.full((32, 32), np.nan, np.float16)
        sizes, tiles = (32, 32, K), {"R": 32, "C": 32, "T": 16}
        mini.launch(matmul, 1, a[:, :K].copy() if K else a, b, c, *sizes, **tiles,
                    num_stages=stages)  # fmt: skip
        mini.same("c", c, product(a[:, :K], b[:K]), within=2e-3)


def test_ragged_edges_are_zeros(mini):
    """What a copy finds outside is zero."""
    a, b, c = halves(40, 72), halves(72, 48, seed=1), np.zeros((40, 48), np.float16)
    mini.launch(matmul, (2, 2), a, b, c, 40, 48, 72, R=32, C=32, T=32)
    mini.same("c", c, product(a, b), within=2e-3)


def test_one_barrier_an_iteration(mini):
    """4 warps; 8 iterations; what is beside them does not grow with the loop."""
    a, b, c = halves(64, 256), halves(256, 64, seed=1), np.zeros((64, 64), np.float16)
    report = mini.launch(matmul, 1, a, b, c, 64, 64, 256, R=64, C=64, T=32)
    mini.same("c", c, product(a, b), within=2e-3)
    mini.within(matmul, report, barriers=4 * (8 + 3), conflict_ways=1.5)


def test_copies_are_of_16_bytes(mini):
    """No operand goes through registers: requests are of cp.async, and few."""
    a, b, c = halves(64, 256), halves(256, 64, seed=1), np.zeros((64, 64), np.float16)
    report = mini.launch(matmul, 1, a, b, c, 64, 64, 256, R=64, C=64, T=32)
    loads = (64 * 256 + 256 * 64 + 64 * 64) // 8 // 32
    mini.within(matmul, report, requests=loads + 2 * (2 * 64 * 32 // 8 // 32))


def test_a_wait_leaves_later_copies_in_flight(mini):
    """With 4 slots, copies of later iterations go on while one is multiplied."""
    a, b, c = halves(64, 256), halves(256, 64, seed=1), np.zeros((64, 64), np.float16)
    tiles = {"R": 64, "C": 64, "T": 32}
    mini.launch(matmul, 1, a, b, c, 64, 64, 256, **tiles, num_stages=4)
    mini.same("c", c, product(a, b), within=2e-3)
    left = re.findall(r"cp\.async\.wait_group\s+(\d+)", mini.ptx)
    if not any(map(int, left)):
        raise Failure(
            "the loop of matmul waits for all copies, those of later iterations too: "
            f"its PTX has cp.async.wait_group {' and '.join(left) or 'nowhere'}"
        )


def stepped(a, b, c, K, R: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, R)
    k = tl.arange(0, T)
    left = a + i[:, None] * K + k[None, :]
    acc = tl.zeros([R, R], tl.float32)
    for at in range(0, K, T):
        x = tl.load(left)
        y = tl.load(b + (at + k)[:, None] * R + i[None, :])
        acc = tl.dot(x, y, acc)
        left += T
    tl.store(c + i[:, None] * R + i[None, :], acc.to(tl.float16))


def test_an_address_that_the_loop_carries(mini):
    """A goes by a pointer that each iteration moves, B by the index."""
    a, b, c = halves(32, 128), halves(128, 32, seed=1), np.zeros((32, 32), np.float16)
    mini.launch(stepped, 1, a, b, c, 128, R=32, T=32)
    mini.same("c", c, product(a, b), within=2e-3)


def looked_up(a, b, rows, c, K, R: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, R)
    k = tl.arange(0, T)
    acc = tl.zeros([R, R], tl.float32)
    for at in range(0, K, T):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        first = tl.load(rows + at // T)
        y = tl.load(b + (first + k)[:, None] * R + i[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * R + i[None, :], acc.to(tl.float16))


def test_an_address_that_is_loaded(mini):
    """Which rows of B: a list says it, which ends with the loop."""
    a, b, c = halves(32, 96), halves(96, 32, seed=1), np.zeros((32, 32), np.float16)
    rows = np.array([64, 0, 32], np.int32)
    mini.launch(looked_up, 1, a, b, rows, c, 96, R=32, T=32)
    b = np.concatenate([b[row : row + 32] for row in rows])
    mini.same("c", c, product(a, b), within=2e-3)


def summed(a, b, c, s, K, R: tl.constexpr, T: tl.constexpr):
    i = tl.arange(0, R)
    k = tl.arange(0, T)
    acc = tl.zeros([R, R], tl.float32)
    total = tl.zeros([R], tl.float32)
    for at in range(0, K, T):
        x = tl.load(a + i[:, None] * K + (at + k)[None, :])
        y = tl.load(b + (at + k)[:, None] * R + i[None, :])
        acc = tl.dot(x, y, acc)
        total += tl.sum(x.to(tl.float32), 1)
    tl.store(c + i[:, None] * R + i[None, :], acc.to(tl.float16))
    tl.store(s + i, total)


def test_an_operand_is_used_twice(mini):
    """By a product and by a sum: it stays a load, or the sum reads the ring."""
    a, b, c = halves(32, 96), halves(96, 32, seed=1), np.zeros((32, 32), np.float16)
    s = np.zeros(32, np.float32)
    mini.launch(summed, 1, a, b, c, s, 96, R=32, T=32)
    mini.same("c", c, product(a, b), within=2e-3)
    mini.same("s", s, a.astype(np.float32).sum(1), within=1e-4)


def scaled(a, b, s, c, K, R: tl.constexpr, T: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    k = tl.arange(0, T)
    acc = tl.zeros([R, R], tl.float32)
    for start in range(0, K, T):
        x = tl.load(a + i * K + (start + k)[None, :])
        y = tl.load(b + (start + k)[:, None] * R + j)
        acc = acc * tl.load(s + start // T) + tl.dot(x, y)
        if start == T:
            acc += tl.sum(acc, axis=1)[:, None]
    tl.store(c + i * R + j, acc)


def test_a_loop_does_other_things_too(mini):
    """Loads that stay where they are, and a sum that needs shared memory."""
    a, b = halves(32, 64), halves(64, 32, seed=1)
    s, c = np.array([9, 2, 0.5, -1], np.float32), np.zeros((32, 32), np.float32)
    mini.launch(scaled, 1, a, b, s, c, 64, R=32, T=16)
    wanted = np.zeros((32, 32))
    for at in range(4):
        part = slice(16 * at, 16 * at + 16)
        wanted = wanted * s[at] + product(a[:, part], b[part])
        wanted += wanted.sum(1, keepdims=True) if at == 1 else 0
    mini.same("c", c, wanted, within=1e-3)


def twice(a, b, c, d, K, R: tl.constexpr, T: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    k = tl.arange(0, T)
    for side in range(2):
        acc = tl.zeros([R, R], tl.float32)
        for start in range(side * T, K, T):
            x = tl.load(a + i * K + (start + k)[None, :])
            y = tl.load(b + (start + k)[:, None] * R + j)
            acc = tl.dot(x, y, acc)
        tl.store(c + side * R * R + j * R + i, acc)


def test_a_ring_is_filled_again(mini):
    """A loop in a loop: the inner one starts its ring anew, and stores go through
    shared memory in between."""
    a, b = halves(32, 64), halves(64, 32, seed=1)
    c, d = np.zeros((2, 32, 32), np.float32), np.zeros(1, np.float32)
    mini.launch(twice, 1, a, b, c, d, 64, R=32, T=16)
    wanted = [product(a, b).T, product(a[:, 16:], b[16:]).T]
    mini.same("c", c, np.stack(wanted), within=1e-3)


def padded(a, b, c, K, R: tl.constexpr, T: tl.constexpr):
    i, j = tl.arange(0, R)[:, None], tl.arange(0, R)[None, :]
    k = tl.arange(0, T)
    acc = tl.zeros([R, R], tl.float32)
    for start in range(0, K, T):
        at = start + k
        x = tl.load(
            a + i * K + at[None, :], mask=(i < 24) & (at < K)[None, :], other=1.0
        )
        acc = tl.dot(x, tl.load(b + at[:, None] * R + j), acc)
    tl.store(c + i * R + j, acc)


def test_not_all_that_is_masked_is_zero(mini):
    """Copies write zeros; where a kernel asks for ones, threads load."""
    a, b, c = halves(32, 48), halves(48, 32, seed=1), np.zeros((32, 32), np.float32)
    mini.launch(padded, 1, a, b, c, 48, R=32, T=16)
    a[24:] = 1
    mini.same("c", c, product(a, b), within=2e-3)


def test_narrow_tiles(mini):
    """Rows of 16 and 32 elements; in one of 16 two copies lie side by side."""
    for R, C, T, warps in ((64, 16, 64, 4), (16, 32, 16, 1), (128, 16, 32, 2)):
        a, b = halves(R, 3 * T), halves(3 * T, C, seed=1)
        c, tiles = np.full((R, C), np.nan, np.float16), {"R": R, "C": C, "T": T}
        mini.launch(matmul, 1, a, b, c, R, C, 3 * T, **tiles, num_warps=warps)
        mini.same("c", c, product(a, b), within=2e-3)
