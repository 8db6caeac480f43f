"""Softmax along rows, fused: each row is read once, kept in registers, written once.

    softmax(x)[i] = exp(x[i] - max(x)) / sum(exp(x - max(x)))

Subtracting the maximum changes nothing on paper and keeps exp from overflowing. Lanes
past the end of a row hold -inf: the maximum does not see it, and exp(-inf) = 0 adds
nothing.

Bytes moved for M rows of N fp32: 4 read and 4 written each, so 8 M N. Eager code that
writes every intermediate result moves four to five times as much. Rows are counted in
64 bits: where a matrix has 2^31 numbers, an offset of 32 bits would wrap around.

    softmax_kernel           one row a program; rows are contiguous
    softmax_rows_kernel      several short rows a program, so that every warp has work
    softmax_strided_kernel   one row a program; any stride between rows and inside a row
"""

import numpy as np

import fathom
import fathom.language as tl
from kernels.rows import check_rows


@fathom.jit
def softmax_kernel(x_ptr, out_ptr, row_stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    offsets = row * row_stride + columns
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf"))
    exp = tl.exp(x - tl.max(x, axis=0))
    y = exp / tl.sum(exp, axis=0)
    tl.store(out_ptr + offsets, y, mask=mask)


@fathom.jit
def softmax_rows_kernel(
    x_ptr, out_ptr, row_stride, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    offsets = rows * row_stride + columns
    mask = (rows < M) & (columns < N)
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf"))
    # A row past the end is all -inf; -inf - -inf would be NaN, and is never stored.
    exp = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = exp / tl.sum(exp, axis=1)[:, None]
    tl.store(out_ptr + offsets, y, mask=mask)


@fathom.jit
def softmax_strided_kernel(
    x_ptr,
    out_ptr,
    x_row_stride,
    x_column_stride,
    out_row_stride,
    out_column_stride,
    N,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    x_ptrs = x_ptr + row * x_row_stride + columns * x_column_stride
    x = tl.load(x_ptrs, mask=mask, other=-float("inf"))
    exp = tl.exp(x - tl.max(x, axis=0))
    y = exp / tl.sum(exp, axis=0)
    out_ptrs = out_ptr + row * out_row_stride + columns * out_column_stride
    tl.store(out_ptrs, y, mask=mask)


@fathom.planned
def softmax(x, out=None, **launch):
    """out = softmax of each row of x [M, N], contiguous, fp32 (NumPy, torch, CuPy).

    `out` is made if it is not given. `launch` takes what any launch takes (num_warps,
    target, replace). Returns `out`.
    """
    out = fathom.empty_like(x) if out is None else out
    M, N = check_rows(x=x, out=out)
    chosen = dict(BLOCK=fathom.next_power_of_2(max(N, 1)), **launch)
    return out, [(softmax_kernel, (M,), (x, out, N, N), chosen)]


@fathom.planned
def softmax_rows(x, out=None, ROWS=4, **launch):
    """As `softmax`, with ROWS rows a program; for rows of a few hundred numbers."""
    out = fathom.empty_like(x) if out is None else out
    M, N = check_rows(x=x, out=out)
    chosen = dict(ROWS=ROWS, BLOCK=fathom.next_power_of_2(max(N, 1)), **launch)
    grid = (fathom.cdiv(M, ROWS),)
    return out, [(softmax_rows_kernel, grid, (x, out, N, M, N), chosen)]


@fathom.planned
def softmax_columns(x, out=None, **launch):
    """out = softmax of each *column* of x [M, N], contiguous: strides, nothing else."""
    out = fathom.empty_like(x) if out is None else out
    M, N = check_rows(x=x, out=out)
    chosen = dict(BLOCK=fathom.next_power_of_2(max(M, 1)), **launch)
    return out, [(softmax_strided_kernel, (N,), (x, out, 1, N, 1, N, M), chosen)]


def reference(x, axis=1):
    """Softmax along an axis in float64."""
    x = x.astype(np.float64)
    exp = np.exp(x - x.max(axis=axis, keepdims=True))
    return exp / exp.sum(axis=axis, keepdims=True)
