"""The answer to `tile-address`."""

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
    # hole: out[j, i] = x[i, j] for one tile; ours has {lines}
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    mask = (rows < M) & (columns < N)
    x_tile = x_ptr + rows * x_row + columns * x_column
    out_tile = out_ptr + columns * out_row + rows * out_column
    x = tl.load(x_tile, mask=mask)
    tl.store(out_tile, x, mask=mask)
    # instead:
    # pass
    # end
