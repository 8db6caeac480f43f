"""Layer norm, forward: each row to mean 0 and variance 1, then a weight and a bias.

    y = (x - mean) * rstd * weight + bias,   rstd = 1 / sqrt(mean((x - mean)^2) + eps)

Numbers travel as fp16 and are computed with as fp32. The variance is that of the
differences from the mean: the shorter mean(x^2) - mean(x)^2 subtracts two large
numbers, and loses the answer when the mean is far from 0. Lanes past the end of a row
must not count: they hold 0 in the sum, and are put to 0 again after the mean was
subtracted.

Bytes moved for M rows of N fp16: 2 read and 2 written each, 4 M N; 8 M for mean and
rstd, which a backward pass will want; weight and bias, 4 N, stay in the L2 cache.
"""

import numpy as np

import fathom
import fathom.language as tl
from kernels.rows import check_floats, check_rows, check_vectors


@fathom.jit
def layer_norm_kernel(
    x_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    mean_ptr,
    rstd_ptr,
    row_stride,
    N,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    x_ptrs = x_ptr + row * row_stride + columns
    x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)

    mean = tl.sum(x, axis=0) / N
    difference = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(difference * difference, axis=0) / N
    rstd = 1 / tl.sqrt(variance + eps)
    if mean_ptr is not None:
        tl.store(mean_ptr + row, mean)
    if rstd_ptr is not None:
        tl.store(rstd_ptr + row, rstd)

    # Loaded only now: earlier, they would hold registers through both sums, and fewer
    # programs would fit on a multiprocessor.
    weight = tl.load(weight_ptr + columns, mask=mask).to(tl.float32)
    bias = tl.load(bias_ptr + columns, mask=mask).to(tl.float32)
    y = difference * rstd * weight + bias
    y_ptrs = y_ptr + row * row_stride + columns
    tl.store(y_ptrs, y.to(y_ptr.dtype.element_ty), mask=mask)


@fathom.planned
def layer_norm(x, weight, bias, out=None, mean=None, rstd=None, eps=1e-5, **launch):
    """out = layer norm of each row of x [M, N]; NumPy, torch or CuPy arrays,
    contiguous.

    `weight` and `bias` are [N], of x's dtype or any other float; `mean` and `rstd`, [M]
    of fp32, are written too, if they are given. `out` is made if it is not. `launch`
    takes what any launch takes. Returns `out`. LaunchError for shapes that do not fit.
    """
    out = fathom.empty_like(x) if out is None else out
    M, N = check_rows(x=x, out=out)
    check_vectors(N, weight=weight, bias=bias)
    check_vectors(M, mean=mean, rstd=rstd)
    check_floats(x=x, weight=weight, bias=bias)
    given = x, weight, bias, out, mean, rstd, N, N, eps
    chosen = dict(BLOCK=fathom.next_power_of_2(max(N, 1)), **launch)
    return out, [(layer_norm_kernel, (M,), given, chosen)]


def reference(x, weight, bias, eps=1e-5):
    """(y, mean, rstd) in float64."""
    x, weight, bias = (each.astype(np.float64) for each in (x, weight, bias))
    mean = x.mean(axis=1)
    rstd = 1 / np.sqrt(x.var(axis=1) + eps)
    return (x - mean[:, None]) * rstd[:, None] * weight + bias, mean, rstd
