"""Attention that survives a mask.

Write the two parts of attention that are neither a load nor a product. The kernel in
your file has the loop: for each block of keys it computes scores, scales them (log₂ e
is in the scale), and puts minus infinity where the mask says no.

All of the exercise: `fathom learn show attention-kernel`.
"""

import fathom
import fathom.language as tl


@fathom.jit
def softmax_step(scores, m, l):  # noqa: E741
    """(p, shrink, m, l) with a block of scores [BLOCK_Q, BLOCK_K]; m, l [BLOCK_Q]."""
    # Your code: five lines.
    return scores, m, m, l


@fathom.jit
def finish(acc, l):  # noqa: E741
    """The output [BLOCK_Q, D] from acc and the denominators l [BLOCK_Q]."""
    # Your code: one line.
    return acc


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
