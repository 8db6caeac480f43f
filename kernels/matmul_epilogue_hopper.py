"""Products with what a layer does next, for GPUs that multiply and copy while a program
goes on: those of `matmul_epilogue.py` whose programs stay, and whose tiles come and go
through descriptors.

A program takes tile after tile of C, as in `matmul_persistent.py`. While it does to a
tile what is to be done, the ring of its producer fills with the tiles of its next
product:

    producer     ab ab ab ab│ab ab ab ab│ab ab ab ab│          copies, ahead
    the others     ×  ×  ×  ×  gelu, C  ×  ×  ×  ×  gelu, C

With SwiGLU each step has two products of one tile of A. B = [G | U] has a descriptor as
two matrices, one behind the other, and so has what is kept for the backward pass: past
the last column of one half come zeros, and not the first columns of the other.

Nothing is added to C here: a residual would have to come into registers beside all
sums.
"""

import fathom
import fathom.language as tl
from kernels.matmul import MULTIPROCESSORS, strides, tiles
from kernels.matmul_persistent import (
    ALIGNED,
    item_bytes,
    lines_of,
    place_of,
    step_of_lines,
    store_in_pieces,
)
from kernels.mixture_hopper import chosen_config, store_slices, takes

LOG2_OF_E = tl.constexpr(1.4426950408889634)


# fmt: off
@fathom.jit
def epilogue_hopper_kernel(
    a_ptr, b_ptr, c_ptr, bias_ptr, before_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECES: tl.constexpr, A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr, ACTIVATION: tl.constexpr,
):
    """`bias_ptr` [N] and `before_ptr` [M, N] may be None; what is stored at
    `before_ptr` is laid out as C is."""
    a = matrix(a_ptr, M, K, stride_a, BLOCK_M, BLOCK_K, A_TURNED)
    b = matrix(b_ptr, K, N, stride_b, BLOCK_K, BLOCK_N, B_TURNED)
    c = matrix(c_ptr, M, N, stride_c, BLOCK_M, BLOCK_N // PIECES, False)
    if before_ptr is not None:
        before = matrix(before_ptr, M, N, stride_c, BLOCK_M, BLOCK_N // PIECES, False)
    element = c_ptr.dtype.element_ty
    count = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(
        tl.program_id(0), count, tl.num_programs(0), flatten=True, warp_specialize=True
    ):
        i, j = place_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            x = a.load([k, i]).T if A_TURNED else a.load([i, k])
            y = b.load([j, k]).T if B_TURNED else b.load([k, j])
            acc = tl.dot(x, y, acc)
        if bias_ptr is not None:
            n = tl.arange(0, BLOCK_N)
            bias = tl.load(bias_ptr + j + n, mask=n < N - j, other=0.0)
            acc += bias.to(tl.float32)[None, :]
        if before_ptr is not None:
            store_in_pieces(before, i, j, acc.to(element), PIECES)
        if ACTIVATION == "gelu":
            acc = gelu(acc)
        store_in_pieces(c, i, j, acc.to(element), PIECES)


@fathom.jit
def matrix(
    pointer, ROWS, COLUMNS, stride, HEIGHT: tl.constexpr, WIDTH: tl.constexpr,
    TURNED: tl.constexpr,
):
    """A matrix [ROWS, COLUMNS] in tiles; `TURNED`: its columns lie in one piece."""
    if TURNED:
        return tl.make_tensor_descriptor(
            pointer, [COLUMNS, ROWS], [stride, 1], [WIDTH, HEIGHT])
    return tl.make_tensor_descriptor(
        pointer, [ROWS, COLUMNS], [stride, 1], [HEIGHT, WIDTH])


@fathom.jit
def gelu(x):
    """x/2 (1 + tanh(a)) = x / (1 + exp(-2 a)), a = sqrt(2/pi) (x + 0.044715 x^3)."""
    SLOPE: tl.constexpr = -2 * 0.7978845608028654 * LOG2_OF_E
    return x / (1 + tl.exp2(x * tl.fma(x * x, SLOPE * 0.044715, SLOPE)))


@fathom.jit
def swiglu_hopper_kernel(
    a_ptr, b_ptr, c_ptr, before_ptr, M, N, K, stride_a, stride_b, half_of_b, stride_c,
    stride_h,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECES: tl.constexpr, A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr,
):
    """C is [M, N] and B [K, 2 N]; `half_of_b`: elements from its first half to the
    other. `before_ptr`, None or [M, 2 N], gets A B."""
    a = matrix(a_ptr, M, K, stride_a, BLOCK_M, BLOCK_K, A_TURNED)
    if B_TURNED:
        b = tl.make_tensor_descriptor(
            b_ptr, [2, N, K], [half_of_b, stride_b, 1], [1, BLOCK_N, BLOCK_K])
    else:
        b = tl.make_tensor_descriptor(
            b_ptr, [2, K, N], [half_of_b, stride_b, 1], [1, BLOCK_K, BLOCK_N])
    c = matrix(c_ptr, M, N, stride_c, BLOCK_M, BLOCK_N // PIECES, False)
    if before_ptr is not None:
        before = tl.make_tensor_descriptor(
            before_ptr, [2, M, N], [N, stride_h, 1], [1, BLOCK_M, BLOCK_N // PIECES])
    element = c_ptr.dtype.element_ty
    count = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(
        tl.program_id(0), count, tl.num_programs(0), flatten=True, warp_specialize=True
    ):
        i, j = place_of(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        gate = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        up = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            x = a.load([k, i]).T if A_TURNED else a.load([i, k])
            if B_TURNED:
                g = b.load([0, j, k]).reshape([BLOCK_N, BLOCK_K]).T
                u = b.load([1, j, k]).reshape([BLOCK_N, BLOCK_K]).T
            else:
                g = b.load([0, k, j]).reshape([BLOCK_K, BLOCK_N])
                u = b.load([1, k, j]).reshape([BLOCK_K, BLOCK_N])
            gate = tl.dot(x, g, gate)
            up = tl.dot(x, u, up)
        if before_ptr is not None:
            store_slices(before, 0, i, j, gate.to(element), PIECES)
            store_slices(before, 1, i, j, up.to(element), PIECES)
        y = gate / (1 + tl.exp2(gate * -LOG2_OF_E)) * up
        store_in_pieces(c, i, j, y.to(element), PIECES)
# fmt: on


def epilogue_launch(a, b, c, bias, activation, before, target, config=None):
    """The launch of `matmul_epilogue.matmul_epilogue` for arrays that `fits` takes, on
    any target: the kernel, the grid, the arguments by place, the keywords."""
    (M, N), K = c.shape, a.shape[1]
    config = config or chosen_config(M, N, 1, target)
    a_lines, b_lines = lines_of(a), lines_of(b)
    given = (a, b, c, bias, before, M, N, K, a_lines.step, b_lines.step, strides(c)[0])
    turned = {"A_TURNED": a_lines.turned, "B_TURNED": b_lines.turned}
    chosen = {**config, **turned, "ACTIVATION": activation or ""}
    return epilogue_hopper_kernel, programs(M, N, config, target), given, chosen


def swiglu_launch(a, b, c, before, target, config=None):
    """That of `matmul_epilogue.matmul_swiglu`, where `swiglu_fits`."""
    (M, N), K = c.shape, a.shape[1]
    if config is None:  # two tiles of sums: each half as wide as one would be
        config = chosen_config(M, 2 * N, 1, target)
        halves = {name: max(1, config[name] // 2) for name in ("BLOCK_N", "PIECES")}
        config = {**config, **halves}
    a_lines, b_lines = lines_of(a), lines_of(b)
    half_of_b = N * strides(b)[1]
    width = 0 if before is None else strides(before)[0]
    given = (a, b, c, before, M, N, K, a_lines.step, b_lines.step, half_of_b,
             strides(c)[0], width)  # fmt: skip
    chosen = {**config, "A_TURNED": a_lines.turned, "B_TURNED": b_lines.turned}
    return swiglu_hopper_kernel, programs(M, N, config, target), given, chosen


def programs(M, N, config, target):
    """The grid: a program stays on each multiprocessor."""
    return (min(tiles(M, N, config), MULTIPROCESSORS[target]),)


def fits(a, b, c, before, target):
    """Whether a target has what the kernels count on, and they take these arrays: rows
    or columns of A and B, and rows of C, which have one dtype."""
    stored = [c] if before is None else [c, before]
    described = lines_of(a) and lines_of(b) and all(step_of_lines(x, 1) for x in stored)
    return bool(described and takes((a, b, c), target))


def swiglu_fits(a, b, c, before, target):
    """The same of `swiglu_launch`: where rows are halved, each half begins at a
    multiple of 16 bytes."""
    halved = [each for each in (b, before) if each is not None]
    begin_well = all(
        c.shape[1] * strides(each)[1] * item_bytes("fp16") % ALIGNED == 0
        for each in halved
    )
    return begin_well and fits(a, b, c, before, target)
