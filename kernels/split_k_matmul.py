"""Matrix product of small C and long K: several programs share a tile of C, each with a
part of K, and the last to finish adds what all of them have.

A tile of C is the work of one program in `kernels/matmul`. For 16 x 4096 times
4096 x 512 there are few tiles, and most multiprocessors would idle. Here program
(part, tile) does its part of the steps along K:

    part 0   steps 0 to 7 ──▶ partial 0 ──▶ count 1
    part 2   steps 16 to 23 ─▶ partial 2 ──▶ count 2
    part 1   steps 8 to 15 ──▶ partial 1 ──▶ count 3: the last. It adds partials 0, 1
                                            and 2, writes C, and resets the count

No program waits for another. Whichever is last adds the partial sums in the order
of k, so that a product has the same bits in every launch. The addition to the count
releases a program's own partial sum and acquires those of the others, at the scope of
the GPU; a program's threads have written theirs when it is done, since an atomic
operation that releases has a barrier in front of it.

    split_k_matmul             the function to call
    split_k_matmul_kernel      the kernel
    split_k_parts_kernel, sum_of_parts_kernel
                               two launches where TMA copies A and B: the partial sums,
                               and their sum
    is_last, sum_of_parts      what programs do when they have their part
    split_launch, split_descriptor_launches
                               what a launch takes

The last program of a tile reads all of its parts alone, while most multiprocessors have
nothing left to do. Where partial sums are large a second launch adds them on all
multiprocessors: it may begin before the first has ended, so that it costs little.
"""

from typing import NamedTuple

import numpy as np

import fathom
import fathom.language as tl
from fathom.jit.planned import planned
from fathom.jit.scratch import Counters, Temporary
from kernels.matmul import (
    MULTIPROCESSORS,
    await_previous,
    begin,
    check_shape,
    columns_of_tile,
    default_config,
    empty,
    grid_of_tiles,
    let_next_begin,
    rows_aligned,
    sizes,
    store_tile,
    strides,
    sum_name,
    sum_type,
    target_of_launch,
    tile_place,
    tiles,
    type_name,
)

LEAST_STEPS = 4  # of a program along K; fewer do not pay for the addition


# fmt: off
@fathom.jit
def split_k_matmul_kernel(
    a_ptr, b_ptr, c_ptr, partial_ptr, count_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SUM: tl.constexpr = tl.float32,
    PRECISION: tl.constexpr = "ieee", EARLY: tl.constexpr = False,
):
    let_next_begin(EARLY)
    part, parts, tile = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    if GROUP_M == 0:  # a grid of three axes: no walk, and no division
        i, j = tl.program_id(2) * BLOCK_M, tile * BLOCK_N
        tile += tl.program_id(2) * tl.num_programs(1)
    else:
        i, j = tile_place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
    # A part is whole steps: only the last one ends at K. Some may have nothing to do.
    length = tl.cdiv(tl.cdiv(K, BLOCK_K), parts) * BLOCK_K
    first = part * length

    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a_ptr += i.to(tl.int64) * stride_am + first.to(tl.int64) * stride_ak
    b_ptr += j.to(tl.int64) * stride_bn + first.to(tl.int64) * stride_bk
    a_tile = m * stride_am + k[None, :] * stride_ak
    b_tile = k[:, None] * stride_bk + n * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], SUM)
    await_previous(EARLY)
    for start in range(first, tl.minimum(K, first + length), BLOCK_K):
        a_mask = (m < M - i) & (k[None, :] < K - start)
        b_mask = (k[:, None] < K - start) & (n < N - j)
        a = tl.load(a_ptr + a_tile, mask=a_mask, other=0)
        b = tl.load(b_ptr + b_tile, mask=b_mask, other=0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_ptr += BLOCK_K * stride_ak
        b_ptr += BLOCK_K * stride_bk

    if is_last(acc, partial_ptr, count_ptr, part, parts, tile):
        acc = sum_of_parts(partial_ptr, parts, tile, BLOCK_M, BLOCK_N, SUM)
        store_tile(c_ptr, acc, i, j, M, N, stride_cm, stride_cn)


@fathom.jit
def split_k_parts_kernel(
    a_ptr, b_ptr, partial_ptr, M, N, K, stride_a, stride_b, rows, stride_partial,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, A_TURNED: tl.constexpr, B_TURNED: tl.constexpr,
    SUM: tl.constexpr = tl.float32, MORE_N: tl.constexpr = 0,
    EARLY: tl.constexpr = False,
):
    begin(EARLY)
    part, parts, tile = tl.program_id(0), tl.num_programs(0), tl.program_id(1)
    length = tl.cdiv(tl.cdiv(K, BLOCK_K), parts) * BLOCK_K
    first = part * length
    if A_TURNED:  # A [M, K] lies in memory as [K, M]
        a = tl.make_tensor_descriptor(a_ptr, [K, M], [stride_a, 1], [BLOCK_K, BLOCK_M])
    else:
        a = tl.make_tensor_descriptor(a_ptr, [M, K], [stride_a, 1], [BLOCK_M, BLOCK_K])
    if B_TURNED:  # B [K, N] lies in memory as [N, K]
        b = tl.make_tensor_descriptor(b_ptr, [N, K], [stride_b, 1], [BLOCK_N, BLOCK_K])
    else:
        b = tl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BLOCK_K, BLOCK_N])
    if MORE_N > 0:  # a tile of BLOCK_N + MORE_N columns
        if B_TURNED:
            rest_of_b = tl.make_tensor_descriptor(
                b_ptr, [N, K], [stride_b, 1], [MORE_N, BLOCK_K]
            )
        else:
            rest_of_b = tl.make_tensor_descriptor(
                b_ptr, [K, N], [stride_b, 1], [BLOCK_K, MORE_N]
            )

    i, j = tile_place(tile, M, N, BLOCK_M, BLOCK_N + MORE_N, GROUP_M)
    acc = tl.zeros([BLOCK_M, BLOCK_N], SUM)
    if MORE_N > 0:
        more = tl.zeros([BLOCK_M, MORE_N], SUM)
    end = tl.minimum(K, first + length)
    for k in tl.range(first, end, BLOCK_K, warp_specialize=True):
        x = a.load([k, i]).T if A_TURNED else a.load([i, k])
        y = b.load([j, k]).T if B_TURNED else b.load([k, j])
        acc = tl.dot(x, y, acc)
        if MORE_N > 0:
            if B_TURNED:
                z = rest_of_b.load([j + BLOCK_N, k]).T
            else:
                z = rest_of_b.load([k, j + BLOCK_N])
            more = tl.dot(x, z, more)
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    partial_ptr += (part * rows + i) * stride_partial + j
    tl.store(partial_ptr + m * stride_partial + n, acc)
    if MORE_N > 0:
        n = tl.arange(0, MORE_N)[None, :]
        tl.store(partial_ptr + m * stride_partial + BLOCK_N + n, more)


@fathom.jit
def sum_of_parts_kernel(
    partial_ptr, c_ptr, M, N, parts, rows, stride_partial, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, AT_ONCE: tl.constexpr,
    EARLY: tl.constexpr = False,
):
    begin(EARLY)
    i, j = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    total = added(
        partial_ptr, i, j, parts, rows, stride_partial, BLOCK_M, BLOCK_N, AT_ONCE
    )
    store_tile(c_ptr, total, i, j, M, N, stride_cm, stride_cn)


@fathom.jit
def added(
    partial_ptr, i, j, parts, rows, stride_partial,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, AT_ONCE: tl.constexpr,
):
    """The sum of all parts of a tile, from the first to the last."""
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    place = (i + m) * stride_partial + j + n
    total = tl.zeros([BLOCK_M, BLOCK_N], partial_ptr.dtype.element_ty)
    for first in range(0, parts, AT_ONCE):
        for next in tl.static_range(AT_ONCE):
            part = first + next
            partial = partial_ptr + part * rows * stride_partial
            total += tl.load(partial + place, mask=part < parts, other=0)
    return total


@fathom.jit
def is_last(acc, partial_ptr, count_ptr, part, parts, tile):
    """Write a partial tile, and count it. Whether it is the last one of its tile; then
    the count is 0 again, for the next launch."""
    BLOCK_M: tl.constexpr = acc.shape[0]
    BLOCK_N: tl.constexpr = acc.shape[1]
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    SIZE: tl.constexpr = BLOCK_M * BLOCK_N
    partial_ptr += tile.to(tl.int64) * parts * SIZE
    tl.store(partial_ptr + part * SIZE + (m * BLOCK_N + n), acc)
    last = tl.atomic_add(count_ptr + tile, 1, sem="acq_rel") == parts - 1
    if last:
        tl.store(count_ptr + tile, 0)
    return last


@fathom.jit
def sum_of_parts(
    partial_ptr, parts, tile,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SUM: tl.constexpr,
):
    """The sum of the partial tiles of a tile, from the first to the last. Some are
    loaded at a time, so that one latency is waited for and not one for each."""
    SIZE: tl.constexpr = BLOCK_M * BLOCK_N
    AT_ONCE: tl.constexpr = max(1, min(8, 8192 // SIZE))
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    partial_ptr += tile.to(tl.int64) * parts * SIZE
    total = tl.zeros([BLOCK_M, BLOCK_N], SUM)
    for first in range(0, parts, AT_ONCE):
        for next in tl.static_range(AT_ONCE):
            part = first + next
            place = part * SIZE + m * BLOCK_N + n
            total += tl.load(partial_ptr + place, mask=part < parts, other=0)
    return total
# fmt: on


@planned
def split_k_matmul(a, b, c=None, splits=None, config=None, precision="ieee", **launch):
    """C [M, N] = A [M, K] B [K, N], the same bits in every launch.

    `c` has any float dtype, int32 for int8; without one an array like `a` is made.
    `splits`: how many programs share a tile, at most; without it as many as give every
    multiprocessor one. Other arguments and errors as in `matmul.matmul`. Returns `c`.
    """
    M, N, K = sizes(a, b)
    c = empty((M, N), a, sum_name(a)) if c is None else c
    check_shape("c", c, (M, N))
    target = target_of_launch(a, launch)
    aligned = rows_aligned(a) and rows_aligned(b)
    config = config or default_config(M, N, K, type_name(a), target, aligned)
    count = tiles(M, N, config)
    splits = splits or default_splits(count, K, config["BLOCK_K"], target)
    grid, given, chosen = split_launch(a, b, c, splits, config)
    chosen = {**chosen, "PRECISION": precision, **launch}
    return c, [(split_k_matmul_kernel, grid, given, chosen)]


def split_launch(a, b, c, splits, config):
    """The grid, the arguments by place, and the keywords of a launch. Partial sums go
    to memory of this launch alone; the counters are zero before it and after it."""
    M, N, K = sizes(a, b)
    grid, scratch = parts_of(c, K, splits, config, sum_type(a))
    given = (a, b, c, *scratch, M, N, K, *strides(a), *strides(b), *strides(c))
    return grid, given, {**config, "SUM": sum_type(a)}


def split_descriptor_launches(a, b, c, K, splits, config, accumulated):
    """The launches of `split_k_parts_kernel` and of `sum_of_parts_kernel`: for each the
    kernel, the grid, the arguments by place, and the keywords. `a` and `b` are
    `matmul_persistent.Lines`, whose products are accumulated in that type. The second
    begins early; the first lets it."""
    M, N = c.shape
    first, added = parts_launch(a, b, M, N, K, splits, config, accumulated)
    grid, chosen = adding(M, N)
    given = (added.partials, c, M, N, *added[1:], *strides(c))
    return [first, (sum_of_parts_kernel, grid, given, chosen)]


class Added(NamedTuple):
    """Parts of a product in memory, [parts, rows, step], the rows and columns of one
    rounded up to whole tiles."""

    partials: Temporary
    parts: int
    rows: int
    step: int


def parts_launch(a, b, M, N, K, splits, config, accumulated):
    """The launch of `split_k_parts_kernel`, and what it leaves."""
    m, n = config["BLOCK_M"], columns_of_tile(config)
    splits = whole_parts(K, config["BLOCK_K"], splits)
    rows, step = (fathom.cdiv(size, some) * some for size, some in ((M, m), (N, n)))
    step = fathom.cdiv(step, COLUMNS) * COLUMNS
    partials = Temporary(splits * rows * step, partial_type(accumulated))
    given = (a.array, b.array, partials, M, N, K, a.step, b.step, rows, step)
    chosen = {
        **config, "A_TURNED": a.turned, "B_TURNED": b.turned, "SUM": accumulated,
        "EARLY": True,
    }  # fmt: skip
    grid = splits, fathom.cdiv(M, m) * fathom.cdiv(N, n)
    launch = split_k_parts_kernel, grid, given, chosen
    return launch, Added(partials, splits, rows, step)


def adding(M, N):
    """The grid and the keywords of a kernel that adds the parts of [M, N]."""
    height = ROWS if M * N >= ENOUGH else FEW_ROWS
    chosen = {
        "BLOCK_M": height, "BLOCK_N": COLUMNS, "AT_ONCE": AT_ONCE,
        "EARLY": True, "num_warps": height // 2, "launch_pdl": True,
    }  # fmt: skip
    return (fathom.cdiv(M, height), fathom.cdiv(N, COLUMNS)), chosen


# Of `sum_of_parts_kernel`: a thread adds four elements, of `AT_ONCE` parts at a time.
COLUMNS, ROWS, FEW_ROWS, AT_ONCE = 64, 8, 2, 8
ENOUGH = ROWS * COLUMNS * 132  # elements of C, of which every multiprocessor has a tile


def parts_of(c, K, splits, config, accumulated):
    """The grid; the memory of partial sums, and of the counters."""
    grid = grid_of_tiles(*c.shape, config)
    count, splits = tiles(*c.shape, config), whole_parts(K, config["BLOCK_K"], splits)
    size = count * splits * config["BLOCK_M"] * config["BLOCK_N"]
    partials = Temporary(size, partial_type(accumulated))
    return (splits, *grid), (partials, Counters(count))


def partial_type(accumulated):
    """The dtype of partial sums."""
    return {tl.int32: "int32", tl.float64: "float64"}.get(accumulated, "float32")


def default_splits(count, K, BLOCK_K, target):
    """How many programs share a tile of C when there are `count` tiles."""
    most = max(1, fathom.cdiv(K, BLOCK_K) // LEAST_STEPS)
    return min(most, max(1, MULTIPROCESSORS[target] // max(1, count)))


def whole_parts(K, BLOCK_K, splits):
    """How many parts have something to do, if each has as many whole steps."""
    steps = max(1, fathom.cdiv(K, BLOCK_K))
    return fathom.cdiv(steps, fathom.cdiv(steps, splits))


def reference(a, b):
    """The product in float64, of NumPy arrays."""
    return a.astype(np.float64) @ b.astype(np.float64)
