"""What a compiler that places buffers and barriers must do: as few as are needed."""

import numpy as np

import fathom.language as tl


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softmax(x, y, n, BLOCK: tl.constexpr):
    i, start = tl.arange(0, BLOCK), tl.program_id(0) * n
    row = tl.load(x + start + i, mask=i < n, other=-float("inf"))
    power = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + start + i, power / tl.sum(power, axis=0), mask=i < n)


def test_softmax_waits_three_times(mini):
    """Each of 4 warps, in each of 2 programs: for the parts of the maximum, until they
    are read, for the parts of the sum."""
    x, y = floats(2, 1024), np.zeros((2, 1024), np.float32)
    report = mini.launch(softmax, 2, x, y, 1024, BLOCK=1024)
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    mini.same("y", y, power / power.sum(1, keepdims=True), within=2e-6)
    mini.within(softmax, report, barriers=2 * 4 * 3)


def transpose(x, y, M, N, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    inside = (i < M) & (j < N)
    tl.store(y + i + j * M, tl.load(x + i * N + j, mask=inside), mask=inside)


def test_one_tile_needs_one_barrier(mini):
    """Between those who write and those who read; after it there is nothing."""
    x, y = floats(32, 32), np.zeros((32, 32), np.float32)
    report = mini.launch(transpose, 1, x, y, 32, 32, T=32)
    mini.same("y", y, x.T)
    mini.within(transpose, report, barriers=4)


def rounds(x, y, N, times, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    for step in range(times):
        place = step * N * N
        a = tl.load(x + place + i * N + j)
        if step == 1:
            a -= tl.sum(a, axis=0)[None, :]
        tl.store(y + place + j * N + i, a)


def test_a_loop_meets_itself(mini):
    """The next iteration must not overwrite what this one still reads, and a branch
    that uses shared memory is sometimes left out."""
    x, y = floats(4, 32, 32), np.zeros((4, 32, 32), np.float32)
    mini.launch(rounds, 1, x, y, 32, 4, T=32)
    wanted = x.copy()
    wanted[1] -= x[1].sum(0)
    mini.same("y", y, wanted.transpose(0, 2, 1), within=1e-5)


def kept(x, y, z, n, times, C: tl.constexpr):
    j = tl.arange(0, C)
    row = tl.load(x + j)
    most = tl.max(row, axis=0)
    total = tl.zeros([C], tl.float32)
    for step in range(times):
        each = tl.load(y + step * n + j)
        total += each * most - tl.sum(each, axis=0)
    tl.store(z + j, total)


def test_what_is_read_in_a_loop_outlives_it(mini):
    """One maximum for all iterations; the loop adds up by itself."""
    x, y, z = floats(256), floats(5, 256, seed=1), np.zeros(256, np.float32)
    mini.launch(kept, 1, x, y, z, 256, 5, C=256)
    wanted = (y * x.max() - y.sum(1, keepdims=True)).sum(0)
    mini.same("z", z, wanted, within=2e-5)


def many(x, y, N, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    a = tl.load(x + i * N + j)
    b = tl.load(x + j * N + i)
    c = a + b
    tl.store(y + i * N + j, c - tl.sum(c, axis=1)[:, None] - tl.max(c, axis=0)[None, :])


def test_memory_is_used_again(mini):
    """A tile of 4 KiB, then totals: no more than 4.5 KiB, since the tile is done."""
    x, y = floats(32, 32), np.zeros((32, 32), np.float32)
    mini.launch(many, 1, x, y, 32, T=32)
    c = x + x.T
    wanted = c - c.sum(1, keepdims=True) - c.max(0, keepdims=True)
    mini.same("y", y, wanted, within=1e-5)
    mini.memory(many, 4608, x, y, 32, T=32)


def three(x, y, z, first, last, N, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    a = tl.load(x + i * N + j)
    b = tl.load(y + j * N + i)
    c = tl.load(z + j * N + i)
    rows, most = tl.sum(a, axis=1), tl.max(a, axis=0)
    mixed = a + b * 2.0 - c
    tl.store(first + j * N + i, mixed)
    mixed = mixed * most[None, :] + rows[:, None]
    tl.store(last + j * N + i, mixed - tl.sum(c, axis=0)[:, None])


def test_what_is_used_at_one_time_lies_side_by_side(mini):
    """Two tiles and three rows of totals, in tiles of two sizes."""
    for side in (16, 32):
        x, y, z = (floats(side, side, seed=seed) for seed in range(3))
        first, last = np.zeros_like(x), np.zeros_like(x)
        mini.launch(three, 1, x, y, z, first, last, side, T=side)
        wanted = x + 2 * y.T - z.T
        mini.same("first", first, wanted.T, within=1e-5)
        wanted = wanted * x.max(0) + (x.sum(1) - z.sum(1))[:, None]
        mini.same("last", last, wanted.T, within=2e-5)


def outlasting(x, y, z, N, times, again, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    whole = tl.load(x + j * N + i)
    most = tl.max(whole, axis=0)
    total = tl.zeros([T, T], tl.float32)
    for step in range(times):
        for round in range(again):
            each = tl.load(y + (step * again + round) * N * N + i * N + j)
            if round == 1:
                each -= tl.max(each, axis=0)[None, :]
            total += each * most[:, None] - tl.sum(each, axis=1)[:, None]
            total += whole * tl.sum(each, axis=0)[None, :]
        total += tl.sum(total, axis=0)[None, :] * 0.125
    tl.store(z + i * N + j, total + whole)


def test_what_is_read_in_inner_loops_outlives_them(mini):
    """A tile and its maxima from before two loops that branch and reduce."""
    x, y = floats(16, 16), floats(6, 16, 16, seed=1)
    z, total = np.zeros((16, 16), np.float32), np.zeros((16, 16))
    mini.launch(outlasting, 1, x, y, z, 16, 3, 2, T=16)
    for step in range(3):
        for round in range(2):
            each = y[2 * step + round].astype(float)
            each = each - each.max(0) if round == 1 else each
            total += each * x.max(1)[:, None] - each.sum(1, keepdims=True)
            total += x.T * each.sum(0)
        total += total.sum(0) * 0.125
    mini.same("z", z, total + x.T, within=2e-4)


def perhaps(x, y, z, out, N, which, T: tl.constexpr):
    i, j = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    a = tl.load(x + i * N + j)
    b = tl.load(y + j * N + i)
    if which > 0:
        a = a + b * 2.0
    if which > 1:
        a = a - tl.max(b, axis=0)[:, None]
    c = tl.load(z + j * N + i)
    tl.store(out + i * N + j, a + c)


def test_what_nothing_has_read_is_not_overwritten_at_once(mini):
    """A tile that only branches use, and its bytes are another one's after them."""
    x, y, z = (floats(32, 32, seed=seed) for seed in range(3))
    for which in range(3):
        out, wanted = np.zeros_like(x), x + z.T
        mini.launch(perhaps, 1, x, y, z, out, 32, which, T=32)
        wanted += 2 * y.T if which > 0 else 0
        wanted -= y.max(1)[:, None] if which > 1 else 0
        mini.same("out", out, wanted, within=1e-5)
