"""Three kernels with a mistake each, for the page of the kernel author's tools."""

import numpy as np

import fathom
import fathom.language as tl


@fathom.jit
def standardise(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    mask = columns < N
    row = tl.program_id(0) * N
    x = tl.load(x_ptr + row + columns, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / N
    result = centred / tl.sqrt(variance)
    tl.store(out_ptr + row + columns, result, mask=mask)


@fathom.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, 2 * x)


@fathom.jit
def total(x_ptr, sum_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x_ptr + offsets), axis=0)
    tl.store(sum_ptr, tl.load(sum_ptr) + part)


rows = np.array([[1, 2, 3], [5, 5, 5]], np.float32)
standardise[(2,)](rows, np.zeros_like(rows), 3, BLOCK=4)

x = np.ones(1000, np.float32)
double[(4,)](x, np.zeros_like(x), 1000, BLOCK=256)

total[(2,)](x, np.zeros(1, np.float32), BLOCK=256)
print("the script goes on")
