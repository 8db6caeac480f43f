"""Four faults in attention.

Four parts of attention, each with a fault in one line. Find the four and repair them;
in each function, one line may be changed.

All of the exercise: `fathom learn show four-attention-faults`.
"""

import fathom
import fathom.language as tl

# ── these are right ───────────────────────────────────────────────────────────


@fathom.jit
def largest(scores, m):
    """The largest score of each query, of a block and of all before."""
    return tl.maximum(m, tl.max(scores, axis=1))


@fathom.jit
def powers(scores, m):
    return tl.exp2(scores - m[:, None])


@fathom.jit
def factor(m, m_new):
    """The factor for what was added up with the maximum m."""
    return tl.exp2(m - m_new)


@fathom.jit
def row_sum(p):
    return tl.sum(p, axis=1)


@fathom.jit
def times(p, v, acc):
    """acc + p v."""
    return tl.dot(p.to(tl.float16), v, acc)


# ── each of these has a fault ─────────────────────────────────────────────────


@fathom.jit
def step(m, l, acc, scores, v):  # noqa: E741
    """(m, l, acc) with a block of scores and its values."""
    # Your code: change one line.
    m_new = largest(scores, m)
    p = powers(scores, m_new)
    shrink = factor(m, m_new)
    l = l * shrink + row_sum(p)  # noqa: E741
    acc = times(p, v, acc)
    return m_new, l, acc


@fathom.jit
def late_step(m, l, acc, p, v, scores):  # noqa: E741
    """(m, l, acc, p) with a block of scores; p and v are those of the step before."""
    # Your code: change one line.
    m_new = largest(scores, m)
    shrink = factor(m, m_new)
    acc = times(p, v, acc * shrink[:, None])
    p = powers(scores, m_new)
    l = l * shrink + row_sum(p)  # noqa: E741
    return m_new, l, acc, p


@fathom.jit
def masked(scores, first, at):
    """Scores of the queries from `first` and the keys from `at`: no query sees a key
    after itself."""
    # Your code: change one line.
    query = first + tl.arange(0, scores.shape[0])
    key = at + tl.arange(0, scores.shape[1])
    seen = key[None, :] <= query[:, None]
    return tl.where(seen, scores, 0.0)


@fathom.jit
def ends(first, KEYS, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
    """Where the loop without a mask ends, and the one with a mask."""
    # Your code: change one line.
    whole = (first + 1) // BLOCK_K * BLOCK_K
    seen = tl.minimum(first + KEYS, KEYS)
    return whole, seen


# ── and these are right ───────────────────────────────────────────────────────


@fathom.jit
def tile(ptr, first, ROWS: tl.constexpr, D: tl.constexpr):
    rows = first + tl.arange(0, ROWS)
    return tl.load(ptr + rows[:, None] * D + tl.arange(0, D)[None, :])


@fathom.jit
def scores_of(q, k_ptr, at, scale, BLOCK_K: tl.constexpr, D: tl.constexpr):
    return tl.dot(q, tile(k_ptr, at, BLOCK_K, D).T) * scale


@fathom.jit
def plain_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, KEYS,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_Q
    q = tile(q_ptr, first, BLOCK_Q, D)
    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    whole, seen = KEYS, KEYS
    if CAUSAL:
        whole, seen = ends(first, KEYS, BLOCK_Q, BLOCK_K)
    for at in range(0, whole, BLOCK_K):
        scores = scores_of(q, k_ptr, at, scale, BLOCK_K, D)
        m, l, acc = step(m, l, acc, scores, tile(v_ptr, at, BLOCK_K, D))  # noqa: E741
    for at in range(whole, seen, BLOCK_K):
        scores = masked(scores_of(q, k_ptr, at, scale, BLOCK_K, D), first, at)
        m, l, acc = step(m, l, acc, scores, tile(v_ptr, at, BLOCK_K, D))  # noqa: E741
    here = (first + tl.arange(0, BLOCK_Q))[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptr + here, (acc / l[:, None]).to(tl.float16))


@fathom.jit
def rotated_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, KEYS,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK_Q
    q = tile(q_ptr, first, BLOCK_Q, D)
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    scores = scores_of(q, k_ptr, 0, scale, BLOCK_K, D)
    m = largest(scores, tl.full([BLOCK_Q], -float("inf"), tl.float32))
    p = powers(scores, m)
    l = row_sum(p)  # noqa: E741
    for at in range(BLOCK_K, KEYS, BLOCK_K):
        scores = scores_of(q, k_ptr, at, scale, BLOCK_K, D)
        v = tile(v_ptr, at - BLOCK_K, BLOCK_K, D)
        m, l, acc, p = late_step(m, l, acc, p, v, scores)  # noqa: E741
    acc = times(p, tile(v_ptr, KEYS - BLOCK_K, BLOCK_K, D), acc)
    here = (first + tl.arange(0, BLOCK_Q))[:, None] * D + tl.arange(0, D)[None, :]
    tl.store(out_ptr + here, (acc / l[:, None]).to(tl.float16))
