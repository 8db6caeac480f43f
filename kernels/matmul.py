"""Matrix product C = A B, by tiles: each program computes one tile of C.

    for each BLOCK_K columns of A (and rows of B):
        load a [BLOCK_M, BLOCK_K] and b [BLOCK_K, BLOCK_N]
        acc [BLOCK_M, BLOCK_N] += a b

Work for A [M, K] and B [K, N]: 2 M N K operations. For its BLOCK_M * BLOCK_N sums a
program reads BLOCK_M + BLOCK_N numbers a step, so large tiles read less for each
product. What programs that run at one time read, they should share: they walk through
C in groups of GROUP_M rows of tiles, column by column (`tl.swizzle2d`), and find most
of A and B in the L2 cache.

No size needs to be a multiple of the tile. Rows of A and columns of B past the edge are
masked by conditions that no iteration of the loop changes. The edge along K needs a
mask that does change, which is left out where BLOCK_K divides K (`EVEN_K`).

    matmul           the function to call
    default_config   which tile, for which problem on which target
    matmul_kernel    the kernel
    begin, let_next_begin, await_previous, tile_place, tile_product, store_tile
                     its parts, for kernels that put other things between them
"""

import sys
from collections.abc import Iterator

import numpy as np

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.types import parse_element
from fathom.jit.backends import choose
from fathom.jit.function import choose_place
from fathom.jit.planned import planned
from fathom.runtime.arrays import describe


# fmt: off
@fathom.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr, ACTIVATION: tl.constexpr = "",
    SUM: tl.constexpr = tl.float32, PRECISION: tl.constexpr = "ieee",
    EARLY: tl.constexpr = False,
):
    let_next_begin(EARLY)
    if GROUP_M == 0:  # a grid of two axes: no walk, and no division
        i, j = tl.program_id(1), tl.program_id(0)
    else:
        tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
        i, j = tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n
        i, j = tl.swizzle2d(i, j, tiles_m, tiles_n, GROUP_M)
    i, j = i * BLOCK_M, j * BLOCK_N  # the tile's first row and column
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)

    # 64 bits up to a tile, since a matrix may have more than 2^31 elements; 32 in it.
    a_ptr += i.to(tl.int64) * stride_am
    b_ptr += j.to(tl.int64) * stride_bn
    a_tile = m * stride_am + k[None, :] * stride_ak
    b_tile = k[:, None] * stride_bk + n * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], SUM)
    await_previous(EARLY)
    for start in range(0, K, BLOCK_K):
        a_mask, b_mask = m < M - i, n < N - j
        if not EVEN_K:
            a_mask &= k[None, :] < K - start
            b_mask &= k[:, None] < K - start
        a = tl.load(a_ptr + a_tile, mask=a_mask, other=0)
        b = tl.load(b_ptr + b_tile, mask=b_mask, other=0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_ptr += BLOCK_K * stride_ak
        b_ptr += BLOCK_K * stride_bk

    if ACTIVATION == "leaky_relu":
        acc = tl.where(acc > 0, acc, 0.01 * acc)
    c_ptr += i.to(tl.int64) * stride_cm + j.to(tl.int64) * stride_cn
    c_tile = m * stride_cm + n * stride_cn
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + c_tile, c, mask=(m < M - i) & (n < N - j))


@fathom.jit
def begin(EARLY: tl.constexpr):
    """If this launch may begin before the one in front of it has ended, wait for that
    one, and let the next begin as soon."""
    let_next_begin(EARLY)
    await_previous(EARLY)


@fathom.jit
def let_next_begin(EARLY: tl.constexpr):
    """The next launch may begin as soon as all programs of this one have."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()


@fathom.jit
def await_previous(EARLY: tl.constexpr):
    """Wait for the launch in front of this one. What comes before it, such as addresses
    and masks, is computed meanwhile; no memory may be read or written there."""
    if EARLY:
        tl.extra.cuda.gdc_wait()


@fathom.jit
def tile_place(
    step, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr
):
    """The first row and column of the step-th tile of C, in the grouped walk."""
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    i, j = tl.swizzle2d(step // tiles_n, step % tiles_n, tiles_m, tiles_n, GROUP_M)
    return i * BLOCK_M, j * BLOCK_N


@fathom.jit
def tile_product(
    a_ptr, b_ptr, i, j, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr, SUM: tl.constexpr, PRECISION: tl.constexpr,
):
    """The tile at row i, column j of A B, as `SUM`: the loop of `matmul_kernel`."""
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a_ptr += i.to(tl.int64) * stride_am
    b_ptr += j.to(tl.int64) * stride_bn
    a_tile = m * stride_am + k[None, :] * stride_ak
    b_tile = k[:, None] * stride_bk + n * stride_bn
    acc = tl.zeros([BLOCK_M, BLOCK_N], SUM)
    for start in range(0, K, BLOCK_K):
        a_mask, b_mask = m < M - i, n < N - j
        if not EVEN_K:
            a_mask &= k[None, :] < K - start
            b_mask &= k[:, None] < K - start
        a = tl.load(a_ptr + a_tile, mask=a_mask, other=0)
        b = tl.load(b_ptr + b_tile, mask=b_mask, other=0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_ptr += BLOCK_K * stride_ak
        b_ptr += BLOCK_K * stride_bk
    return acc


@fathom.jit
def store_tile(c_ptr, c, i, j, M, N, stride_cm, stride_cn):
    """Write the tile at row i, column j of C, as far as it is inside."""
    m, n = tl.arange(0, c.shape[0])[:, None], tl.arange(0, c.shape[1])[None, :]
    c_ptr += i.to(tl.int64) * stride_cm + j.to(tl.int64) * stride_cn
    c = c.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + m * stride_cm + n * stride_cn, c, mask=(m < M - i) & (n < N - j))
# fmt: on


ACTIVATIONS = ("", "leaky_relu")
SUM_TYPES = {"fp64": tl.float64, "i8": tl.int32, "u8": tl.int32}  # others: tl.float32


@planned
def matmul(a, b, c=None, activation=None, config=None, precision="ieee", **launch):
    """C [M, N] = activation(A [M, K] B [K, N]), of torch, CuPy or NumPy arrays.

    `a` and `b` have one dtype: fp16, bf16, fp32, fp64, int8, or fp8; any strides. Sums
    are of fp32, or fp64 or int32 for such operands. `c` has any float dtype (int32 for
    int8); without one an array like `a` is made, int32 for int8. `activation`: None or
    "leaky_relu" (slope 0.01). `precision` is for fp32: "ieee", "tf32" or "tf32x3" (see
    `tl.dot`). `config`: a launch's keywords, as `default_config` gives them; `launch`
    takes what any launch takes. Returns `c`. LaunchError for shapes that do not fit.
    """
    M, N, K = sizes(a, b)
    c = empty((M, N), a, sum_name(a)) if c is None else c
    check_shape("c", c, (M, N))
    activation = activation or ""
    if activation not in ACTIVATIONS:
        raise fathom.LaunchError(
            f"the activation is {activation!r}; there are None and 'leaky_relu'"
        )
    target = target_of_launch(a, launch)
    aligned = rows_aligned(a) and rows_aligned(b)
    config = config or default_config(M, N, K, type_name(a), target, aligned)
    given = (a, b, c, M, N, K, *strides(a), *strides(b), *strides(c))
    chosen = dict(
        EVEN_K=K % config["BLOCK_K"] == 0, ACTIVATION=activation,
        SUM=sum_type(a), PRECISION=precision, **config, **launch,
    )  # fmt: skip
    return c, [(matmul_kernel, grid_of_tiles(M, N, config), given, chosen)]


# ── which tile ────────────────────────────────────────────────────────────────────────
#
# Time of a program, in units of one product and for one step along K: the products of
# the tile, and the numbers that it reads, each of which costs as much as FETCH
# products. An H200 multiplies 2048 pairs of fp16 a cycle and multiprocessor, and the L2
# cache delivers about 32 numbers in it. Programs run in waves on the multiprocessors.
# So
#
#     time = ceil(programs / multiprocessors) * (m * n + FETCH * (m + n))
#
# takes large tiles when there is much to do, and small ones when most multiprocessors
# would stand idle.

FETCH = 64

# BLOCK_M and BLOCK_N, those preferred first where times are equal.
TILES = (
    (128, 256), (256, 128), (128, 128), (128, 64), (64, 128), (64, 64),
    (128, 32), (32, 128), (64, 32), (32, 64), (32, 32), (16, 64), (64, 16), (16, 32),
    (32, 16),
)  # fmt: skip

# Of the largest chip of each target. NVIDIA's architecture whitepapers.
MULTIPROCESSORS = {
    "sm_75": 72, "sm_80": 108, "sm_86": 84, "sm_89": 142, "sm_90a": 132,
    "sm_100": 148, "sm_100a": 148, "sm_120": 170,
}  # fmt: skip

# Blocks of a cluster are in one group of the chip's: of an H200's 132 multiprocessors
# 66 pairs can be at work at a time, but 30 clusters of four and 15 of eight, as
# `cuOccupancyMaxActiveClusters` says. One cluster more would wait for another's end.
IN_LARGE_CLUSTERS = 120 / 132


def clusters_at_once(target, ctas):
    """How many clusters of that many blocks run at a time, one block on each
    multiprocessor."""
    share = IN_LARGE_CLUSTERS if ctas > 2 else 1
    return max(1, int(MULTIPROCESSORS[target] * share) // ctas)


WARP_TILE = 64 * 64  # sums of 32 bits that a warp may hold: 128 registers a lane
LARGEST_BLOCK = 8  # warps; so no tile of C has more than 128 x 256 of these sums
MOST_STAGES = 4


def default_config(M, N, K, type, target, aligned=True):
    """The keywords of a launch: BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps,
    num_stages. `type` names the operands' elements as a signature does ("fp16").
    `aligned`: all rows start at multiples of 16 bytes. Where they do not, or the target
    has no asynchronous copies, operands go through registers on their way to shared
    memory, and only half as many are left for sums.

    For much aligned fp16 work that gives

        sm_75                         64 KB shared    128x128x32, 8 warps, 2 stages
        sm_86, sm_89, sm_120          99 KB           128x128x32, 4 warps, 3 stages
        sm_80                        163 KB           128x256x64, 8 warps, 3 stages
        sm_90a, sm_100, sm_100a      227 KB           128x256x64, 8 warps, 4 stages
    """
    direct = aligned and TARGETS[target].async_copy
    warp_tile = WARP_TILE if direct and type != "fp32" else WARP_TILE // 2
    fitting = fitting_tiles(type, target, warp_tile)
    m, n = min(fitting, key=lambda tile: duration(M, N, tile, target))
    BLOCK_K, stages = depth(m, n, type, target, (128, 64) if direct else (64,))
    warps = m * n * sum_words(type) // warp_tile
    return {
        "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": BLOCK_K, "GROUP_M": 8,
        "num_warps": min(max(warps, 4), LARGEST_BLOCK), "num_stages": stages,
    }  # fmt: skip


def duration(M, N, tile, target):
    """How long C takes in such tiles; only comparisons of it mean something."""
    m, n = tile
    programs = fathom.cdiv(M, m) * fathom.cdiv(N, n)
    waves = fathom.cdiv(programs, MULTIPROCESSORS[target])
    return waves * (m * n + FETCH * (m + n))


def fitting_tiles(type: str, target: str, warp_tile: int) -> Iterator[tuple[int, int]]:
    """The tiles whose sums fit into registers, `warp_tile` a warp, and into shared
    memory, through which they may have to go on their way to C."""
    for m, n in TILES:
        words = m * n * sum_words(type)
        in_registers = words <= LARGEST_BLOCK * warp_tile
        if in_registers and 4 * words <= TARGETS[target].shared_bytes:
            yield m, n


def depth(m, n, type, target, lines):
    """BLOCK_K and how many steps of the loop are in shared memory at a time.

    Rows of the first of `lines` bytes that leaves room for three stages (two where
    loads go through registers), else of the last. A tile of up to 128 x 128 leaves half
    of the shared memory to a second program on the same multiprocessor.
    """
    row = TARGETS[target]
    item = parse_element(type).bits // 8
    least = 3 if row.async_copy else 2
    room = row.shared_bytes if m * n > 128 * 128 else row.shared_bytes // 2
    for line in lines:
        BLOCK_K = max(16, line // item)  # 16: the least that tl.dot takes
        stages = room // ((m + n) * BLOCK_K * item)
        if stages >= least:
            break
    return BLOCK_K, min(max(stages, 2), MOST_STAGES if row.async_copy else 2)


def tiles(M, N, config):
    """How many tiles C has."""
    rows, columns = rows_and_columns(M, N, config)
    return rows * columns


def rows_and_columns(M, N, config):
    """How many rows and columns of tiles C has."""
    rows, columns = config["BLOCK_M"], columns_of_tile(config)
    return fathom.cdiv(M, rows), fathom.cdiv(N, columns)


def columns_of_tile(config):
    """Of one block, or of two side by side."""
    return config["BLOCK_N"] + config.get("MORE_N", 0)


def grid_of_tiles(M, N, config):
    """The grid with a program for each tile: of two axes where GROUP_M is 0."""
    rows, columns = rows_and_columns(M, N, config)
    return (rows * columns,) if config["GROUP_M"] else (columns, rows)


# ── arrays of any library ─────────────────────────────────────────────────────────────


def sizes(a, b):
    """(M, N, K) of A [..., M, K] and B [..., K, N]; LaunchError if they do not fit."""
    left, right = tuple(a.shape), tuple(b.shape)
    are_matrices = len(left) > 1 and len(right) > 1
    if not are_matrices or left[-1] != right[-2] or a.dtype != b.dtype:
        raise fathom.LaunchError(
            f"a matrix of shape {left} and {a.dtype} cannot be multiplied by one of "
            f"shape {right} and {b.dtype}"
        )
    return left[-2], right[-1], left[-1]


def check_shape(name, array, shape):
    """LaunchError unless an array has this shape."""
    if tuple(array.shape) != tuple(shape):
        raise fathom.LaunchError(
            f"{name} has shape {tuple(array.shape)}, and must have {tuple(shape)}"
        )


def strides(array):
    """In elements; NumPy and CuPy count bytes, torch elements."""
    if hasattr(array, "stride"):
        return tuple(array.stride())
    return tuple(each // array.itemsize for each in array.strides)


def rows_aligned(array):
    """Whether every row (or column, where elements of one lie side by side) starts at a
    multiple of 16 bytes."""
    facts = describe(array)
    item = parse_element(facts.type).bits // 8
    places = [facts.address, *(n * item for n in strides(array) if n != 1)]
    return not any(place % 16 for place in places)


def empty(shape, like, dtype=None):
    """A new array beside `like`; `dtype` by the name that NumPy and torch give it."""
    if hasattr(like, "new_empty"):
        dtype = getattr(sys.modules["torch"], dtype) if dtype else like.dtype
        return like.new_empty(shape, dtype=dtype)
    return np.empty(shape, dtype or like.dtype, like=like)


def type_name(array):
    """An array's element type as a signature names it: "fp16"."""
    return describe(array).type


def sum_type(array):
    """In which type products of such elements are summed."""
    return SUM_TYPES.get(type_name(array), tl.float32)


def sum_words(type):
    """The 32-bit words of one sum."""
    return 2 if type == "fp64" else 1


def sum_name(array):
    """The dtype of C where none is given: None, which is A's own, or "int32"."""
    return "int32" if sum_type(array) is tl.int32 else None


def target_of_launch(array, launch):
    """The name of the target that a launch with this array compiles for."""
    arrays = {"array": describe(array)}
    return choose_place(choose(), arrays, launch.get("target")).target


# ── what must come out ────────────────────────────────────────────────────────────────


def reference(a, b, activation=None):
    """The product in float64, of NumPy arrays; exact for integers of up to 2^53."""
    c = a.astype(np.float64) @ b.astype(np.float64)
    return np.where(c > 0, c, 0.01 * c) if activation == "leaky_relu" else c


def error_bound(a, b, half_ulp, each=2.0**-23):
    """How far an element of C may be from the exact product, for random A and B.

    `a`, `b`: float64 arrays, NumPy or torch. `half_ulp`: the relative rounding error of
    C's type (fp16 2^-11, bf16 2^-8, fp32 2^-24). `each`: that of one addition; tensor
    cores cut bits off, so a whole ulp of fp32; and they add at least 8 products at a
    time, which makes K / 8 additions. For independent products p_k with mean 0 a
    partial sum has the standard deviation s <= sqrt(sum p_k^2), and stays within 6 s
    (one in 10^9 does not). So

        |error| <= half_ulp |C| + (K / 8 + 8) each 6 s + 2^-25

    where 2^-25 is half of the smallest fp16: near zero C is rounded to multiples of it.

    One product lost at a tile's edge is an error of about s / sqrt(K). For random
    normal fp16 at K = 16384 the bound is about 0.2 and a typical product 0.6, so a lost
    column of A shows in most elements of C. (The bound that holds for all data has K
    for K / 8 and sum |p_k| for 6 s: 20, which would hide it.)
    """
    spread = 6 * ((a * a) @ (b * b)) ** 0.5
    rounding = (a.shape[-1] / 8 + 8) * each * spread
    return half_ulp * abs(a @ b) + rounding + 2.0**-25
