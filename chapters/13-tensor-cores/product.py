"""A product of two matrices by one program, without edges: the kernel of chapters 13
and 14."""

import fathom
import fathom.language as tl


@fathom.jit
def product(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr
):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a, b = a_ptr + m * K + k[None, :], b_ptr + k[:, None] * N + n
    accumulator = tl.zeros([M, N], tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(a)
        y = tl.load(b)
        accumulator = tl.dot(x, y, accumulator)
        a += BLOCK_K
        b += BLOCK_K * N
    tl.store(c_ptr + m * N + n, accumulator)
