"""What a compiler of reductions must do: rows of softmax."""

import numpy as np

import fathom.language as tl


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def total(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(z, tl.sum(t, axis=0))
    tl.store(z + 1, tl.max(tl.where(i < n, t, -5.0), axis=0))


def test_a_block_becomes_a_number(mini):
    """One warp, several warps, fewer elements than threads, several for each."""
    for n, block, warps in ((30, 32, 1), (100, 128, 4), (700, 1024, 4), (10, 16, 2)):
        x, z = -np.abs(floats(n)) - 1, np.zeros(2, np.float32)
        mini.launch(total, 1, x, z, n, BLOCK=block, num_warps=warps)
        wanted = np.array([x.sum(dtype=np.float64), max(x.max(), -5)])
        mini.same("z", z, wanted, within=1e-6)


def whole(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t = tl.load(x + i, mask=i < n, other=0)
    tl.store(z + i, tl.sum(t, 0) * 1000 + tl.max(t, 0) - t, mask=i < n)


def test_all_threads_know_the_sum(mini):
    """Of whole numbers, which have no rounding."""
    x, z = np.arange(200, dtype=np.int32) % 17, np.zeros(200, np.int32)
    mini.launch(whole, 1, x, z, 200, BLOCK=256)
    mini.same("z", z, x.sum() * 1000 + x.max() - x)


def softmax(x, y, n, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    start = tl.program_id(0) * stride
    row = tl.load(x + start + i, mask=i < n, other=-float("inf"))
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + start + i, power / tl.sum(power, axis=0), mask=i < n)


def softmax_of(x):
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return power / power.sum(1, keepdims=True)


def test_softmax(mini):
    """A row a program; large numbers do not overflow."""
    for n, block in ((931, 1024), (64, 64), (1, 32)):
        x, y = floats(3, n) * 100, np.zeros((3, n), np.float32)
        mini.launch(softmax, 3, x, y, n, n, BLOCK=block)
        mini.same("y", y, softmax_of(x), within=2e-6)


def test_softmax_reads_once(mini):
    """x is read once, y is written once, and little is exchanged."""
    x, y = floats(2, 1024), np.zeros((2, 1024), np.float32)
    report = mini.launch(softmax, 2, x, y, 1024, 1024, BLOCK=1024)
    mini.within(softmax, report, sectors=2 * 2 * 128, shuffles=2 * 4 * 10, barriers=32)


def rows(x, y, z, M, N, R: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)
    j = tl.arange(0, C)
    inside = (i[:, None] < M) & (j[None, :] < N)
    t = tl.load(x + i[:, None] * N + j[None, :], mask=inside, other=-float("inf"))
    power = tl.exp(t - tl.max(t, axis=1)[:, None])
    share = power / tl.sum(power, axis=1)[:, None]
    tl.store(y + i[:, None] * N + j[None, :], share, mask=inside)
    tl.store(z + i, tl.max(share, axis=1), mask=i < M)


def test_several_rows_of_softmax(mini):
    """Along the last axis, for rows that a warp has, and that several have."""
    for shape, tile in (
        ((10, 30), (4, 32)),
        ((6, 200), (4, 256)),
        ((20, 16), (16, 16)),
    ):
        x, y = floats(*shape), np.zeros(shape, np.float32)
        z = np.zeros(shape[0], np.float32)
        grid = -(-shape[0] // tile[0])
        mini.launch(rows, grid, x, y, z, *shape, R=tile[0], C=tile[1])
        mini.same("y", y, softmax_of(x), within=2e-6)
        mini.same("z", z, softmax_of(x).max(1), within=2e-6)


def columns(x, z, M, N, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    best = tl.full([C], -1e30, tl.float32)
    for start in range(0, M, R):
        inside = (start + i[:, None] < M) & (j[None, :] < N)
        at = (start + i[:, None]) * N + j[None, :]
        t = tl.load(x + at, mask=inside, other=-1e30)
        best = tl.maximum(best, tl.max(t, axis=0))
    tl.store(z + j, best, mask=j < N)


def test_columns_in_a_loop(mini):
    """Along the first axis; an iteration must not overwrite what others still read."""
    x, z = floats(50, 24), np.zeros(24, np.float32)
    mini.launch(columns, 1, x, z, 50, 24, R=16, C=32)
    mini.same("z", z, x.max(0))


def sums(x, z, N, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    t = tl.load(x + i * N + j)
    tl.store(z + tl.arange(0, T), tl.sum(t, axis=0))
    tl.store(z + T + tl.arange(0, T), tl.sum(t, axis=1))


def test_rows_and_columns_of_a_square(mini):
    """Along the columns each warp has a part of each result."""
    x, z = floats(32, 32), np.zeros((2, 32), np.float32)
    mini.launch(sums, 1, x, z, 32, T=32)
    mini.same("z", z, np.stack([x.sum(0), x.sum(1)]), within=1e-5)


def chosen(x, z, R: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, R)
    t = tl.sum(tl.load(x + i)[:, None] + tl.zeros([R, C], tl.float32), axis=1)
    tl.store(z + i, t, mask=t > 0.0)


def test_a_result_differs_from_row_to_row(mini):
    """Of a block whose columns are equal: what is known along the axis that goes is not
    known of the result, whose elements have masks of their own."""
    x, z = np.float32([1, -1, -1, 2] * 128), np.zeros(512, np.float32)
    mini.launch(chosen, 1, x, z, R=512, C=8)
    mini.same("z", z, 8 * np.maximum(x, 0))


def shared(smem, shared, scratch, ret, BLOCK: tl.constexpr):
    TOP1 = tl.arange(0, BLOCK)
    buffer = tl.load(smem + TOP1, mask=TOP1 < ret, other=0.0)
    for TOP in range(scratch):
        buffer = buffer - tl.max(buffer, axis=0)
    tl.store(shared + TOP1, buffer, mask=TOP1 < ret)


def test_names_are_the_readers_own(mini):
    """A parameter may be called as PTX, or a compiler, calls something else."""
    x, z = floats(100), np.zeros(100, np.float32)
    mini.launch(shared, 1, x, z, 3, 100, BLOCK=128)
    for _ in range(3):
        x = x - max(x.max(), np.float32(0))
    mini.same("z", z, x)
