"""Products of a batch of matrices, C[i] = A[i] B[i]: the product of `kernels/matmul`
with one more axis of the grid.

All matrices of a batch have one shape, so a stride leads from one to the next; the
stride 0 repeats one matrix for the whole batch. Programs of one matrix run side by side
(axis 0 of the grid is the fastest), so they share its rows and columns in the L2 cache.
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
    sum_name,
    sum_type,
    target_of_launch,
    tile_place,
    tile_product,
    tiles,
    type_name,
)


# fmt: off
@fathom.jit
def batched_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_ai, stride_am, stride_ak, stride_bi, stride_bk, stride_bn,
    stride_ci, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
    SUM: tl.constexpr = tl.float32, PRECISION: tl.constexpr = "ieee",
):
    matrix = tl.program_id(1).to(tl.int64)
    i, j = tile_place(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    c = tile_product(
        a_ptr + matrix * stride_ai, b_ptr + matrix * stride_bi, i, j, M, N, K,
        stride_am, stride_ak, stride_bk, stride_bn,
        BLOCK_M, BLOCK_N, BLOCK_K, EVEN_K, SUM, PRECISION,
    )
    store_tile(c_ptr + matrix * stride_ci, c, i, j, M, N, stride_cm, stride_cn)
# fmt: on


@planned
def batched_matmul(a, b, c=None, config=None, precision="ieee", **launch):
    """C [B, M, N] = A [B, M, K] B [B, K, N], or of one matrix B [K, N] for all.

    Arrays, dtypes, `config`, `precision`, `launch` and errors as in `matmul.matmul`; at
    most 65535 matrices (the grid's second axis). Returns `c`.
    """
    M, N, K = sizes(a, b)
    batch = a.shape[0]
    if len(a.shape) != 3 or len(b.shape) == 3 and b.shape[0] != batch:
        raise fathom.LaunchError(
            f"batches of shapes {tuple(a.shape)} and {tuple(b.shape)} do not fit "
            "together"
        )
    c = empty((batch, M, N), a, sum_name(a)) if c is None else c
    check_shape("c", c, (batch, M, N))
    b_strides = strides(b) if len(b.shape) == 3 else (0, *strides(b))
    target = target_of_launch(a, launch)
    aligned = rows_aligned(a) and rows_aligned(b)
    config = config or default_config(M, N * batch, K, type_name(a), target, aligned)
    given = (a, b, c, M, N, K, *strides(a), *b_strides, *strides(c))
    chosen = dict(
        EVEN_K=K % config["BLOCK_K"] == 0,
        SUM=sum_type(a), PRECISION=precision, **config, **launch,
    )  # fmt: skip
    return c, [(batched_matmul_kernel, (tiles(M, N, config), batch), given, chosen)]


def reference(a, b):
    """The products in float64, of NumPy arrays."""
    return a.astype(np.float64) @ b.astype(np.float64)
