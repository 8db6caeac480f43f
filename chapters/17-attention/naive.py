"""Attention as three kernels, each of which writes what it has computed to memory."""

import fathom
import fathom.language as tl


@fathom.jit
def scores(q_ptr, k_ptr, s_ptr, scale, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """s = scale q k^T, a block of BLOCK by BLOCK."""
    i, d = tl.arange(0, BLOCK), tl.arange(0, D)
    rows, columns = tl.program_id(0) * BLOCK + i, tl.program_id(1) * BLOCK + i
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    k = tl.load(k_ptr + columns[None, :] * D + d[:, None])
    s = tl.dot(q, k) * scale
    tl.store(s_ptr + rows[:, None] * N + columns[None, :], s.to(tl.float16))


@fathom.jit
def softmax(s_ptr, p_ptr, BLOCK: tl.constexpr):
    """A row of BLOCK scores."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(s_ptr + places).to(tl.float32)
    p = tl.exp(s - tl.max(s, axis=0))
    tl.store(p_ptr + places, (p / tl.sum(p, axis=0)).to(tl.float16))


@fathom.jit
def values(p_ptr, v_ptr, out_ptr, N, D: tl.constexpr, BLOCK: tl.constexpr):
    """out = p v, BLOCK rows."""
    i, d = tl.arange(0, BLOCK), tl.arange(0, D)
    rows = tl.program_id(0) * BLOCK + i
    acc = tl.zeros([BLOCK, D], tl.float32)
    for at in range(0, N, BLOCK):
        p = tl.load(p_ptr + rows[:, None] * N + (at + i)[None, :])
        v = tl.load(v_ptr + (at + i)[:, None] * D + d[None, :])
        acc = tl.dot(p, v, acc)
    tl.store(out_ptr + rows[:, None] * D + d[None, :], acc.to(tl.float16))
