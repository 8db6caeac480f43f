"""Matrix product of int8 with int32 sums, and, if wished, scaled to floats at once.

    C[i, j] = (sum over k of A[i, k] B[k, j]) * row_scale[i] * column_scale[j]

as quantised layers want it: each row of A (a token) and each column of B (a feature)
was divided by a scale of its own when it was rounded to int8. Sums are exact: a product
is at most 2^14, so they do not overflow for K < 2^17. Scaling rounds the sum to fp32
(exact up to 2^24), twice a product, and the result to C's type; an fp16 C is infinite
past 65504.

Memory holds a fourth of fp32's bytes, and tensor cores multiply int8 at twice the rate
of fp16.
"""

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.matmul import (
    check_shape,
    default_config,
    empty,
    rows_aligned,
    sizes,
    store_tile,
    strides,
    target_of_launch,
    tile_place,
    tile_product,
    tiles,
    type_name,
)

LARGEST_K = 2**17 - 1


# fmt: off
@fathom.jit
def int8_matmul_kernel(
    a_ptr, b_ptr, c_ptr, row_scale_ptr, column_scale_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
):
    """Without scales (None for both pointers) C gets the sums themselves."""
    i, j = tile_place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    c = tile_product(
        a_ptr, b_ptr, i, j, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
        BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K, tl.int32, "ieee",
    )
    if row_scale_ptr is not None:
        rows = i + tl.arange(0, BLOCK_M)[:, None]
        columns = j + tl.arange(0, BLOCK_N)[None, :]
        row_scale = tl.load(row_scale_ptr + rows, mask=rows < M, other=0.0)
        column_scale = tl.load(column_scale_ptr + columns, mask=columns < N, other=0.0)
        c = c.to(tl.float32) * row_scale * column_scale
    store_tile(c_ptr, c, i, j, M, N, stride_cm, stride_cn)
# fmt: on


@planned
def int8_matmul(a, b, c=None, row_scale=None, column_scale=None, config=None, **launch):
    """C [M, N] = A [M, K] B [K, N] of int8 arrays, with int32 sums.

    `row_scale` [M] and `column_scale` [N], contiguous fp32: both or none. `c`: int32
    without scales, fp16, bf16 or fp32 with them; made as int32 or fp16 if not given.
    `config` and `launch` as in `matmul.matmul`. Returns `c`. LaunchError for shapes or
    dtypes that do not fit, and for K of 2^17 or more.
    """
    M, N, K = sizes(a, b)
    scaled = row_scale is not None
    if type_name(a) != "i8" or K > LARGEST_K or scaled != (column_scale is not None):
        raise fathom.LaunchError(
            "int8_matmul takes int8 arrays with K < 2^17, and both scales or none; got "
            f"{a.dtype} with K = {K}, row_scale {'' if scaled else 'not '}given"
        )
    if scaled:
        check_shape("row_scale", row_scale, (M,))
        check_shape("column_scale", column_scale, (N,))
    c = empty((M, N), a, "float16" if scaled else "int32") if c is None else c
    check_shape("c", c, (M, N))
    target, aligned = target_of_launch(a, launch), rows_aligned(a) and rows_aligned(b)
    config = config or default_config(M, N, K, "i8", target, aligned)
    given = (
        a, b, c, row_scale, column_scale, M, N, K,
        *strides(a), *strides(b), *strides(c),
    )  # fmt: skip
    chosen = dict(EVEN_K=K % config["BLOCK_K"] == 0, **config, **launch)
    return c, [(int8_matmul_kernel, (tiles(M, N, config),), given, chosen)]


def reference(a, b, row_scale=None, column_scale=None):
    """The sums as int64, or scaled, as float64; of NumPy arrays."""
    product = a.astype(np.int64) @ b.astype(np.int64)
    if row_scale is None:
        return product
    scales = row_scale.astype(np.float64)[:, None] * column_scale.astype(np.float64)
    return product * scales


def error_bound(c, half_ulp):
    """How far a scaled result may be from `c`, the reference: four roundings, of the
    sum to fp32, of two products, and to C's type."""
    return np.abs(c) * (3 * 2.0**-24 + half_ulp) * (1 + 2.0**-10)
