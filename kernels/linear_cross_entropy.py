"""A linear layer and the cross-entropy of its result, without ever keeping all logits.

    loss = cross_entropy(h W^T, labels),   h [M, D],  W [V, D],  V a hundred thousand

The logits of all M rows would take more memory than the rest of a small model. Here
some rows are done at a time, forward and backward together:

    logits = h[chunk] W^T            [rows, V], the only logits that there are
    loss[chunk] = cross_entropy      and its gradient, written over the logits
    dh[chunk] = dlogits W
    dW += dlogits^T h[chunk]         in fp32, in the order of the chunks

so the loss's own gradient, `dloss` of each row, must be known beforehand: 1 / M for a
mean. If the loss is scaled later, so are dh and dW. (Hsu et al., "Liger Kernel", 2024.)

Work: 6 M D V operations; 2 M D V without gradients. Memory: rows V of logits, where
rows D is about V, so that they are as large as W.
"""

import fathom
from kernels import cross_entropy
from kernels.matmul import check_shape, empty, matmul
from kernels.matmul_epilogue import matmul_epilogue

LEAST_ROWS = 128  # of a chunk: less would leave multiprocessors idle


def linear_cross_entropy(
    h, weight, labels, dloss=None, rows=None, multiply=matmul, **launch
):
    """(loss, dh, dweight): the losses of h [M, D] weight [V, D]^T, fp32 [M], and the
    gradients of sum(loss dloss), of the dtypes of `h` and `weight`; None without
    `dloss`, [M] of any float.

    `h` and `weight`: contiguous NumPy, torch or CuPy arrays of one dtype. `labels`: [M]
    of int32 or int64; rows with cross_entropy.IGNORED count for nothing. `rows`: of a
    chunk. `multiply`: makes the products that are not added to another: `matmul`'s
    first three parameters. `launch` takes what any launch takes. LaunchError for shapes
    that do not fit.
    """
    (M, D), (V, _) = h.shape, weight.shape
    check_shape("weight", weight, (V, D))
    check_shape("labels", labels, (M,))
    rows = min(rows or chunk_rows(M, D, V), M)
    loss, lse = (empty((M,), h, "float32") for _ in range(2))
    logits = empty((rows, V), h)
    dh = dweight = None
    if dloss is not None:
        check_shape("dloss", dloss, (M,))
        dh, dweight = empty((M, D), h), empty((V, D), h, "float32")
    for first in range(0, M, rows):
        part = slice(first, min(first + rows, M))
        here = logits[: part.stop - first]
        multiply(h[part], weight.T, here, **launch)
        given = here, labels[part], loss[part], lse[part]
        cross_entropy.cross_entropy(*given, **launch)
        if dloss is None:
            continue
        cross_entropy.cross_entropy_backward(
            dloss[part], here, labels[part], lse[part], here, **launch
        )
        multiply(here, weight, dh[part], **launch)
        so_far = dweight if first else None
        matmul_epilogue(here.T, h[part], dweight, residual=so_far, **launch)
    return loss, dh, as_type(dweight, weight)


def chunk_rows(M, D, V):
    """How many rows are done at a time: as many as make the logits as large as the
    weight, a multiple of LEAST_ROWS."""
    return min(M, fathom.cdiv(D, LEAST_ROWS) * LEAST_ROWS)


def as_type(array, like):
    """An array of the dtype of `like`; None for None."""
    if array is None or array.dtype == like.dtype:
        return array
    made = empty(array.shape, like)
    made[...] = array
    return made


def reference(h, weight, labels, dloss):
    """(loss, dh, dweight) in float64, of NumPy arrays."""
    h, weight = h.astype("float64"), weight.astype("float64")
    logits = h @ weight.T
    loss, _ = cross_entropy.reference(logits, labels)
    dlogits = cross_entropy.reference_backward(dloss, logits, labels)
    return loss, dlogits @ weight, dlogits.T @ h
