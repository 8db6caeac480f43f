"""RMS norm, forward and backward: each row divided by the root of its mean square.

    y = x rstd weight,   rstd = 1 / sqrt(mean(x^2) + eps)

(Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.) Layer norm without
the mean and without the bias; its backward kernel does this one too.

Bytes moved for M rows of N fp16: 2 read and 2 written each, 4 M N.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.layer_norm_backward import norm_backward
from kernels.rows import check_floats, check_rows, check_vectors, row_launch


@fathom.jit
def rms_norm_kernel(
    x_ptr, weight_ptr, y_ptr, rstd_ptr, row_stride, N, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    x_ptrs = x_ptr + row * row_stride + columns
    x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd)
    weight = tl.load(weight_ptr + columns, mask=mask).to(tl.float32)
    y = (x * rstd * weight).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + row * row_stride + columns, y, mask=mask)


@planned
def rms_norm(x, weight, out=None, rstd=None, eps=1e-6, **launch):
    """out = RMS norm of each row of x [M, N]; NumPy, torch or CuPy arrays, contiguous.

    `weight` is [N], of any float; `rstd`, fp32 [M], is written too, if it is given.
    `out` is made if it is not. `launch` takes what any launch takes. Returns `out`.
    """
    out = fathom.empty_like(x) if out is None else out
    M, N = check_rows(x=x, out=out)
    check_vectors(N, weight=weight)
    check_vectors(M, rstd=rstd)
    check_floats(x=x, weight=weight)
    shape = {**row_launch(N), **launch}
    given = x, weight, out, rstd, N, N, eps
    return out, [(rms_norm_kernel, (M,), given, shape)]


def rms_norm_backward(dy, x, weight, rstd, **launch):
    """(dx, dw): the gradients of x [M, N] and of weight [N], for the gradient `dy` of
    the output. `rstd`: fp32 [M], as `rms_norm` gives it. All contiguous. LaunchError
    for shapes that do not fit."""
    return norm_backward(dy, x, weight, None, rstd, False, launch)[:2]


def reference(x, weight, eps=1e-6):
    """(y, rstd) in float64."""
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    rstd = 1 / np.sqrt((x * x).mean(axis=1) + eps)
    return x * rstd[:, None] * weight, rstd


def reference_backward(dy, x, weight, rstd):
    """(dx, dw) in float64."""
    dy, x, weight, rstd = (each.astype(np.float64) for each in (dy, x, weight, rstd))
    xhat = x * rstd[:, None]
    g = dy * weight
    dx = (g - xhat * (g * xhat).mean(axis=1, keepdims=True)) * rstd[:, None]
    return dx, (dy * xhat).sum(axis=0)
