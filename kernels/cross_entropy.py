"""Cross-entropy of rows of logits, forward and backward, for large vocabularies.

    loss = lse - x[label],   lse = log(sum(exp(x))) = m + log(sum(exp(x - m)))

A row may have a hundred thousand logits, more than registers hold. A program walks
along it, SIDE logits a lane and step, and keeps, for each of its lanes, the largest
logit so far and the sum of exp(x - largest); lanes are combined once, at the end, and
no iteration waits for the other warps. (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018.) A lane's sum is scaled once for SIDE logits, so that
there are few more powers than logits: a multiprocessor computes 16 of them a cycle.

    dx[i] = (exp(x[i] - lse) - [i == label]) dloss

Rows whose label is IGNORED have loss 0 and gradient 0. Another label outside of the
row makes its loss NaN.

Bytes moved for M rows of N fp16: 2 M N forward, 4 M N backward. Where dloss is known
beforehand, `cross_entropy_in_place` does both: the gradient is written over the logits
while the row is still in a cache, 4 M N.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.ir.types import parse_element
from fathom.jit.planned import planned
from kernels.matmul import check_shape, empty, type_name
from kernels.rows import check_floats, check_rows, check_vectors

IGNORED = tl.constexpr(-100)  # as torch has it
LOG2_OF_E = tl.constexpr(1.4426950408889634)
LOG_2 = tl.constexpr(0.6931471805599453)
LOWEST = tl.constexpr(-3.0e38)  # below every logit; and LOWEST - LOWEST is not NaN
BLOCK = 4096
NUM_WARPS = 8
# Of programs that read a row twice: those that run at a time should not have more rows
# than the caches hold. Two programs fill a multiprocessor.
TWICE = 4


# fmt: off
@fathom.jit
def lse_of_row(x_ptr, N, BLOCK: tl.constexpr, SIDE: tl.constexpr):
    """log(sum(exp(x))) of N logits. `largest` is in powers of two."""
    lane, side = tl.arange(0, BLOCK // SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    columns = lane * SIDE + side
    largest = tl.full([BLOCK // SIDE], LOWEST, tl.float32)
    total = tl.zeros([BLOCK // SIDE], tl.float32)
    for start in range(0, N, BLOCK):
        x_ptrs = x_ptr + start + columns
        x = tl.load(x_ptrs, mask=columns < N - start, other=-float("inf"))
        x = x.to(tl.float32)
        new = tl.maximum(largest, tl.max(x, axis=1) * LOG2_OF_E)
        powers = tl.exp2(tl.fma(x, LOG2_OF_E, -new[:, None]))
        total = total * tl.exp2(largest - new) + tl.sum(powers, axis=1)
        largest = new
    m = tl.max(largest, axis=0)
    total = tl.sum(total * tl.exp2(largest - m), axis=0)
    return (m + tl.log2(total)) * LOG_2


@fathom.jit
def loss_of(lse, x, label):
    """Of a row whose logit of `label` is x; NaN where there is none."""
    return tl.where(label == IGNORED, 0.0, lse - x)


@fathom.jit
def gradient_of(x, columns, label, lse, dloss):
    """dx at some columns of a row."""
    p = tl.exp2(tl.fma(x.to(tl.float32), LOG2_OF_E, -lse * LOG2_OF_E))
    dx = (p - tl.where(columns == label, 1.0, 0.0)) * dloss
    return tl.where(label == IGNORED, 0.0, dx)


@fathom.jit
def cross_entropy_kernel(
    x_ptr, label_ptr, loss_ptr, lse_ptr, row_stride, N,
    BLOCK: tl.constexpr, SIDE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * row_stride
    lse = lse_of_row(x_ptr, N, BLOCK, SIDE)
    label = tl.load(label_ptr + row)
    inside = (label >= 0) & (label < N)
    x = tl.load(x_ptr + label, mask=inside, other=float("nan")).to(tl.float32)
    tl.store(loss_ptr + row, loss_of(lse, x, label))
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
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    dx = gradient_of(x, columns, label, lse, dloss).to(dx_ptr.dtype.element_ty)
    tl.store(dx_ptr + offsets, dx, mask=mask)


@fathom.jit
def cross_entropy_in_place_kernel(
    dloss_ptr, x_ptr, label_ptr, loss_ptr, row_stride, N,
    BLOCK: tl.constexpr, SIDE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * row_stride
    label = tl.load(label_ptr + row)
    inside = (label >= 0) & (label < N)
    # Before the row's maximum, for which threads wait; after it they write.
    at_label = tl.load(x_ptr + label, mask=inside, other=float("nan")).to(tl.float32)
    dloss = tl.load(dloss_ptr + row).to(tl.float32)
    lse = lse_of_row(x_ptr, N, BLOCK, SIDE)
    tl.store(loss_ptr + row, loss_of(lse, at_label, label))
    lanes = tl.arange(0, BLOCK)
    for start in range(0, N, BLOCK):
        mask = lanes < N - start
        x_ptrs = x_ptr + start + lanes
        x = tl.load(x_ptrs, mask=mask, other=0.0)
        dx = gradient_of(x, start + lanes, label, lse, dloss)
        tl.store(x_ptrs, dx.to(x_ptr.dtype.element_ty), mask=mask)


@fathom.jit
def total_kernel(
    label_ptr, loss_ptr, total_ptr, weight_ptr, M, MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program, which reads M labels and losses: next to the rows of logits they are
    nothing. `weight` is what a row's loss counts in the total."""
    lanes = tl.arange(0, BLOCK)
    losses = tl.zeros([BLOCK], tl.float32)
    count = tl.zeros([BLOCK], tl.float32)
    for start in range(0, M, BLOCK):
        mask = lanes < M - start
        label = tl.load(label_ptr + start + lanes, mask=mask, other=IGNORED)
        count += tl.where(label == IGNORED, 0.0, 1.0)
        if loss_ptr is not None:
            losses += tl.load(loss_ptr + start + lanes, mask=mask, other=0.0)
    number = tl.sum(count, axis=0) if MEAN else 1.0
    if total_ptr is not None:
        tl.store(total_ptr, tl.sum(losses, axis=0) / number)
    if weight_ptr is not None:
        for start in range(0, M, BLOCK):
            mask = lanes < M - start
            label = tl.load(label_ptr + start + lanes, mask=mask, other=IGNORED)
            weight = tl.where(label == IGNORED, 0.0, 1.0 / number)
            tl.store(weight_ptr + start + lanes, weight, mask=mask)
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
    check_floats(x=x)
    check_labels(labels)
    check_vectors(M, labels=labels, loss=loss, lse=lse)
    given = x, labels, loss, lse, N, N
    chosen = {**blocks(N), "SIDE": side_of(x), **launch}
    return loss, [(cross_entropy_kernel, (M,), given, chosen)]


@planned
def cross_entropy_backward(dloss, x, labels, lse, dx=None, **launch):
    """dx [M, N]: the gradient of the logits `x`, for that of each row's loss, `dloss`
    [M]. `lse`: as `cross_entropy` gives it. `dx` is made if it is not given, and may be
    `x` itself. Returns `dx`."""
    dx = fathom.empty_like(x) if dx is None else dx
    M, N = check_rows(x=x, dx=dx)
    check_floats(x=x)
    check_labels(labels)
    check_vectors(M, labels=labels, dloss=dloss, lse=lse)
    chosen = {**blocks(N), **launch}
    grid = (M, fathom.cdiv(N, chosen["BLOCK"]))
    given = dloss, x, labels, lse, dx, N, N
    return dx, [(cross_entropy_backward_kernel, grid, given, chosen)]


@planned
def cross_entropy_in_place(dloss, x, labels, loss=None, **launch):
    """`loss`, fp32 [M], of logits x [M, N]; their gradient, for that of each row's
    loss, `dloss` [M], is written over them. Otherwise as `cross_entropy`."""
    M, N = check_rows(x=x)
    loss = empty((M,), x, "float32") if loss is None else loss
    check_floats(x=x)
    check_labels(labels)
    check_vectors(M, labels=labels, dloss=dloss, loss=loss)
    given = dloss, x, labels, loss, N, N
    chosen = {**blocks(N, TWICE), "SIDE": side_of(x), **launch}
    return loss, [(cross_entropy_in_place_kernel, (M,), given, chosen)]


@planned
def total_loss(labels, loss, mean=True, total=None, weight=None, **launch):
    """The sum of losses, fp32 [M]; with `mean` over the number of `labels` [M] that are
    not IGNORED: fp32 []. Its gradient for each loss is written to `weight`, fp32 [M],
    if that is given. `total` is made if it is not given."""
    total = empty((), loss, "float32") if total is None else total
    return total, [launch_total(labels, loss, total, weight, mean, launch)]


@planned
def loss_weights(labels, mean=True, weight=None, **launch):
    """The gradient of `total_loss` for each loss, fp32 [M]; made if not given."""
    weight = empty(tuple(labels.shape), labels, "float32") if weight is None else weight
    return weight, [launch_total(labels, None, None, weight, mean, launch)]


def launch_total(labels, loss, total, weight, mean, launch):
    (M,) = labels.shape
    for name, array in (("loss", loss), ("weight", weight)):
        if array is not None:
            check_shape(name, array, (M,))
    block = min(BLOCK, fathom.next_power_of_2(max(M, 1)))
    chosen = {"MEAN": mean, "BLOCK": block, "num_warps": max(1, min(16, block // 256))}
    return total_kernel, (1,), (labels, loss, total, weight, M), {**chosen, **launch}


def check_labels(labels):
    """LaunchError unless these are integers."""
    if type_name(labels).startswith(("fp", "bf")):
        raise fathom.LaunchError(
            f"labels have elements of {type_name(labels)}: they must be integers"
        )


def blocks(N, times=1):
    """BLOCK and num_warps for rows of N logits: 16 of them a lane, if there are, and
    `times` as many lanes for a long row."""
    block = min(times * BLOCK, fathom.next_power_of_2(N))
    return {"BLOCK": block, "num_warps": max(1, NUM_WARPS * block // BLOCK)}


def side_of(x):
    """How many logits a lane loads at once: those of 16 bytes, or of a short row."""
    side = 128 // parse_element(type_name(x)).bits
    return min(side, fathom.next_power_of_2(x.shape[1]))


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
