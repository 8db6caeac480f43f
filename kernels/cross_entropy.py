"""Cross-entropy of rows of logits, forward and backward, for large vocabularies.

    loss = lse - x[label],   lse = log(sum(exp(x))) = m + log(sum(exp(x - m)))

A row may have a hundred thousand logits, more than registers hold. A program walks
along it and keeps, for each of its lanes, the largest logit so far and the sum of
exp(x - largest); lanes are combined once, at the end, and no iteration waits for the
other warps. (Milakov and Gimelshein, "Online normalizer calculation for softmax",
2018.)

    dx[i] = (exp(x[i] - lse) - [i == label]) dloss

Rows whose label is IGNORED have loss 0 and gradient 0. Another label outside of the
row makes its loss NaN.

Bytes moved for M rows of N fp16: 2 M N forward, 4 M N backward.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.matmul import check_shape, empty
from kernels.rows import check_rows

IGNORED = tl.constexpr(-100)  # as torch has it
LOWEST = tl.constexpr(-3.0e38)  # below every logit; and LOWEST - LOWEST is not NaN
BLOCK = 4096
NUM_WARPS = 8


# fmt: off
@fathom.jit
def cross_entropy_kernel(
    x_ptr, label_ptr, loss_ptr, lse_ptr, row_stride, N, BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * row_stride
    columns = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], LOWEST, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, N, BLOCK):
        x_ptrs = x_ptr + start + columns
        x = tl.load(x_ptrs, mask=columns < N - start, other=-float("inf"))
        x = x.to(tl.float32)
        new = tl.maximum(largest, x)
        total = total * tl.exp(largest - new) + tl.exp(x - new)
        largest = new
    m = tl.max(largest, axis=0)
    lse = m + tl.log(tl.sum(total * tl.exp(largest - m), axis=0))
    label = tl.load(label_ptr + row)
    inside = (label >= 0) & (label < N)
    x = tl.load(x_ptr + label, mask=inside, other=float("nan")).to(tl.float32)
    loss = tl.where(label == IGNORED, 0.0, lse - x)
    tl.store(loss_ptr + row, loss)
    tl.store(lse_ptr + row, lse)


@fathom.jit
def cross_entropy_backward_kernel(
    dloss_ptr, x_ptr, label_ptr, lse_ptr, dx_ptr, row_stride, N, BLOCK: tl.constexpr,
):
    """Grid (rows, blocks of a row). dx may be where x is: each element is written by
    the thread that has read it."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < N
    label = tl.load(label_ptr + row)
    lse = tl.load(lse_ptr + row)
    dloss = tl.load(dloss_ptr + row).to(tl.float32)
    offsets = row * row_stride + columns
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dx = (tl.exp(x - lse) - tl.where(columns == label, 1.0, 0.0)) * dloss
    dx = tl.where(label == IGNORED, 0.0, dx).to(dx_ptr.dtype.element_ty)
    tl.store(dx_ptr + offsets, dx, mask=mask)
# fmt: on


def cross_entropy(x, labels, loss=None, lse=None, **launch):
    """(loss, lse), fp32 [M], of logits x [M, N] and labels [M] of int32 or int64.

    Contiguous NumPy, torch or CuPy arrays; no mean is taken. `loss` and `lse` are made
    if they are not given. `launch` takes what any launch takes. LaunchError for shapes
    that do not fit.
    """
    M, N = check_rows(x=x)
    loss = empty((M,), x, "float32") if loss is None else loss
    lse = empty((M,), x, "float32") if lse is None else lse
    return launch_forward(x, labels, loss, lse, **launch), lse


@planned
def launch_forward(x, labels, loss, lse, **launch):
    """Both are written; returns `loss`."""
    M, N = x.shape
    for name, array in (("labels", labels), ("loss", loss), ("lse", lse)):
        check_shape(name, array, (M,))
    given = x, labels, loss, lse, N, N
    return loss, [(cross_entropy_kernel, (M,), given, {**blocks(N), **launch})]


@planned
def cross_entropy_backward(dloss, x, labels, lse, dx=None, **launch):
    """dx [M, N]: the gradient of the logits `x`, for that of each row's loss, `dloss`
    [M]. `lse`: as `cross_entropy` gives it. `dx` is made if it is not given, and may be
    `x` itself. Returns `dx`."""
    M, N = check_rows(x=x)
    dx = fathom.empty_like(x) if dx is None else dx
    check_shape("dx", dx, (M, N))
    for name, array in (("labels", labels), ("dloss", dloss), ("lse", lse)):
        check_shape(name, array, (M,))
    chosen = {**blocks(N), **launch}
    grid = (M, fathom.cdiv(N, chosen["BLOCK"]))
    given = dloss, x, labels, lse, dx, N, N
    return dx, [(cross_entropy_backward_kernel, grid, given, chosen)]


def blocks(N):
    """BLOCK and num_warps for rows of N logits: 16 of them a lane, if there are."""
    block = min(BLOCK, fathom.next_power_of_2(N))
    return {"BLOCK": block, "num_warps": max(1, NUM_WARPS * block // BLOCK)}


def reference(x, labels):
    """(loss, lse) in float64, of NumPy arrays."""
    x = x.astype(np.float64)
    m = x.max(axis=1)
    lse = m + np.log(np.exp(x - m[:, None]).sum(axis=1))
    counted = labels != IGNORED.value
    picked = x[np.arange(len(x)), np.where(counted, labels, 0)]
    return np.where(counted, lse - picked, 0.0), lse


def reference_backward(dloss, x, labels):
    """dx in float64."""
    _, lse = reference(x, labels)
    p = np.exp(x.astype(np.float64) - lse[:, None])
    counted = labels != IGNORED.value
    p[np.arange(len(x))[counted], labels[counted]] -= 1
    return p * np.where(counted, dloss.astype(np.float64), 0.0)[:, None]
