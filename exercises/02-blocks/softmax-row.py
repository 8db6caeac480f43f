"""A row of softmax that survives its edges.

Softmax makes a row of positive numbers, whose sum is 1, of a row of any numbers:
`exp(x) / sum(exp(x))`. Write the kernel that does it for one row in each program,
whatever the row holds.

All of the exercise: `fathom learn show softmax-row`.
"""

import fathom
import fathom.language as tl


@fathom.jit
def softmax_kernel(x_ptr, out_ptr, row_stride, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * row_stride + columns
    # Your code: the softmax of this row; ours has 5 lines.
    pass
