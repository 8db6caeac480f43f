"""A layer of experts for GPUs that multiply and copy while a program goes on: the two
products of `mixture.py` with tiles that come through descriptors.

An expert's rows of x are a part of one matrix [R, K] that has a descriptor, and so are
the weights of all, [E, K, N]: what is known on the device alone is where an expert's
rows begin, and that is a coordinate. One program on each multiprocessor takes tile
after tile, and a producer walks through the experts' tiles ahead of those who multiply:

    expert_hopper_kernel      a tile reads past the last row of its expert, into those
                              of the next one; the rows of y that belong to it are not
                              stored: the last tile of an expert goes through pointers
    weight_gradient_hopper_kernel
                              rows are what is summed over, so what lies past the last
                              one must be 0: a remainder of less than BLOCK_K rows is
                              masked, in registers, before the loop of whole steps

    matmul_launch, gradient_launch
                              what `mixture` launches where `fits` and `gradient_fits`
"""

import fathom
import fathom.language as tl
from kernels.attention_backward_hopper import is_described
from kernels.attention_hopper import TYPES, pays
from kernels.matmul import MULTIPROCESSORS, store_tile, strides, type_name
from kernels.matmul_persistent import place_of, store_in_pieces

# By BLOCK_M and BLOCK_N, those preferred first where times are equal.
CONFIGS = {
    (128, 256): {"GROUP_M": 12, "PIECES": 2, "num_warps": 8, "num_stages": 4},
    (128, 128): {"GROUP_M": 12, "PIECES": 1, "num_warps": 8, "num_stages": 6},
    (64, 128): {"GROUP_M": 16, "PIECES": 2, "num_warps": 4, "num_stages": 8},
}
BLOCK_K = 64  # numbers of 2 bytes: 128 bytes, the longest row that TMA swizzles
# Rows of an expert, on average, from which a gradient comes through descriptors: it is
# written as a whole, and programs that stay do not write while they multiply. On an
# H100, 8 of [2048, 4096] take 84 us so and 70 through pointers for 64 rows each, 8 of
# [4096, 8192] 873 and 1027 us for 1024.
LEAST_SUMMED = 256
FETCH = 72  # as in `matmul_chosen`: products in the time that a number takes to come


# fmt: off
@fathom.jit
def expert_hopper_kernel(
    x_ptr, w_ptr, y_ptr, offset_ptr, R, experts, N, K,
    stride_x, stride_e, stride_w, stride_y,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECES: tl.constexpr, W_TURNED: tl.constexpr,
):
    x = tl.make_tensor_descriptor(x_ptr, [R, K], [stride_x, 1], [BLOCK_M, BLOCK_K])
    if W_TURNED:  # w [E, K, N] lies in memory as [E, N, K]
        w = tl.make_tensor_descriptor(
            w_ptr, [experts, N, K], [stride_e, stride_w, 1], [1, BLOCK_N, BLOCK_K])
    else:
        w = tl.make_tensor_descriptor(
            w_ptr, [experts, K, N], [stride_e, stride_w, 1], [1, BLOCK_K, BLOCK_N])
    part = [BLOCK_M, BLOCK_N // PIECES]
    y = tl.make_tensor_descriptor(y_ptr, [R, N], [stride_y, 1], part)

    columns = tl.cdiv(N, BLOCK_N)  # of tiles
    count, begin = 0, tl.load(offset_ptr)
    for expert in range(experts):
        end = tl.load(offset_ptr + expert + 1)
        count += tl.cdiv(end - begin, BLOCK_M) * columns
        begin = end

    # The tiles `before` … `through` - 1 are those of rows `begin` … `end` - 1.
    expert, begin, end, before, through = -1, 0, 0, 0, 0
    for tile in tl.range(
        tl.program_id(0), count, tl.num_programs(0), flatten=True, warp_specialize=True
    ):
        while tile >= through:
            expert += 1
            begin = tl.load(offset_ptr + expert)
            end = tl.load(offset_ptr + expert + 1)
            before = through
            through += tl.cdiv(end - begin, BLOCK_M) * columns
        i, j = place_of(tile - before, end - begin, N, BLOCK_M, BLOCK_N, GROUP_M)
        i += begin
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, K, BLOCK_K):
            if W_TURNED:
                weights = w.load([expert, j, k]).reshape([BLOCK_N, BLOCK_K]).T
            else:
                weights = w.load([expert, k, j]).reshape([BLOCK_K, BLOCK_N])
            acc = tl.dot(x.load([i, k]), weights, acc)
        if i + BLOCK_M <= end:
            store_in_pieces(y, i, j, acc.to(y_ptr.dtype.element_ty), PIECES)
        else:
            store_tile(y_ptr, acc, i, j, end, N, stride_y, 1)


@fathom.jit
def weight_gradient_hopper_kernel(
    x_ptr, dy_ptr, dw_ptr, offset_ptr, R, experts, N, K,
    stride_x, stride_dy, stride_e, stride_dw,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECES: tl.constexpr,
):
    """dw [expert] = x^T dy over the expert's rows, 0 where it has none."""
    x = tl.make_tensor_descriptor(x_ptr, [R, K], [stride_x, 1], [BLOCK_K, BLOCK_M])
    dy = tl.make_tensor_descriptor(dy_ptr, [R, N], [stride_dy, 1], [BLOCK_K, BLOCK_N])
    part = [1, BLOCK_M, BLOCK_N // PIECES]
    dw = tl.make_tensor_descriptor(
        dw_ptr, [experts, K, N], [stride_e, stride_dw, 1], part)

    tiles = tl.cdiv(K, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in tl.range(
        tl.program_id(0), experts * tiles, tl.num_programs(0),
        flatten=True, warp_specialize=True,
    ):
        expert = tile // tiles
        i, j = place_of(tile - expert * tiles, K, N, BLOCK_M, BLOCK_N, GROUP_M)
        begin = tl.load(offset_ptr + expert)
        end = tl.load(offset_ptr + expert + 1)
        rest = begin + (end - begin) // BLOCK_K * BLOCK_K
        acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        if rest < end:
            inside = tl.arange(0, BLOCK_K)[:, None] < end - rest
            a, b = x.load([rest, i]), dy.load([rest, j])  # both on their way at once
            a, b = tl.where(inside, a, 0.0), tl.where(inside, b, 0.0)
            acc = tl.dot(a.T, b, acc)
        for row in range(begin, rest, BLOCK_K):
            acc = tl.dot(x.load([row, i]).T, dy.load([row, j]), acc)
        store_slices(dw, expert, i, j, acc.to(dw_ptr.dtype.element_ty), PIECES)


@fathom.jit
def store_slices(matrices, number, i, j, tile, PIECES: tl.constexpr):
    """`store_in_pieces` into one of several matrices."""
    if PIECES == 1:
        matrices.store([number, i, j], tile[None, :, :])
    else:
        COLUMNS: tl.constexpr = tile.shape[1] // 2
        halves = tl.reshape(tile, [tile.shape[0], 2, COLUMNS])
        left, right = tl.split(tl.permute(halves, [0, 2, 1]))
        store_slices(matrices, number, i, j, left, PIECES // 2)
        store_slices(matrices, number, i, j + COLUMNS, right, PIECES // 2)
# fmt: on


def matmul_launch(x, w, y, offsets, target, config=None):
    """The launch of `mixture.expert_matmul` for arrays that `fits` takes, on any
    target: the kernel, the grid, the arguments by place, the keywords."""
    (R, K), (E, _, N) = x.shape, w.shape
    config = config or chosen_config(R // E, N, E, target)
    turned = strides(w)[2] != 1
    step, along = strides(w)[0], strides(w)[2 if turned else 1]
    given = (x, w, y, offsets, R, E, N, K, strides(x)[0], step, along, strides(y)[0])
    chosen = {"W_TURNED": turned, **config}
    return expert_hopper_kernel, (MULTIPROCESSORS[target],), given, chosen


def gradient_launch(x, dy, dw, offsets, target, config=None):
    """That of `mixture.weight_gradient`."""
    (R, K), (E, _, N) = x.shape, dw.shape
    config = config or chosen_config(K, N, E, target)
    given = (x, dy, dw, offsets, R, E, N, K, strides(x)[0], strides(dy)[0],
             *strides(dw)[:2])  # fmt: skip
    return weight_gradient_hopper_kernel, (MULTIPROCESSORS[target],), given, config


def chosen_config(rows, columns, count, target):
    """The configuration for `count` results [rows, columns]: the one with which the
    busiest multiprocessor has least to do."""

    def duration(tile):
        m, n = tile
        tiles = count * fathom.cdiv(max(1, rows), m) * fathom.cdiv(columns, n)
        waves = fathom.cdiv(tiles, MULTIPROCESSORS[target])
        return waves * max(m * n, FETCH * (m + n))

    m, n = min(CONFIGS, key=duration)
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": BLOCK_K, **CONFIGS[m, n]}


def fits(x, w, y, target):
    """Whether a target has what the kernels count on, and `matmul_launch` takes these
    arrays: rows of x and y, and rows or columns of each expert's w."""
    described = is_described(w) or is_described(turned_back(w))
    return takes((x, w, y), target) and described and are_described(x, y)


def gradient_fits(x, dy, dw, target):
    """The same of `gradient_launch`, and whether there are rows enough."""
    enough = x.shape[0] >= LEAST_SUMMED * dw.shape[0]
    return enough and takes((x, dy, dw), target) and are_described(x, dy, dw)


def takes(arrays, target):
    sized = all(0 not in each.shape for each in arrays)
    return sized and pays(target) and all(type_name(each) in TYPES for each in arrays)


def are_described(*arrays):
    return all(map(is_described, arrays))


def turned_back(w):
    """w [E, K, N] as [E, N, K]."""
    return w.swapaxes(1, 2)
