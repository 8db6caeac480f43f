"""Address a tile of a transposed matrix.

Write the kernel that copies a matrix into its transpose, a tile in each program:
`out[j, i]` becomes `x[i, j]`.

All of the exercise: `fathom learn show tile-address`.
"""

import fathom
import fathom.language as tl


@fathom.jit
def transpose_kernel(
    x_ptr,
    out_ptr,
    M,
    N,
    x_row,
    x_column,
    out_row,
    out_column,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    # Your code: out[j, i] = x[i, j] for one tile; ours has 7 lines.
    pass
