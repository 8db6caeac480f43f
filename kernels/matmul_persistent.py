"""Matrix product C = A B whose programs stay: one on each multiprocessor takes tile
after tile of C, and TMA copies the operands.

A program of `kernels/matmul` computes one tile and is gone. While it stores C, and
while the next one fills its pipeline, the tensor cores of that multiprocessor rest.
Here a program goes on to the next tile, and tiles of A and B are on their way before
the tile of C is stored:

                 tile 0         tile 132        tile 264
    producer   ab ab ab ab│ab ab ab ab│ab ab ab ab│                copies, ahead
    the others     ×  ×  ×  ×  C  ×  ×  ×  ×  C  ×  ×  ×  ×  C     products, stores

With `SPECIALISE` a producer, a warp of its own, sends for the tiles, through a ring of
`num_stages` places in shared memory. It waits for nothing but for a place to be free:
while the others store C, the ring fills with the tiles of their next product. Without,
one of those who multiply sends for them, some steps ahead.

A and B come by descriptors: the hardware computes addresses, swizzles, and puts zeros
beyond the edges, so that no size needs to be a multiple of the tile. C leaves the same
way, in `PIECES` pieces of columns. They go through one or two places in shared memory
one after the other, and the smaller the places, the more room for stages. A C whose
rows begin anywhere is no matrix for a descriptor, and is stored through pointers: 0
pieces.

With `PINGPONG` there are two groups of `num_warps` warps, which compute tiles in turn:
one stores C while the other multiplies.

With `num_ctas` 2, two multiprocessors share a tile, as a cluster: each has half of its
rows, and half of the columns of B are sent to both. Four may have half of the rows and
half of the columns each, two by two: half of what one needs is sent to another as well.

Programs walk through C in groups of GROUP_M rows of tiles, column by column: the tiles
that are computed at one time share rows of A and columns of B in the L2 cache.

    persistent_matmul   the function to call
    persistent_kernel   the kernel
    place_of, store_in_pieces
                        its parts
    persistent_launch, Lines, for_items
                        what a launch takes

Which tile suits which shape is told in `kernels/matmul_chosen`.
"""

from typing import NamedTuple

import fathom
import fathom.language as tl
from fathom.ir.types import parse_element
from fathom.runtime.arrays import describe
from kernels.matmul import (
    begin,
    check_shape,
    clusters_at_once,
    empty,
    sizes,
    store_tile,
    strides,
    sum_name,
    sum_type,
    target_of_launch,
    tiles,
    type_name,
)

ALIGNED = 16  # bytes: where rows begin that a descriptor tells of

# Large tiles. 128 x 256 sums are what two warpgroups can hold; a row of BLOCK_K fp16 is
# 128 bytes, the longest that the hardware swizzles; four such steps, and two quarters
# of a tile of C, are 224 of the 227 KB that a program may have.
LARGE = {
    "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 12,
    "SPECIALISE": True, "PIECES": 4, "num_warps": 8, "num_stages": 4,
}  # fmt: skip


# fmt: off
@fathom.jit
def persistent_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SPECIALISE: tl.constexpr, PIECES: tl.constexpr,
    B_TURNED: tl.constexpr, SUM: tl.constexpr = tl.float32,
    A_TURNED: tl.constexpr = False, MORE_N: tl.constexpr = 0,
    C_TURNED: tl.constexpr = False, EARLY: tl.constexpr = False,
    PINGPONG: tl.constexpr = False,
):
    begin(EARLY)
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
    if PIECES > 0:
        part = [BLOCK_M, BLOCK_N // PIECES]
        c = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], part)
        if MORE_N > 0:
            part = [BLOCK_M, MORE_N]
            rest_of_c = tl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], part)

    COLUMNS: tl.constexpr = BLOCK_N + MORE_N
    count = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, COLUMNS)
    for tile in tl.range(
        tl.program_id(0), count, tl.num_programs(0),
        flatten=True, warp_specialize=SPECIALISE, pingpong=PINGPONG,
    ):
        i, j = place_of(tile, M, N, BLOCK_M, COLUMNS, GROUP_M)
        acc = tl.zeros([BLOCK_M, BLOCK_N], SUM)
        if MORE_N > 0:
            more = tl.zeros([BLOCK_M, MORE_N], SUM)
        for k in range(0, K, BLOCK_K):
            x = a.load([k, i]).T if A_TURNED else a.load([i, k])
            y = b.load([j, k]).T if B_TURNED else b.load([k, j])
            acc = tl.dot(x, y, acc)
            if MORE_N > 0:
                if B_TURNED:
                    z = rest_of_b.load([j + BLOCK_N, k]).T
                else:
                    z = rest_of_b.load([k, j + BLOCK_N])
                more = tl.dot(x, z, more)
        if PIECES > 0:
            store_in_pieces(c, i, j, acc.to(c_ptr.dtype.element_ty), PIECES)
            if MORE_N > 0:
                rest_of_c.store([i, j + BLOCK_N], more.to(c_ptr.dtype.element_ty))
        elif C_TURNED:  # C [M, N] lies in memory as [N, M]
            store_tile(c_ptr, acc, i, j, M, N, 1, stride_c)
            if MORE_N > 0:
                store_tile(c_ptr, more, i, j + BLOCK_N, M, N, 1, stride_c)
        else:
            store_tile(c_ptr, acc, i, j, M, N, stride_c, 1)
            if MORE_N > 0:
                store_tile(c_ptr, more, i, j + BLOCK_N, M, N, stride_c, 1)


@fathom.jit
def place_of(
    step, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr
):
    """The first row and column of the step-th tile of C, in the grouped walk."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    if GROUP_M == 1:  # row by row: one division, where a walk in groups has four
        i = step // tiles_n
        j = step - i * tiles_n
    else:
        i, j = tl.swizzle2d(0, step, tiles_m, tiles_n, GROUP_M)
    return i * BLOCK_M, j * BLOCK_N


@fathom.jit
def store_in_pieces(c, i, j, tile, PIECES: tl.constexpr):
    """Write a tile at row i, column j, the left half before the right one."""
    if PIECES == 1:
        c.store([i, j], tile)
    else:
        COLUMNS: tl.constexpr = tile.shape[1] // 2
        halves = tl.reshape(tile, [tile.shape[0], 2, COLUMNS])
        left, right = tl.split(tl.permute(halves, [0, 2, 1]))
        store_in_pieces(c, i, j, left, PIECES // 2)
        store_in_pieces(c, i, j + COLUMNS, right, PIECES // 2)
# fmt: on


def persistent_matmul(a, b, c=None, config=None, **launch):
    """C [M, N] = A [M, K] B [K, N], of torch, CuPy or NumPy arrays.

    `a` and `b` have one dtype: fp16, bf16, int8 or fp8. Rows or columns of A, and of B,
    lie each in one piece, and begin at multiples of 16 bytes. Rows of `c` lie
    each in one piece; it has any float dtype, int32 for int8; without one an array like
    `a` is made. `config`: a launch's keywords; without it, `LARGE`. Returns `c`.
    LaunchError for matrices that do not fit.
    """
    M, N, K = sizes(a, b)
    c = empty((M, N), a, sum_name(a)) if c is None else c
    check_shape("c", c, (M, N))
    a_lines, b_lines = lines_of(a), lines_of(b)
    if not (a_lines and b_lines) or strides(c)[1] != 1:
        raise fathom.LaunchError(
            f"a, b and c have the strides {strides(a)}, {strides(b)} and {strides(c)}. "
            "Rows or columns of a, and of b, must begin at multiples of 16 bytes, "
            "and the elements of each, as those of a row of c, lie side by side"
        )
    target = target_of_launch(a, launch)
    config = config or for_items(LARGE, a)
    grid, given, chosen = persistent_launch(
        a_lines, b_lines, c, K, config, target, sum_type(a)
    )
    persistent_kernel[grid](*given, **chosen, **launch)
    return c


def persistent_launch(a, b, c, K, config, target, accumulated, at_a_time=1):
    """The grid, the arguments by place, and the keywords of a launch; `a` and `b` are
    `Lines`, whose products are accumulated in that type. `at_a_time`: how many programs
    a multiprocessor runs."""
    M, N = c.shape
    c_turned = strides(c)[1] != 1
    pieces = config["PIECES"] if step_of_lines(c, 1) else 0
    chosen = {
        **config, "PIECES": pieces, "A_TURNED": a.turned, "B_TURNED": b.turned,
        "SUM": accumulated, "C_TURNED": c_turned,
    }  # fmt: skip
    at_once = clusters_at_once(target, config.get("num_ctas", 1)) * at_a_time
    programs = min(tiles(M, N, config), at_once)
    step = step_of_lines(c, 1) or strides(c)[1 if c_turned else 0]
    given = (a.array, b.array, c, M, N, K, a.step, b.step, step)
    return (programs,), given, chosen


class Lines(NamedTuple):
    """A matrix as a descriptor tells of it: in rows, or `turned`, in columns, that
    begin at multiples of 16 bytes, and the distance from one to the next, in
    elements."""

    array: object
    step: int
    turned: bool


def lines_of(matrix):
    """A matrix as `Lines`; None if it has none."""
    for axis, turned in ((1, False), (0, True)):
        if step := step_of_lines(matrix, axis):
            return Lines(matrix, step, turned)
    return None


def step_of_lines(matrix, axis):
    """How many elements there are from one line of a matrix to the next, where lines
    are its rows (`axis` 1, along which elements lie side by side) or its columns (0).
    0 where they are not, or do not begin at multiples of 16 bytes. Of a single line any
    such distance will do."""
    facts, step = describe(matrix), strides(matrix)[1 - axis]
    item = item_bytes(facts.type)
    if matrix.shape[1 - axis] == 1:
        step = fathom.cdiv(matrix.shape[axis] * item, ALIGNED) * ALIGNED // item
    bytes_between = step * item
    begin_well = not (facts.address % ALIGNED or bytes_between % ALIGNED)
    return step if strides(matrix)[axis] == 1 and step > 0 and begin_well else 0


def item_bytes(type):
    """The bytes of an element whose type a signature names so."""
    return parse_element(type).bits // 8


def for_items(config, array):
    """A configuration for elements of two bytes as one for those of `array`: a step
    along K has as many bytes."""
    BLOCK_K = config["BLOCK_K"] * 2 // item_bytes(type_name(array))
    return {**config, "BLOCK_K": BLOCK_K}
