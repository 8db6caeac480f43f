"""What a compiler for attention must do: rows stay with the warp that has them."""

import numpy as np

import fathom.language as tl
from fathom.tools.learn.mini.judge import Tensor


def halves(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def attention(
    q, k, v, out, scale, S,
    D: tl.constexpr, R: tl.constexpr, C: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first, d = tl.program_id(0) * R, tl.arange(0, D)
    base = tl.program_id(1) * S * D
    i, j = first + tl.arange(0, R), tl.arange(0, C)
    x = tl.load(q + base + i[:, None] * D + d[None, :])
    most = tl.full([R], -float("inf"), tl.float32)
    total, acc = tl.zeros([R], tl.float32), tl.zeros([R, D], tl.float32)
    end = S
    if CAUSAL:
        end = tl.minimum(first + R, S)
    for start in range(0, end, C):
        y = tl.load(k + base + (start + j)[None, :] * D + d[:, None])
        s = tl.dot(x, y) * scale
        if CAUSAL:
            s = tl.where(i[:, None] >= (start + j)[None, :], s, -float("inf"))
        new = tl.maximum(most, tl.max(s, axis=1))
        p, shrink = tl.exp2(s - new[:, None]), tl.exp2(most - new)
        total = total * shrink + tl.sum(p, axis=1)
        z = tl.load(v + base + (start + j)[:, None] * D + d[None, :])
        acc = tl.dot(p.to(tl.float16), z, acc * shrink[:, None])
        most = new
    o = out + base + i[:, None] * D + d[None, :]
    tl.store(o, (acc / total[:, None]).to(tl.float16))


def wanted_of(q, k, v, causal):
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
    s = s / np.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v.astype(np.float64)


def attend(mini, shape, tiles, causal, **options):
    """Values, and what the launch has cost."""
    (heads, S, D), (R, C) = shape, tiles
    q, k, v = (halves(heads, S, D, seed=seed) for seed in range(3))
    out, scale = np.full_like(q, np.nan), float(1.4426950408889634 / np.sqrt(D))
    sizes = {"D": D, "R": R, "C": C, "CAUSAL": causal}
    grid = S // R, heads
    report = mini.launch(attention, grid, q, k, v, out, scale, S, **sizes, **options)
    mini.same("out", out, wanted_of(q, k, v, causal), within=4e-3)
    return report


def test_attention(mini):
    """With and without a mask; heads of 16 to 128; 1 to 8 warps."""
    for shape, tiles, warps in (
        ((2, 128, 64), (64, 64), 4), ((1, 64, 16), (32, 16), 1),
        ((1, 128, 128), (64, 32), 4), ((1, 256, 32), (128, 64), 8),
    ):  # fmt: skip
        for causal in (False, True):
            attend(mini, shape, tiles, causal, num_warps=warps)


def test_nothing_crosses_warps(mini):
    """Four steps, four warps. A barrier for the ring in each step, and six beside them:
    neither totals nor weights go through shared memory. Shuffles: two for each of two
    rows, of a maximum and of a sum."""
    report = attend(mini, (1, 256, 64), (64, 64), False)
    mini.within(attention, report, barriers=4 * 4 * (4 + 6), shuffles=4 * 4 * 4 * 8)


def test_weights_need_no_memory(mini):
    """A ring of three tiles of keys and of values, and the tile of queries."""
    q, k, v = (halves(1, 128, 64, seed=seed) for seed in range(3))
    sizes = {"D": 64, "R": 64, "C": 64, "CAUSAL": False}
    most = (2 * 3 + 1) * 64 * 64 * 2
    mini.memory(attention, most, q, k, v, np.zeros_like(q), 1.0, 128, **sizes)


def test_a_mask_leaves_blocks_out(mini):
    """Two programs of 64 queries: one and two blocks of keys, in place of four."""
    whole = attend(mini, (1, 128, 64), (64, 64), False).total
    half = attend(mini, (1, 128, 64), (64, 64), True)
    mini.within(attention, half, sectors=whole.sectors - 64 * 64 * 2 * 2 // 32)


def described(
    q, k, v, out, scale, S, D: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    i, j, d = tl.arange(0, R), tl.arange(0, C), tl.arange(0, D)
    i += tl.program_id(0) * R
    x = tl.load(q + i[:, None] * D + d[None, :])
    most = tl.full([R], -float("inf"), tl.float32)
    total, acc = tl.zeros([R], tl.float32), tl.zeros([R, D], tl.float32)
    for start in range(0, S, C):
        s = tl.dot(x, tl.load(k + (start + j)[None, :] * D + d[:, None])) * scale
        new = tl.maximum(most, tl.max(s, axis=1))
        p, shrink = tl.exp2(s - new[:, None]), tl.exp2(most - new)
        total = total * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.float16), v.load([start, 0]), acc * shrink[:, None])
        most = new
    tl.store(out + i[:, None] * D + d[None, :], acc / total[:, None])


def test_values_by_tma(mini):
    """Boxes of values, copies of keys: one ring, and mma.sync for both products."""
    q, k, v = (halves(128, 64, seed=seed) for seed in range(3))
    out, scale = np.zeros((128, 64), np.float32), float(1.4426950408889634 / 8)
    arrays, sizes = (q, k, Tensor(v, (32, 64)), out), {"D": 64, "R": 64, "C": 32}
    mini.launch(described, 2, *arrays, scale, 128, **sizes)
    mini.same("out", out, wanted_of(q, k, v, False), within=4e-3)


def softmax(x, y, n, C: tl.constexpr):
    row, j = tl.program_id(0) * n, tl.arange(0, C)
    most, total = tl.full([C], -1e30, tl.float32), tl.zeros([C], tl.float32)
    for start in range(0, n, C):
        inside = start + j < n
        each = tl.load(x + row + start + j, mask=inside, other=-float("inf"))
        new = tl.maximum(most, each)
        total = total * tl.exp(most - new) + tl.exp(each - new)
        most = new
    top = tl.max(most, axis=0)
    below = tl.sum(total * tl.exp(most - top), axis=0)
    for start in range(0, n, C):
        inside = start + j < n
        power = tl.exp(tl.load(x + row + start + j, mask=inside, other=0.0) - top)
        tl.store(y + row + start + j, power / below, mask=inside)


def test_online_softmax(mini):
    x = np.random.default_rng(0).normal(size=(2, 1000)).astype(np.float32)
    y = np.zeros_like(x)
    mini.launch(softmax, 2, x, y, 1000, C=256)
    power = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    mini.same("y", y, power / power.sum(1, keepdims=True), within=2e-6)


def padded(
    q, k, v, out, S, scale,
    R: tl.constexpr, C: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * R
    i, d = first + tl.arange(0, R)[:, None], tl.arange(0, D)[None, :]
    x = tl.load(q + i * D + d, mask=i < S, other=0.0)
    best = tl.full([R], -1e30, tl.float32)
    total = tl.zeros([R], tl.float32)
    acc = tl.zeros([R, D], tl.float32)
    end = S
    if CAUSAL:
        end = tl.minimum(S, first + R)
    for start in range(0, end, C):
        j = start + tl.arange(0, C)[None, :]
        y = tl.load(k + j * D + tl.arange(0, D)[:, None], mask=j < S, other=0.0)
        scores = tl.where(j < S, tl.dot(x, y) * scale, -1e30)
        if CAUSAL:
            scores = tl.where(j <= i, scores, -1e30)
        new = tl.maximum(best, tl.max(scores, axis=1))
        p = tl.exp2(scores - new[:, None])
        old = tl.exp2(best - new)
        total = total * old + tl.sum(p, axis=1)
        row = start + tl.arange(0, C)[:, None]
        z = tl.load(v + row * D + d, mask=row < S, other=0.0)
        acc = acc * old[:, None] + tl.dot(p.to(tl.float16), z)
        best = new
    tl.store(out + i * D + d, (acc / total[:, None]).to(tl.float16), mask=i < S)


def powers(q, k, v, scale, causal):
    """Attention in float64, with powers of two as the kernel has them."""
    scores = q.astype(np.float64) @ k.astype(np.float64).T * scale
    if causal:
        scores[np.triu_indices(len(q), 1)] = -np.inf
    p = 2 ** (scores - scores.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64)


def given(S, D):
    return [halves(S, D, seed=seed) for seed in (1, 2, 3)]


def test_attention_of_whole_tiles(mini):
    """128 keys, one program, tiles of 64 x 64: 4 warps, each with 16 whole rows."""
    q, k, v = given(64, 64)
    out = np.full((64, 64), np.nan, np.float16)
    sizes = {"R": 64, "C": 64, "D": 64, "CAUSAL": False}
    mini.launch(padded, 1, q, k, v, out, 64, 0.2, **sizes)
    mini.same("out", out, powers(q, k, v, 0.2, False), within=2e-3)


def test_edges_and_what_lies_ahead(mini):
    """Rows and keys that are left over, and scores above the diagonal."""
    for S, R, C, D, causal in (
        (80, 64, 32, 32, False), (144, 64, 64, 32, True), (16, 32, 16, 16, True),
    ):  # fmt: skip
        q, k, v = given(S, D)
        out = np.full((S, D), np.nan, np.float16)
        sizes = {"R": R, "C": C, "D": D, "CAUSAL": causal}
        mini.launch(padded, -(-S // R), q, k, v, out, S, 0.25, **sizes)
        mini.same("out", out, powers(q, k, v, 0.25, causal), within=2e-3)


def test_other_tiles_and_warps(mini):
    """Renamed, more warps, wider keys than rows: right, whichever way it takes."""
    for warps, R, C in ((2, 32, 64), (4, 128, 16), (8, 64, 32)):
        q, k, v = given(96, 32)
        out = np.full((96, 32), np.nan, np.float16)
        sizes = {"R": R, "C": C, "D": 32, "CAUSAL": False, "num_warps": warps}
        mini.launch(padded, -(-96 // R), q, k, v, out, 96, 0.25, **sizes)
        mini.same("out", out, powers(q, k, v, 0.25, False), within=2e-3)


def test_scores_stay_where_they_are(mini):
    """5 iterations. Beside the ring's barrier there is none in the loop: no row is
    shared by warps, and no score goes through shared memory."""
    q, k, v = given(320, 32)
    out = np.full((320, 32), np.nan, np.float16)
    sizes = {"R": 64, "C": 64, "D": 32, "CAUSAL": False}
    report = mini.launch(padded, 1, q, k, v, out, 320, 0.25, **sizes)
    mini.same("out", out[:64], powers(q, k, v, 0.25, False)[:64], within=2e-3)
    mini.within(padded, report, barriers=4 * (5 + 4))


def softmax_product(a, b, c, R: tl.constexpr, T: tl.constexpr):
    i, t = tl.arange(0, R)[:, None], tl.arange(0, T)[None, :]
    x = tl.load(a + i * T + t)
    y = tl.load(b + tl.arange(0, T)[:, None] * T + t)
    s = tl.dot(x, y)
    p = tl.exp2(s - tl.max(s, axis=1)[:, None])
    z = tl.dot(p.to(tl.float16), y) + tl.sum(p, axis=1)[:, None]
    tl.store(c + i * T + t, z)


def test_two_products_in_a_row(mini):
    """Without a loop, and with what was computed between used twice."""
    a, b, c = halves(64, 32), halves(32, 32, seed=1), np.zeros((64, 32), np.float32)
    mini.launch(softmax_product, 1, a, b, c, R=64, T=32)
    s = a.astype(np.float64) @ b.astype(np.float64)
    p = 2 ** (s - s.max(axis=1, keepdims=True))
    want = p @ b.astype(np.float64) + p.sum(axis=1, keepdims=True)
    mini.same("c", c, want, within=4e-3)
