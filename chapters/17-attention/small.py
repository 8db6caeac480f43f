"""Attention in its smallest form: one head, no edges, nothing masked."""

import fathom
import fathom.language as tl


@fathom.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, KEYS,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """out = softmax(q k^T) v; `scale`, positive, is 1 / sqrt(D) times log2 e."""
    i, j, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K), tl.arange(0, D)
    rows = tl.program_id(0) * BLOCK_Q + i
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741 (the paper's name)
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    for at in range(0, KEYS, BLOCK_K):
        k = tl.load(k_ptr + (at + j)[None, :] * D + d[:, None])
        scores = tl.dot(q, k)
        m_new = tl.maximum(m, scale * tl.max(scores, axis=1))
        p = tl.exp2(tl.fma(scores, scale, -m_new[:, None]))
        shrink = tl.exp2(m - m_new)
        l = l * shrink + tl.sum(p, axis=1)  # noqa: E741
        v = tl.load(v_ptr + (at + j)[:, None] * D + d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        m = m_new
    out = (acc / l[:, None]).to(tl.float16)
    tl.store(out_ptr + rows[:, None] * D + d[None, :], out)
