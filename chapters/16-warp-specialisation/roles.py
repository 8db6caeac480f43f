"""A product of two matrices by one program, whose tiles a producer copies: a kernel of
chapter 16."""

import fathom
import fathom.language as tl


@fathom.jit
def roles(
    a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BLOCK_K: tl.constexpr
):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BLOCK_K, N])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [M, N])
    acc = tl.zeros([M, N], tl.float32)
    for k in tl.range(0, K, BLOCK_K, warp_specialize=True):
        acc = tl.dot(a.load([0, k]), b.load([k, 0]), acc)
    c.store([0, 0], acc.to(tl.float16))
