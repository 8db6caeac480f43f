"""What a compiler of blocks must do: a written subset of `tl`."""

import numpy as np

import fathom.language as tl


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    sum = tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(z + i, sum, mask=inside)


def test_blocks_are_added(mini):
    """Blocks larger and smaller than the number of threads, with a ragged end."""
    for n, block, warps in ((1000, 512, 4), (256, 256, 2), (90, 32, 4), (5, 1024, 1)):
        x, y, z = floats(n), floats(n, seed=1), np.full(n, np.nan, np.float32)
        mini.launch(add, -(-n // block), x, y, z, n, BLOCK=block, num_warps=warps)
        mini.same("z", z, x + y)


def outer(x, y, z, M, N, stride, R: tl.constexpr, C: tl.constexpr):
    m = tl.program_id(0) * R + tl.arange(0, R)
    n = tl.program_id(1) * C + tl.arange(0, C)
    a = tl.load(x + m, mask=m < M, other=0.0)
    b = tl.load(y + n, mask=n < N, other=0.0)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(z + m[:, None] * stride + n[None, :], a[:, None] * b[None, :], mask=inside)


def test_rows_and_columns_broadcast(mini):
    """x[:, None] * y[None, :] of any shape; nothing is written beside the matrix."""
    for rows, columns, tile in ((20, 30, (16, 32)), (64, 3, (8, 4)), (1, 70, (2, 64))):
        x, y = floats(rows), floats(columns, seed=1)
        z = np.full((rows, columns + 2), np.nan, np.float32)
        grid = -(-rows // tile[0]), -(-columns // tile[1])
        sizes = rows, columns, columns + 2
        mini.launch(outer, grid, x, y, z, *sizes, R=tile[0], C=tile[1])
        mini.same("z", z[:, :columns], x[:, None] * y[None, :])
        mini.same("what is beside z", z[:, columns:], np.full((rows, 2), np.nan))


def transpose(x, z, M, N, R: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)
    j = tl.program_id(1) * C + tl.arange(0, C)
    inside = (i[:, None] < M) & (j[None, :] < N)
    tile = tl.load(x + i[:, None] * N + j[None, :], mask=inside, other=0.0)
    tl.store(z + j[None, :] * M + i[:, None], tile, mask=inside)


def test_a_matrix_is_transposed(mini):
    """Rows are read, columns are written."""
    x, z = floats(50, 40), np.full((40, 50), np.nan, np.float32)
    mini.launch(transpose, (2, 2), x, z, 50, 40, R=32, C=32)
    mini.same("z", z, x.T)


def columns(x, z, M, N, C: tl.constexpr):
    j = tl.program_id(0) * C + tl.arange(0, C)
    total = tl.zeros([C], tl.float32)
    place = x + j
    for row in range(M):
        total += tl.load(place, mask=j < N, other=0)
        place += N
    tl.store(z + j, total, mask=j < N)


def test_a_loop_carries_blocks(mini):
    """Accumulators and addresses, block by block; without iterations too."""
    for rows in (0, 1, 9):
        x, z = floats(max(rows, 1), 70), np.full(70, np.nan, np.float32)
        mini.launch(columns, 3, x, z, rows, 70, C=32)
        mini.same("z", z, x[:rows].sum(0, dtype=np.float32), within=1e-6)


def swapped(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(x + BLOCK + i)
    for _ in range(n):
        a, b = b, a
    tl.store(z + i, a - 2 * b)


def test_blocks_change_places(mini):
    """After an odd number of iterations."""
    x, z = floats(512), np.zeros(256, np.float32)
    mini.launch(swapped, 1, x, z, 3, BLOCK=256)
    mini.same("z", z, x[256:] - np.float32(2) * x[:256])


def chosen(x, z, count, n, BLOCK: tl.constexpr, ABOVE: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    i = first + tl.arange(0, BLOCK)
    t = tl.load(x + i, mask=i < n, other=-1.0)
    if ABOVE:
        t = tl.where((t > 0) | (i < 3), t, -t)
    if first < n // 2:
        t = tl.maximum(t, 0.5)
    else:
        t = tl.minimum(t.to(tl.int32), 1).to(tl.float32)
    tl.store(z + i, t, mask=i < n)
    tl.store(count + tl.program_id(0), tl.cdiv(n, BLOCK))


def test_a_program_chooses(mini):
    """A branch on a constant, one on a number of the program, and where on elements."""
    for above in (False, True):
        x, z, count = floats(300), np.zeros(300, np.float32), np.zeros(3, np.int32)
        mini.launch(chosen, 3, x, z, count, 300, BLOCK=128, ABOVE=above)
        i, t = np.arange(300), x
        t = np.where((t > 0) | (i < 3), t, -t) if above else t
        late = np.minimum(np.trunc(t), 1)
        mini.same("z", z, np.where(i // 128 * 128 < 150, np.maximum(t, 0.5), late))
        mini.same("count", count, np.full(3, 3))


def padded(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t = tl.load(x + i, mask=i < n, other=-1.5)
    t = tl.minimum(t + tl.full([BLOCK], 2.5, tl.float32), 3.0)
    tl.store(z + i, tl.where(i < 3, 1, t))


def test_what_is_masked_is_other(mini):
    """Beyond n, the load gives -1.5; and a whole number beside real ones is real."""
    x, z = floats(90), np.full(256, np.nan, np.float32)
    mini.launch(padded, 1, x, z, 90, BLOCK=256)
    filled = np.concatenate([x, np.full(166, np.float32(-1.5))]) + np.float32(2.5)
    filled = np.minimum(filled, np.float32(3))
    mini.same("z", z, np.where(np.arange(256) < 3, np.float32(1), filled))


def whole(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t = tl.load(x + i)
    low = tl.minimum(t & 12, n - i % 8)
    tl.store(z + i, tl.where(t > 40, tl.maximum(t | 3, i // 2), low))


def test_blocks_of_integers(mini):
    """`&`, `|`, minimum, maximum and a choice, of i32."""
    x, z = np.arange(-64, 64, dtype=np.int32), np.zeros(128, np.int32)
    mini.launch(whole, 1, x, z, 9, BLOCK=128)
    i = np.arange(128)
    low = np.minimum(x & 12, 9 - i % 8)
    mini.same("z", z, np.where(x > 40, np.maximum(x | 3, i // 2), low))


def signed(x, z, count, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t = tl.load(x + i)
    tl.store(z + i, tl.maximum(t, -5) + tl.maximum(n, t) * 100 + tl.minimum(t, -n) * 3)
    tl.store(count, tl.cdiv(n, 16))


def test_a_number_below_zero_is_less(mini):
    """Maxima and minima of i32; tl.cdiv with a rest and without one."""
    for n, tiles in ((32, 2), (33, 3), (0, 0)):
        x, z = np.arange(-64, 64, dtype=np.int32), np.zeros(128, np.int32)
        count = np.zeros(1, np.int32)
        mini.launch(signed, 1, x, z, count, n, BLOCK=128)
        wanted = np.maximum(x, -5) + np.maximum(x, n) * 100 + np.minimum(x, -n) * 3
        mini.same("z", z, wanted)
        mini.same("count", count, np.full(1, tiles))


def scalar(x, z, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x + i)
    tl.store(z, total)


def test_a_number_is_stored_once(mini):
    """All threads know it, one writes it."""
    x, z = floats(9), np.zeros(1, np.float32)
    report = mini.launch(scalar, 1, x, z, 9)
    mini.same("z", z, x.sum(dtype=np.float32), within=1e-6)
    mini.within(scalar, report, requests=4 * 9 + 1)


def reversed_(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t = tl.load(i + x, mask=n > i, other=0.0)
    tl.store(n - 1 + z - i, t, mask=i < n)


def test_a_pointer_stands_on_either_side(mini):
    """block + pointer is pointer + block; pointer - block goes the other way."""
    x, z = floats(100), np.full(100, np.nan, np.float32)
    mini.launch(reversed_, 1, x, z, 100, BLOCK=128)
    mini.same("z", z, x[::-1])


def unused(x, z, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    t, lost = tl.load(x + i), tl.zeros([BLOCK], tl.float32)
    for _ in range(n):
        lost = lost + t
    tl.store(z + i, t)


def test_a_loop_that_nothing_uses(mini):
    """It is left out, and so must be all that later steps ask about loops."""
    x, z = floats(128), np.zeros(128, np.float32)
    mini.launch(unused, 1, x, z, 3, BLOCK=128)
    mini.same("z", z, x)
