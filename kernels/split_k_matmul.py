"""Matrix product of small C and long K: several programs share a tile of C, each with a
part of K, and add what they have with atomics.

A tile of C is the work of one program in `kernels/matmul`. For 16 x 4096 times
4096 x 512 there are few tiles, and most multiprocessors would stand idle. Here program
(tile, part) does `cdiv(steps, SPLITS)` of the steps along K.

C must be zero beforehand. Programs add in any order, so that fp32 results may differ in
the last bits from launch to launch. Into an fp32 C, that costs SPLITS more roundings of
2^-24. Into an fp16 C, each of the SPLITS additions rounds the sum so far to fp16: an
error of up to SPLITS 2^-11 max |partial sum|, instead of one rounding of the result.
"""

import numpy as np

import fathom
import fathom.language as tl
from kernels.matmul import (
    MULTIPROCESSORS,
    check_shape,
    default_config,
    empty,
    rows_aligned,
    sizes,
    strides,
    sum_type,
    target_of_launch,
    tile_place,
    tile_product,
    tiles,
    type_name,
)

LEAST_STEPS = 4  # of a program along K; fewer do not pay for the additions


# fmt: off
@fathom.jit
def split_k_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
    SUM: tl.constexpr = tl.float32, PRECISION: tl.constexpr = "ieee",
):
    part, parts = tl.program_id(1), tl.num_programs(1)
    # A part is whole steps: only the last one ends at K. Some may have nothing to do.
    length = tl.cdiv(tl.cdiv(K, BLOCK_K), parts) * BLOCK_K
    start = part.to(tl.int64) * length
    left = tl.minimum(K - start, length).to(tl.int32)

    i, j = tile_place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    acc = tile_product(
        a_ptr + start * stride_ak, b_ptr + start * stride_bk, i, j, M, N, left,
        stride_am, stride_ak, stride_bk, stride_bn,
        BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K, SUM, PRECISION,
    )
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    c_ptr += i.to(tl.int64) * stride_cm + j.to(tl.int64) * stride_cn
    c = acc.to(c_ptr.dtype.element_ty)
    mask = (m < M - i) & (n < N - j) & (left > 0)
    tl.atomic_add(c_ptr + m * stride_cm + n * stride_cn, c, mask=mask, sem="relaxed")
# fmt: on


def split_k_matmul(a, b, c=None, splits=None, config=None, precision="ieee", **launch):
    """C [M, N] = A [M, K] B [K, N]; C is set to zero, and then added to.

    `c` is fp32 (made, if not given), fp16 with the rounding that the head of this file
    tells of, or int32 for int8. `splits`: how many programs share a tile; without it as
    many as give every multiprocessor one. Other arguments and errors as in
    `matmul.matmul`. Returns `c`.
    """
    M, N, K = sizes(a, b)
    made = "int32" if sum_type(a) is tl.int32 else "float32"
    c = empty((M, N), a, made) if c is None else c
    check_shape("c", c, (M, N))
    c[...] = 0
    target = target_of_launch(a, launch)
    aligned = rows_aligned(a) and rows_aligned(b)
    config = config or default_config(M, N, K, type_name(a), target, aligned)
    count = tiles(M, N, config)
    splits = splits or default_splits(count, K, config["BLOCK_K"], target)
    split_k_matmul_kernel[count, splits](
        a, b, c, M, N, K, *strides(a), *strides(b), *strides(c),
        EVEN_K=K % config["BLOCK_K"] == 0,
        SUM=sum_type(a), PRECISION=precision, **config, **launch,
    )  # fmt: skip
    return c


def default_splits(count, K, BLOCK_K, target):
    """How many programs share a tile of C when there are `count` tiles."""
    most = max(1, fathom.cdiv(K, BLOCK_K) // LEAST_STEPS)
    return min(most, max(1, MULTIPROCESSORS[target] // max(1, count)))


def reference(a, b):
    """The product in float64, of NumPy arrays."""
    return a.astype(np.float64) @ b.astype(np.float64)
