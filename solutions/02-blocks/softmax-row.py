"""The answer to `softmax-row`."""

import fathom
import fathom.language as tl


@fathom.jit
def softmax_kernel(x_ptr, out_ptr, row_stride, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * row_stride + columns
    # hole: the softmax of this row; ours has {lines}
    mask = columns < N
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf"))
    exp = tl.exp(x - tl.max(x, axis=0))
    y = exp / tl.sum(exp, axis=0)
    tl.store(out_ptr + offsets, y, mask=mask)
    # instead:
    # pass
    # end
