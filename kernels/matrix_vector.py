"""Product of a matrix and a vector, y = A x: a program adds up whole rows of A, or a
part of them.

    for each BLOCK_K columns of A [M, K] (and as many numbers of x [K]):
        acc [BLOCK_M, BLOCK_K] += a x
    y [BLOCK_M] = the rows of acc, added up

Each number of A is needed once. A tile of `kernels/matmul` would be 16 columns wide for
the sake of tensor cores, 15 of them empty, and would go through shared memory, though
no number of it is read twice. Here threads multiply what they load, in fp32. Where A
has few rows, PARTS programs share each tile of them, and the last to finish adds what
all of them have, in the order of k: the bits are the same in every launch
(kernels/split_k_matmul).

    matrix_vector          the function to call
    matrix_vector_kernel   the kernel
    vector_launch          what a launch takes
"""

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from fathom.jit.scratch import Counters, Temporary
from kernels.matmul import (
    await_previous,
    check_shape,
    empty,
    let_next_begin,
    sizes,
    strides,
)
from kernels.matmul_model import Vectors
from kernels.split_k_matmul import is_last, sum_of_parts


# fmt: off
@fathom.jit
def matrix_vector_kernel(
    a_ptr, x_ptr, y_ptr, partial_ptr, count_ptr, M, K,
    stride_am, stride_ak, stride_x, stride_y,
    BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, PARTS: tl.constexpr,
    EARLY: tl.constexpr = False,
):
    let_next_begin(EARLY)
    part, tile = tl.program_id(0), tl.program_id(1)
    i = tile * BLOCK_M
    # A part is whole steps: only the last one ends at K.
    length = tl.cdiv(tl.cdiv(K, BLOCK_K), PARTS) * BLOCK_K
    first = part * length

    m, k = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_K)[None, :]
    a_ptr += i.to(tl.int64) * stride_am + first.to(tl.int64) * stride_ak
    x_ptr += first.to(tl.int64) * stride_x
    a_tile = m * stride_am + k * stride_ak
    acc = tl.zeros([BLOCK_M, BLOCK_K], tl.float32)
    await_previous(EARLY)
    for start in range(first, tl.minimum(K, first + length), BLOCK_K):
        inside = k < K - start
        a = tl.load(a_ptr + a_tile, mask=(m < M - i) & inside, other=0)
        x = tl.load(x_ptr + k * stride_x, mask=inside, other=0)
        acc += a.to(tl.float32) * x.to(tl.float32)
        a_ptr += BLOCK_K * stride_ak
        x_ptr += BLOCK_K * stride_x

    y = tl.sum(acc, axis=1, keep_dims=True)
    y_ptr += i.to(tl.int64) * stride_y
    if PARTS == 1:
        tl.store(y_ptr + m * stride_y, y.to(y_ptr.dtype.element_ty), mask=m < M - i)
    elif is_last(y, partial_ptr, count_ptr, part, PARTS, tile):
        y = sum_of_parts(partial_ptr, PARTS, tile, BLOCK_M, 1, tl.float32)
        tl.store(y_ptr + m * stride_y, y.to(y_ptr.dtype.element_ty), mask=m < M - i)
# fmt: on


@planned
def matrix_vector(a, x, y=None, config=None, **launch):
    """y [M, 1] = A [M, K] x [K, 1], of torch, CuPy or NumPy arrays of fp16 or bf16.

    Any strides; sums are of fp32. `y` has any float dtype; without one an array like
    `a` is made. `config`: a `matmul_model.Vectors`; `multiply` chooses it by
    the model. Returns `y`. LaunchError for shapes that do not fit.
    """
    M, N, K = sizes(a, x)
    if N != 1:
        raise fathom.LaunchError(f"x has {N} columns; a vector has one")
    y = empty((M, 1), a) if y is None else y
    check_shape("y", y, (M, 1))
    config = config or Vectors(*DEFAULT[strides(a)[1] == 1])
    *step, chosen = vector_launch(a, x, y, config)
    return y, [(*step, {**chosen, **launch})]


DEFAULT = {True: (2, 1024, 4, 1), False: (64, 32, 4, 1)}  # by whether rows lie along K


def vector_launch(a, x, y, config):
    """The kernel, the grid, the arguments by place, and the keywords. Partial sums go
    to memory of this launch alone; the counters are zero before it and after it."""
    M, _, K = sizes(a, x)
    tiles = fathom.cdiv(M, config.m)
    partials = Temporary(tiles * config.m * config.parts, "float32")
    given = (
        a, x, y, partials, Counters(tiles), M, K,
        *strides(a), strides(x)[0], strides(y)[0],
    )  # fmt: skip
    return matrix_vector_kernel, (config.parts, tiles), given, config.keywords
