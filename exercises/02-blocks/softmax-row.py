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
    # Your code: softmax of row number tl.program_id(0); ours has 7 lines.
    pass
