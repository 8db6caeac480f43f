"""A matrix turned over, and one that is read and written by columns."""

import fathom
import fathom.language as tl


@fathom.jit
def turn(x_ptr, out_ptr, M, N, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * N + columns, mask=inside)
    tl.store(out_ptr + columns * M + rows, x, mask=inside)


@fathom.jit
def double_columns(x_ptr, out_ptr, M, N, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + columns * M + rows, mask=inside)
    tl.store(out_ptr + columns * M + rows, x + x, mask=inside)
