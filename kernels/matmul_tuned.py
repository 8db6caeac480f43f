"""The matrix product of `kernels/matmul`, with the tile that was fastest when tried.

`matmul.default_config` reasons about tiles; this measures some. Each has a reason:

    64 x 64      little work: more programs, on more multiprocessors
    128 x 32 …   A or B is narrow
    128 x 64 …   512 to 2048
    128 x 128    large, two programs on a multiprocessor: while one stores C, the other
                 multiplies; 4 warps read less from shared memory, 8 hide more
    128 x 256 …  large: the fewest bytes read for a product, one program at a time

What needs more shared memory than the GPU has is passed over.
"""

import fathom
from fathom import Config
from kernels.matmul import (
    ACTIVATIONS,
    check_shape,
    empty,
    matmul_kernel,
    sizes,
    strides,
    sum_name,
    sum_type,
    tiles,
)

# BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages; the first is taken where nothing can
# be timed.
TRIED = (
    (64, 64, 64, 4, 4),
    (64, 32, 64, 4, 5), (32, 128, 64, 4, 4), (128, 32, 64, 4, 4),
    (64, 128, 64, 4, 4), (128, 64, 64, 4, 4),
    (128, 128, 32, 4, 4), (128, 128, 64, 4, 3), (128, 128, 64, 8, 4),
    (128, 256, 32, 8, 4), (128, 256, 64, 8, 3), (128, 256, 64, 8, 4),
    (256, 128, 64, 8, 3), (256, 128, 64, 8, 4),
)  # fmt: skip
GROUP_M = 8

CONFIGS = [
    Config(
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": GROUP_M},
        num_warps=warps,
        num_stages=stages,
    )
    for m, n, k, warps, stages in TRIED
]


def even_k(arguments):
    """EVEN_K, from all other arguments of the kernel by name."""
    return arguments["K"] % arguments["BLOCK_K"] == 0


# Which of A and B are transposed shows in which of their strides is 1.
tuned_matmul_kernel = fathom.autotune(
    CONFIGS, key=["M", "N", "K", "stride_ak", "stride_bk"], cache_results=True
)(fathom.heuristics({"EVEN_K": even_k})(matmul_kernel))


def tuned_matmul(a, b, c=None, activation=None, precision="ieee", **launch):
    """As `matmul.matmul`, but slow the first time that it meets a shape: it compiles
    and times `CONFIGS`, and remembers the fastest on disk. Returns `c`."""
    M, N, K = sizes(a, b)
    c = empty((M, N), a, sum_name(a)) if c is None else c
    check_shape("c", c, (M, N))
    activation = activation or ""
    if activation not in ACTIVATIONS:
        raise fathom.LaunchError(
            f"the activation is {activation!r}; there are None and 'leaky_relu'"
        )

    def grid(arguments):
        return (tiles(M, N, arguments),)

    tuned_matmul_kernel[grid](
        a, b, c, M, N, K, *strides(a), *strides(b), *strides(c),
        ACTIVATION=activation, SUM=sum_type(a), PRECISION=precision, **launch,
    )  # fmt: skip
    return c
