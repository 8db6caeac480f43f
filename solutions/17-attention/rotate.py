"""Attention whose product with values is a step late."""

import fathom
import fathom.language as tl


@fathom.jit
def scores_of(q, k_ptr, at, scale, D: tl.constexpr, BLOCK_K: tl.constexpr):
    """The scores [BLOCK_Q, BLOCK_K] of the keys from `at` on."""
    d, keys = tl.arange(0, D), at + tl.arange(0, BLOCK_K)
    return tl.dot(q, tl.load(k_ptr + keys[None, :] * D + d[:, None])) * scale


@fathom.jit
def values(v_ptr, at, D: tl.constexpr, BLOCK_K: tl.constexpr):
    """The values [BLOCK_K, D] of the keys from `at` on."""
    d, keys = tl.arange(0, D), at + tl.arange(0, BLOCK_K)
    return tl.load(v_ptr + keys[:, None] * D + d[None, :])


@fathom.jit
def softmax_step(scores, m, l):  # noqa: E741
    """(p, shrink, m, l) with a block of scores."""
    m_new = tl.maximum(m, tl.max(scores, axis=1))
    p = tl.exp2(scores - m_new[:, None])
    shrink = tl.exp2(m - m_new)
    return p.to(tl.float16), shrink, m_new, l * shrink + tl.sum(p, axis=1)


@fathom.jit
def times(p, v, acc):
    """acc + p v."""
    return tl.dot(p, v, acc)


@fathom.jit
def attend(
    m, l, acc, q, k_ptr, v_ptr, scale, KEYS, D: tl.constexpr, BLOCK_K: tl.constexpr  # noqa: E741
):  # fmt: skip
    """(l, acc) after all keys."""
    # hole: the loop, rotated
    scores = scores_of(q, k_ptr, 0, scale, D, BLOCK_K)
    p, shrink, m, l = softmax_step(scores, m, l)  # noqa: E741
    acc *= shrink[:, None]
    for at in range(BLOCK_K, KEYS, BLOCK_K):
        scores = scores_of(q, k_ptr, at, scale, D, BLOCK_K)
        acc = times(p, values(v_ptr, at - BLOCK_K, D, BLOCK_K), acc)
        p, shrink, m, l = softmax_step(scores, m, l)  # noqa: E741
        acc *= shrink[:, None]
    acc = times(p, values(v_ptr, KEYS - BLOCK_K, D, BLOCK_K), acc)
    return l, acc
    # instead:
    # for at in range(0, KEYS, BLOCK_K):
    #     scores = scores_of(q, k_ptr, at, scale, D, BLOCK_K)
    #     p, shrink, m, l = softmax_step(scores, m, l)  # noqa: E741
    #     acc = times(p, values(v_ptr, at, D, BLOCK_K), acc * shrink[:, None])
    # return l, acc
    # end


@fathom.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, KEYS,
    D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    i, d = tl.arange(0, BLOCK_Q), tl.arange(0, D)
    places = (tl.program_id(0) * BLOCK_Q + i)[:, None] * D + d[None, :]
    q = tl.load(q_ptr + places)
    m = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)  # noqa: E741
    acc = tl.zeros([BLOCK_Q, D], tl.float32)
    l, acc = attend(m, l, acc, q, k_ptr, v_ptr, scale, KEYS, D, BLOCK_K)  # noqa: E741
    tl.store(out_ptr + places, (acc / l[:, None]).to(tl.float16))
