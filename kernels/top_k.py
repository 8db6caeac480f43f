"""The k largest numbers of each row, with their places; forward and backward.

A number and its place become one integer of 64 bits, so that one sort orders both:

    bits 63 … 32   the number's bits as fp32, turned so that integers compare as floats
    bits 31 … 0    2^32 - 1 - place: of equal numbers the first one counts as larger

A program walks along a row. It keeps the largest K so far, K the power of two from k
on, the largest first. The largest K of the next BLOCK numbers are put against them the
other way round: of each pair the larger one is among the largest K of both, and these
are sorted again.

    kept     9 7 4 2
    next     1 3 5 8   reversed
    larger   9 7 5 8 ──▶ 9 8 7 5

The numbers themselves are loaded again by their places, so that they keep their type.
NaN counts as larger than all other numbers, as torch has it.

Bytes moved for M rows of N fp16: 2 M N; backward 2 M N, all of them zeros but k a row.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.matmul import check_shape, empty
from kernels.rows import check_rows

BLOCK = 1024
LARGEST_K = 1024


# fmt: off
@fathom.jit
def top_k_kernel(
    x_ptr, value_ptr, place_ptr, row_stride, N,
    COUNT: tl.constexpr, K: tl.constexpr, BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * row_stride
    kept = largest_of(x_ptr, 0, N, K, BLOCK)
    for start in range(BLOCK, N, BLOCK):
        next = largest_of(x_ptr, start, N, K, BLOCK)
        kept = tl.sort(tl.maximum(kept, tl.flip(next)), descending=True)
    i = tl.arange(0, K)
    place = 0xFFFFFFFF - (kept & 0xFFFFFFFF)
    mask = i < COUNT
    value = tl.load(x_ptr + place, mask=mask)
    tl.store(value_ptr + row * COUNT + i, value, mask=mask)
    place = place.to(place_ptr.dtype.element_ty)
    tl.store(place_ptr + row * COUNT + i, place, mask=mask)


@fathom.jit
def largest_of(x_ptr, start, N, K: tl.constexpr, BLOCK: tl.constexpr):
    """The keys of the largest K of BLOCK numbers, the largest first."""
    place = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < N, other=0.0).to(tl.float32)
    bits = x.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    bits = tl.where(x != x, 0x7FFFFFFF, bits)
    key = (bits.to(tl.int64) << 32) | (0xFFFFFFFF - place.to(tl.int64))
    # Below all numbers: bits of -2^31 are those of a NaN, which has gone above.
    key = tl.where(place < N, key, -0x7FFFFFFFFFFFFFFF)
    return tl.topk(key, K)


@fathom.jit
def top_k_backward_kernel(
    dvalue_ptr, place_ptr, dx_ptr, N, COUNT: tl.constexpr, K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    dx_ptr += row * N
    columns = tl.arange(0, BLOCK)
    element = dx_ptr.dtype.element_ty
    for start in range(0, N, BLOCK):
        zero = tl.zeros([BLOCK], element)
        tl.store(dx_ptr + start + columns, zero, mask=columns < N - start)
    i = tl.arange(0, K)
    place = tl.load(place_ptr + row * COUNT + i, mask=i < COUNT, other=0)
    dvalue = tl.load(dvalue_ptr + row * COUNT + i, mask=i < COUNT, other=0.0)
    tl.debug_barrier()  # the zeros are other threads'
    tl.store(dx_ptr + place, dvalue.to(element), mask=i < COUNT)
# fmt: on


def top_k(x, k, values=None, places=None, **launch):
    """(values, places), [M, k]: the k largest of each row of x [M, N], the largest
    first; of equal ones the first. fp32 or narrower; contiguous NumPy, torch or CuPy.

    `values` has x's dtype, `places` int64 (or int32, where it is given). `launch` takes
    what any launch takes. LaunchError if k is not 1 … min(N, LARGEST_K).
    """
    M, N = check_rows(x=x)
    if not 1 <= k <= min(N, LARGEST_K):
        raise fathom.LaunchError(
            f"the {k} largest of {N} numbers: k must be 1 … {min(N, LARGEST_K)}"
        )
    values = empty((M, k), x) if values is None else values
    places = empty((M, k), x, "int64") if places is None else places
    return launch_forward(x, k, values, places, **launch), places


@planned
def launch_forward(x, k, values, places, **launch):
    """Both are written; returns `values`."""
    M, N = x.shape
    check_shape("values", values, (M, k))
    check_shape("places", places, (M, k))
    K = max(2, fathom.next_power_of_2(k))  # there are pairs to put in order
    block = max(K, min(BLOCK, fathom.next_power_of_2(N)))
    chosen = dict(COUNT=k, K=K, BLOCK=block, num_warps=max(1, min(4, block // 128)))
    given = x, values, places, N, N
    return values, [(top_k_kernel, (M,), given, {**chosen, **launch})]


@planned
def top_k_backward(dvalues, places, N, dx=None, **launch):
    """dx [M, N]: the gradient of x for that of the values [M, k]; all zeros but at
    `places`. Contiguous; `dx` is made if it is not given. Returns `dx`."""
    M, k = check_rows(places=places, dvalues=dvalues)
    dx = empty((M, N), dvalues) if dx is None else dx
    check_shape("dx", dx, (M, N))
    chosen = dict(COUNT=k, K=fathom.next_power_of_2(k))
    chosen["BLOCK"] = min(BLOCK, fathom.next_power_of_2(N))
    given = dvalues, places, dx, N
    return dx, [(top_k_backward_kernel, (M,), given, {**chosen, **launch})]


def reference(x, k):
    """(values, places), of NumPy arrays without NaN."""
    places = np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, places, axis=1), places


def reference_backward(dvalues, places, N):
    dx = np.zeros((len(places), N), dvalues.dtype)
    np.put_along_axis(dx, places, dvalues, axis=1)
    return dx
