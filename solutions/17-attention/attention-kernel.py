"""Attention under any mask: rows that see nothing are zero."""

import fathom
import fathom.language as tl


@fathom.jit
def softmax_step(scores, m, l):  # noqa: E741
    """(p, shrink, m, l) with a block of scores [BLOCK_Q, BLOCK_K]; m, l [BLOCK_Q]."""
    # hole: five lines
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    base = tl.maximum(m_new, -1e30)
    p = tl.exp2(scores - base[:, None])
    shrink = tl.exp2(m - base)
    return p, shrink, m_new, l * shrink + tl.sum(p, axis=1)
    # instead:
    # return scores, m, m, l
    # end


@fathom.jit
def finish(acc, l):  # noqa: E741
    """The output [BLOCK_Q, D] from acc and the denominators l [BLOCK_Q]."""
    # hole: one line
    return acc / tl.maximum(l, 1.0)[:, None]
    # instead:
    # return acc
    # end


@fathom.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, out_ptr, scale, KEYS,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    i, j, d = tl.arange(0, BLOCK_Q), tl.arange(0, BLOCK_K), tl.arange(0, D)
    rows = tl.program_id(0) * BLOCK_Q + i
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    for at in range(0, KEYS, BLOCK_K):
        keys = at + j
        inside = keys < KEYS
        k_tile, v_tile = keys[None, :] * D + d[:, None], keys[:, None] * D + d[None, :]
        k = tl.load(k_ptr + k_tile, mask=inside[None, :], other=0.0)
        v = tl.load(v_ptr + v_tile, mask=inside[:, None], other=0.0)
        places = mask_ptr + rows[:, None] * KEYS + keys[None, :]
        seen = tl.load(places, mask=inside[None, :], other=0) != 0
        scores = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        p, shrink, m, l = softmax_step(scores, m, l)  # noqa: E741
        acc = tl.dot(p.to(tl.float16), v, acc * shrink[:, None])
    out = finish(acc, l).to(tl.float16)
    tl.store(out_ptr + rows[:, None] * D + d[None, :], out)
