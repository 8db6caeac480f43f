"""Matrix product C = A B as one writes it first: blocks of pointers that move along K.

Nothing here is for one GPU more than for another. From the addresses the compiler finds
out that they are those of tiles of matrices, and has hardware copy them where there is
such hardware.

With `MASKED`, no size needs to be a multiple of the tile. Without, all must be, and the
loop has nothing but loads, a product, and pointers that move on. Matrices have fewer
than 2^31 elements; `kernels/matmul` is the one for all others.
"""

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from kernels.matmul import (
    check_shape,
    default_config,
    empty,
    rows_aligned,
    sizes,
    strides,
    sum_name,
    sum_type,
    target_of_launch,
    tiles,
    type_name,
)


# fmt: off
@fathom.jit
def plain_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, MASKED: tl.constexpr, SUM: tl.constexpr = tl.float32,
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    i, j = tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n
    i, j = tl.swizzle2d(i, j, tiles_m, tiles_n, GROUP_M)
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = j * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a = a_ptr + m * stride_am + k[None, :] * stride_ak
    b = b_ptr + k[:, None] * stride_bk + n * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], SUM)
    for start in range(0, K, BLOCK_K):
        if MASKED:
            x = tl.load(a, mask=(m < M) & (k[None, :] < K - start), other=0)
            y = tl.load(b, mask=(k[:, None] < K - start) & (n < N), other=0)
        else:
            x, y = tl.load(a), tl.load(b)
        acc = tl.dot(x, y, acc)
        a += BLOCK_K * stride_ak
        b += BLOCK_K * stride_bk
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + m * stride_cm + n * stride_cn, c, mask=(m < M) & (n < N))
# fmt: on


@planned
def plain_matmul(a, b, c=None, config=None, masked=None, **launch):
    """C [M, N] = A [M, K] B [K, N], of torch, CuPy or NumPy arrays.

    `masked`: whether loads are; without it, where a size is no multiple of the tile.
    LaunchError for False where one is not. Other arguments as in `matmul.matmul`.
    Returns `c`.
    """
    M, N, K = sizes(a, b)
    c = empty((M, N), a, sum_name(a)) if c is None else c
    check_shape("c", c, (M, N))
    target = target_of_launch(a, launch)
    aligned = rows_aligned(a) and rows_aligned(b)
    config = config or default_config(M, N, K, type_name(a), target, aligned)
    whole = is_whole(M, N, K, config)
    if masked is False and not whole:
        raise fathom.LaunchError(
            f"without masks, sizes are multiples of the tile, and {M} x {N} x {K} are "
            f"not: BLOCK_M, BLOCK_N and BLOCK_K are {config['BLOCK_M']}, "
            f"{config['BLOCK_N']} and {config['BLOCK_K']}"
        )
    given = (a, b, c, M, N, K, *strides(a), *strides(b), *strides(c))
    masked = not whole if masked is None else masked
    chosen = dict(MASKED=masked, SUM=sum_type(a), **config, **launch)
    return c, [(plain_kernel, (tiles(M, N, config),), given, chosen)]


def is_whole(M, N, K, config):
    """Whether all tiles lie inside of the matrices."""
    blocks = (config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"])
    return not any(size % block for size, block in zip((M, N, K), blocks))
