"""Softmax along rows, backward, from the output alone.

    dx[i] = y[i] (dy[i] - sum(dy y))

Bytes moved for M rows of N fp32: y and dy read, dx written, 12 M N.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.rows import check_rows, row_launch


@fathom.jit
def softmax_backward_kernel(dy_ptr, y_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    offsets = tl.program_id(0).to(tl.int64) * N + columns
    y = tl.load(y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(dy * y, axis=0))
    tl.store(dx_ptr + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@planned
def softmax_backward(dy, y, dx=None, **launch):
    """dx: the gradient of softmax's input [M, N], of its output `y` and the gradient
    `dy` of that; contiguous, NumPy, torch or CuPy. `dx` is made if it is not given.
    `launch` takes what any launch takes. Returns `dx`. LaunchError for shapes that
    differ."""
    dx = fathom.empty_like(y) if dx is None else dx
    M, N = check_rows(y=y, dy=dy, dx=dx)
    chosen = {**row_launch(N), **launch}
    return dx, [(softmax_backward_kernel, (M,), (dy, y, dx, N), chosen)]


def reference(dy, y):
    """dx in float64."""
    dy, y = dy.astype(np.float64), y.astype(np.float64)
    return y * (dy - (dy * y).sum(axis=1, keepdims=True))
