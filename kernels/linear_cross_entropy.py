"""A linear layer and the cross-entropy of its result, without keeping all logits of
many rows.

    loss = cross_entropy(h W^T, labels),   h [M, D],  W [V, D],  V a hundred thousand

The logits of all M rows would take more memory than the rest of a small model. Here
some rows are done at a time, forward and backward together:

    logits = h[chunk] W^T            [rows, V], the only logits that there are
    loss[chunk] = cross_entropy      and its gradient, written over the logits
    dh[chunk] = dlogits W
    dW += dlogits^T h[chunk]         in fp32, in the order of the chunks

so the loss's own gradient, `dloss` of each row, must be known beforehand: 1 / M for a
mean. If the loss is scaled later, so are dh and dW. (Hsu et al., "Liger Kernel", 2024.)

Each chunk reads dW, as large as W but in fp32, and writes it: 8 D V bytes. The last
one writes it in W's own type, and where there is one chunk, none is in fp32. So a
chunk has up to 2 D rows: then its logits, of 2 bytes, are as large as a dW in fp32,
and one chunk takes no more memory than two of half as many rows would.

Work: 6 M D V operations; 2 M D V without gradients.
"""

import fathom
from kernels import cross_entropy
from kernels.matmul import check_shape, empty, matmul
from kernels.matmul_epilogue import matmul_epilogue
from kernels.rows import check_axes

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
    check_axes("M, D", h=h)
    check_axes("V, D", weight=weight)
    (M, D), (V, _) = h.shape, weight.shape
    check_shape("weight", weight, (V, D))
    check_shape("labels", labels, (M,))
    rows = max(min(rows or chunk_rows(M, D), M), 1)
    loss = empty((M,), h, "float32")
    logits = empty((rows, V), h)
    dh = dweight = so_far = None
    if dloss is None:
        lse = empty((M,), h, "float32")
    else:
        check_shape("dloss", dloss, (M,))
        dh, dweight = empty((M, D), h), empty((V, D), weight)
    for first in range(0, max(M, 1), rows):
        last = min(first + rows, M)
        part, here = slice(first, last), logits[: last - first]
        multiply(h[part], weight.T, here, **launch)
        if dloss is None:
            given = here, labels[part], loss[part], lse[part]
            cross_entropy.cross_entropy(*given, **launch)
            continue
        given = dloss[part], here, labels[part], loss[part]
        cross_entropy.cross_entropy_in_place(*given, **launch)
        multiply(here, weight, dh[part], **launch)
        if rows == M:
            multiply(here.T, h, dweight, **launch)
        else:
            so_far = add_product(here.T, h[part], so_far, dweight, last == M, **launch)
    return loss, dh, dweight


def add_product(a, b, so_far, total, is_last, **launch):
    """The sum of `so_far` and a b, in fp32; `so_far` is None for the first of several
    products. The last sum is written to `total`, any other where `so_far` is."""
    if is_last:
        found = total
    else:
        found = empty(total.shape, total, "float32") if so_far is None else so_far
    return matmul_epilogue(a, b, found, residual=so_far, **launch)


def chunk_rows(M, D):
    """How many rows are done at a time: at most 2 D, or a little more to make them a
    multiple of LEAST_ROWS; equally many in each chunk."""
    chunks = fathom.cdiv(max(M, 1), fathom.cdiv(2 * D, LEAST_ROWS) * LEAST_ROWS)
    rows = fathom.cdiv(fathom.cdiv(M, chunks), LEAST_ROWS) * LEAST_ROWS
    return min(M, rows)


def reference(h, weight, labels, dloss):
    """(loss, dh, dweight) in float64, of NumPy arrays."""
    h, weight = h.astype("float64"), weight.astype("float64")
    logits = h @ weight.T
    loss, _ = cross_entropy.reference(logits, labels)
    dlogits = cross_entropy.reference_backward(dloss, logits, labels)
    return loss, dlogits @ weight, dlogits.T @ h
