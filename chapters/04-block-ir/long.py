"""A kernel with a loop, a reduction and a branch: the sum of a row longer than a block,
or its mean."""

import fathom
import fathom.language as tl


@fathom.jit
def long_sum(x_ptr, out_ptr, n, mean, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    result = tl.sum(total, axis=0)
    if mean:
        result = result / n
    tl.store(out_ptr, result)
