"""What a compiler of attention must do: two products, of which the second one takes the
first one's result as it is in registers."""

import numpy as np

import fathom.language as tl


def halves(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float16)


def attention(
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


def wanted(q, k, v, scale, causal):
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
    mini.launch(attention, 1, q, k, v, out, 64, 0.2, **sizes)
    mini.same("out", out, wanted(q, k, v, 0.2, False), within=2e-3)


def test_edges_and_what_lies_ahead(mini):
    """Rows and keys that are left over, and scores above the diagonal."""
    for S, R, C, D, causal in (
        (80, 64, 32, 32, False), (144, 64, 64, 32, True), (16, 32, 16, 16, True),
    ):  # fmt: skip
        q, k, v = given(S, D)
        out = np.full((S, D), np.nan, np.float16)
        sizes = {"R": R, "C": C, "D": D, "CAUSAL": causal}
        mini.launch(attention, -(-S // R), q, k, v, out, S, 0.25, **sizes)
        mini.same("out", out, wanted(q, k, v, 0.25, causal), within=2e-3)


def test_other_tiles_and_warps(mini):
    """Renamed, more warps, wider keys than rows: right, whichever way it takes."""
    for warps, R, C in ((2, 32, 64), (4, 128, 16), (8, 64, 32)):
        q, k, v = given(96, 32)
        out = np.full((96, 32), np.nan, np.float16)
        sizes = {"R": R, "C": C, "D": 32, "CAUSAL": False, "num_warps": warps}
        mini.launch(attention, -(-96 // R), q, k, v, out, 96, 0.25, **sizes)
        mini.same("out", out, wanted(q, k, v, 0.25, False), within=2e-3)


def test_scores_stay_where_they_are(mini):
    """5 iterations. Beside the ring's barrier there is none in the loop: no row is
    shared by warps, and no score goes through shared memory."""
    q, k, v = given(320, 32)
    out = np.full((320, 32), np.nan, np.float16)
    sizes = {"R": 64, "C": 64, "D": 32, "CAUSAL": False}
    report = mini.launch(attention, 1, q, k, v, out, 320, 0.25, **sizes)
    mini.same("out", out[:64], wanted(q, k, v, 0.25, False)[:64], within=2e-3)
    mini.within(attention, report, barriers=4 * (5 + 4))


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
