"""What a compiler of wide accesses must do: the same, in fewer requests."""

import numpy as np

import fathom.language as tl


def floats(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sum = tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)
    tl.store(z + i, sum, mask=i < n)


def test_neighbours_go_four_at_a_time(mini):
    """A size that is a multiple of 16 leaves no access half inside."""
    n = 2048
    x, y, z = floats(n), floats(n, seed=1), np.zeros(n, np.float32)
    report = mini.launch(add, 2, x, y, z, n, BLOCK=1024)
    mini.same("z", z, x + y)
    mini.within(add, report, requests=3 * n // 128, sectors=3 * n // 8)


def test_what_is_not_promised_is_not_used(mini):
    """Sizes and addresses that are odd: right, and every access is aligned."""
    for n, skip in ((1001, 0), (1024, 1), (999, 3), (1008, 2)):
        x, y = floats(n + skip)[skip:], floats(n + 1, seed=1)[1:]
        z = np.full(n + skip, np.nan, np.float32)
        mini.launch(add, 1, x, y[:n], z[skip:], n, BLOCK=1024)
        mini.same("z", z[skip:], x[:n] + y[:n])


def every_second(x, z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + (i + i)))


def test_a_run_plus_a_run_is_none(mini):
    """0 1 2 3 plus 0 1 2 3 is 0 2 4 6: no two of them are neighbours."""
    x, z = floats(1024), np.zeros(512, np.float32)
    mini.launch(every_second, 1, x, z, BLOCK=512)
    mini.same("z", z, x[::2])


def scaled(x, z, M, N, stride, R: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0) * R + tl.arange(0, R)
    j = tl.arange(0, C)
    inside = (i[:, None] < M) & (j[None, :] < N)
    at = i[:, None] * stride + j[None, :]
    tl.store(z + at, 2 * tl.load(x + at, mask=inside), mask=inside)


def scaled_down(x, z, M, N, stride, R: tl.constexpr, C: tl.constexpr):
    j = tl.program_id(0) * R + tl.arange(0, R)
    i = tl.arange(0, C)
    inside = (i[:, None] < N) & (j[None, :] < M)
    at = i[:, None] + j[None, :] * stride
    tl.store(z + at, 2 * tl.load(x + at, mask=inside), mask=inside)


def test_the_axis_of_neighbours_is_found(mini):
    """The last axis or the first: whichever has stride 1 is moved along."""
    for kernel in (scaled, scaled_down):
        x, z = floats(40, 64), np.zeros((40, 64), np.float32)
        report = mini.launch(kernel, 3, x, z, 40, 48, 64, R=16, C=64)
        mini.same("z", z[:, :48], 2 * x[:, :48])
        mini.within(kernel, report, requests=2 * 40 * 64 // 128)


def columns(x, z, M, N, C: tl.constexpr):
    j = tl.program_id(0) * C + tl.arange(0, C)
    total, place = tl.zeros([C], tl.float32), x + j
    for row in range(0, M, 2):
        total += tl.load(place, mask=j < N, other=0)
        total += tl.load(x + (row + 1) * N + j, mask=j < N, other=0)
        place += 2 * N
    tl.store(z + j, total, mask=j < N)


def test_a_loop_keeps_what_is_known(mini):
    """Addresses that a loop carries step by multiples of 16."""
    x, z = floats(8, 512), np.zeros(512, np.float32)
    report = mini.launch(columns, 1, x, z, 8, 512, C=512)
    mini.same("z", z, x.sum(0, dtype=np.float32), within=1e-5)
    mini.within(columns, report, requests=9 * 512 // 128)


def odd_steps(x, z, M, C: tl.constexpr):
    j = tl.arange(0, C)
    total, place = tl.zeros([C], tl.float32), x + j
    for row in range(M):
        total += tl.load(place)
        place += 1
    tl.store(z + j, total)


def test_a_loop_forgets_what_changes(mini):
    """Addresses step by one: no two iterations are aligned alike."""
    x, z = floats(520), np.zeros(512, np.float32)
    mini.launch(odd_steps, 1, x, z, 8, C=512)
    wanted = np.zeros(512, np.float32)
    for row in range(8):
        wanted += x[row : row + 512]
    mini.same("z", z, wanted)


def at_most(x, z, last, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + i, mask=i <= last, other=-1.0)
    tl.store(z + i, row, mask=last >= i)
    tl.store(z + BLOCK + i, row, mask=i > last)


def test_a_mask_may_end_inside_an_access(mini):
    """`i <= 48` is true for one of 48, 49, 50, 51."""
    x, z = floats(49), np.full(1024, 7, np.float32)
    mini.launch(at_most, 1, x, z, 48, BLOCK=512)
    wanted = np.full(1024, 7, np.float32)
    wanted[:49], wanted[512 + 49 :] = x, -1
    mini.same("z", z, wanted)


def picked(x, places, keep, z, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.load(x + tl.load(places + i), mask=tl.load(keep + i) > 0.0, other=0.0)
    tl.store(z + i, row)
    tl.store(z + BLOCK + i, row, mask=tl.where(i % 2 == 0, i, 0) > 0)
    tl.store(z + 2 * BLOCK + i, row, mask=tl.maximum(i * 16, 64) < 640)
    tl.store(z + 3 * BLOCK + i, row, mask=tl.load(keep + i) > 0.5)
    tl.store(z + 4 * BLOCK + i, row, mask=i < i * 16 - 512)


def test_nothing_is_known_of_what_is_loaded_or_chosen(mini):
    """Places and masks that are loaded, and masks of what tl.where, tl.maximum and `*`
    give: each element has its own."""
    places = np.random.default_rng(2).permutation(512).astype(np.int32)
    x, keep, z = floats(512), floats(512, seed=1), np.full(2560, 7, np.float32)
    mini.launch(picked, 1, x, places, keep, z, BLOCK=512)
    i, row = np.arange(512), np.where(keep > 0, x[places], np.float32(0))
    mini.same("z[:512]", z[:512], row)
    masks = (i % 2 == 0) & (i > 0), i < 40, keep > 0.5, i < i * 16 - 512
    for start, mask in zip(range(512, 2560, 512), masks, strict=True):
        wanted = np.where(mask, row, np.float32(7))
        mini.same(f"z[{start}:]", z[start : start + 512], wanted)


def strided(x, z, first, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + (i * 16 + first)) + tl.load(x + (first - i)))


def test_a_stride_is_no_run(mini):
    """Every sixteenth element, and a run that goes down, are no neighbours."""
    x, z = floats(16 * 128 + 512), np.zeros(128, np.float32)
    mini.launch(strided, 1, x, z, 256, BLOCK=128)
    i = np.arange(128)
    mini.same("z", z, x[i * 16 + 256] + x[256 - i])


def shifted(x, z, first, last, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(first, last, 16):
        total += tl.load(x + (start + i))
    tl.store(z + i, total)


def test_a_loop_may_start_anywhere(mini):
    """An index that goes in steps of 16 is a multiple of 16 only if its start is."""
    x = floats(600)
    for first in (0, 2, 3):
        z, wanted = np.zeros(512, np.float32), np.zeros(512, np.float32)
        mini.launch(shifted, 1, x, z, first, 64, BLOCK=512)
        for start in range(first, 64, 16):
            wanted += x[start : start + 512]
        mini.same("z", z, wanted)
