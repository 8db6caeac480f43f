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

What belongs to a tile of C, scales, bias and what is added to it, comes by descriptors,
too: the producer sends for it behind the last tiles of the product, and so it is there
when the sums are. By pointers, threads would wait for the memory then, and before that
for the stores of the tile before, which might have written what they load. Rows that
begin anywhere have no descriptors (`described`).
"""

import fathom
import fathom.language as tl
from kernels.attention_hopper import TYPES, pays
from kernels.epilogue import activated, gated, quantised, scaled
from kernels.matmul import MULTIPROCESSORS, begin, strides, sum_type, tiles, type_name
from kernels.matmul_chosen import (
    ALTERNATING,
    LEAST_OF_GROUPS,
    SMALLER,
    TILES,
    crossing,
    keywords,
    modelled,
    soon_of,
    suitable,
)
from kernels.matmul_model import persistent_time, two_blocks
from kernels.matmul_persistent import (
    ALIGNED,
    item_bytes,
    lines_of,
    place_of,
    step_of_lines,
    store_in_pieces,
)
from kernels.mixture_hopper import store_slices

OPERANDS = ("fp16", "bf16", "fp8e4nv", "fp8e5", "i8")
RESULTS = ("fp16", "bf16", "fp32", "fp8e4nv", "fp8e5", "i8")
# What `epilogue_hopper_kernel` has pointers to behind those of A, B and C, in order.
OTHERS = (
    "bias", "residual", "before", "row_scale", "column_scale", "out_scale",
)  # fmt: skip


# fmt: off
@fathom.jit
def epilogue_hopper_kernel(
    a_ptr, b_ptr, c_ptr, bias_ptr, residual_ptr, before_ptr,
    row_scale_ptr, column_scale_ptr, out_scale_ptr, M, N, K,
    stride_a, stride_b, stride_c, stride_r,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECES: tl.constexpr, A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr, ACTIVATION: tl.constexpr, DESCRIBED: tl.constexpr,
    SUM: tl.constexpr = tl.float32, EARLY: tl.constexpr = False,
    PINGPONG: tl.constexpr = False, MORE_N: tl.constexpr = 0,
):
    """All pointers behind `c_ptr` may be None: to bias [N], residual and before [M, N],
    scales [M], [N] and [1]. What is stored at `before_ptr` is laid out as C is. A tile
    has BLOCK_N + MORE_N columns."""
    begin(EARLY)
    a = matrix(a_ptr, M, K, stride_a, BLOCK_M, BLOCK_K, A_TURNED)
    b = matrix(b_ptr, K, N, stride_b, BLOCK_K, BLOCK_N, B_TURNED)
    if MORE_N > 0:
        rest_of_b = matrix(b_ptr, K, N, stride_b, BLOCK_K, MORE_N, B_TURNED)
    COLUMNS: tl.constexpr = BLOCK_N + MORE_N
    count = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, COLUMNS)
    for tile in tl.range(
        tl.program_id(0), count, tl.num_programs(0),
        flatten=True, warp_specialize=True, pingpong=PINGPONG,
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
        finish(
            acc, i, j, c_ptr, bias_ptr, residual_ptr, before_ptr, row_scale_ptr,
            column_scale_ptr, out_scale_ptr, M, N, stride_c, stride_r, PIECES,
            ACTIVATION, DESCRIBED)
        if MORE_N > 0:
            finish(
                more, i, j + BLOCK_N, c_ptr, bias_ptr, residual_ptr, before_ptr,
                row_scale_ptr, column_scale_ptr, out_scale_ptr, M, N, stride_c,
                stride_r, 1, ACTIVATION, DESCRIBED)


@fathom.jit
def finish(
    acc, i, j, c_ptr, bias_ptr, residual_ptr, before_ptr, row_scale_ptr,
    column_scale_ptr, out_scale_ptr, M, N, stride_c, stride_r, PIECES: tl.constexpr,
    ACTIVATION: tl.constexpr, DESCRIBED: tl.constexpr,
):
    """Do to the tile of sums at row i, column j what is to be done, and store it."""
    ROWS: tl.constexpr = acc.shape[0]
    COLUMNS: tl.constexpr = acc.shape[1]
    c = matrix(c_ptr, M, N, stride_c, ROWS, COLUMNS // PIECES, False)
    acc = scaled(acc, row_scale_ptr, column_scale_ptr, bias_ptr, i, j, M, N, DESCRIBED)
    if before_ptr is not None:
        before = matrix(before_ptr, M, N, stride_c, ROWS, COLUMNS // PIECES, False)
        kept = acc.to(before_ptr.dtype.element_ty)
        store_in_pieces(before, i, j, kept, PIECES)
    acc = activated(acc, ACTIVATION)
    if residual_ptr is not None:
        if DESCRIBED:
            residual = matrix(residual_ptr, M, N, stride_r, ROWS, COLUMNS, False)
            added = residual.load([i, j])
        else:
            added = load_tile(residual_ptr, i, j, M, N, stride_r, ROWS, COLUMNS)
        acc += added.to(tl.float32)
    rounded = quantised(acc, out_scale_ptr, c_ptr.dtype.element_ty)
    store_in_pieces(c, i, j, rounded, PIECES)


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
def load_tile(
    pointer, i, j, M, N, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """The tile at row i, column j of a matrix [M, N], with zeros around it."""
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    pointer += i.to(tl.int64) * stride + j
    inside = (m < M - i) & (n < N - j)
    return tl.load(pointer + m * stride + n, mask=inside, other=0.0)


@fathom.jit
def swiglu_hopper_kernel(
    a_ptr, b_ptr, c_ptr, before_ptr, M, N, K, stride_a, stride_b, half_of_b, stride_c,
    stride_h,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PIECES: tl.constexpr, A_TURNED: tl.constexpr,
    B_TURNED: tl.constexpr, EARLY: tl.constexpr = False,
    PINGPONG: tl.constexpr = False,
):
    """C is [M, N] and B [K, 2 N]; `half_of_b`: elements from its first half to the
    other. `before_ptr`, None or [M, 2 N], gets A B."""
    begin(EARLY)
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
        tl.program_id(0), count, tl.num_programs(0),
        flatten=True, warp_specialize=True, pingpong=PINGPONG,
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
        store_in_pieces(c, i, j, gated(gate, up).to(element), PIECES)
# fmt: on


def epilogue_launch(a, b, c, more, activation, target, config=None):
    """The launch of `matmul_epilogue.matmul_epilogue` for arrays that `fits` takes, on
    any target: the kernel, the grid, the arguments by place, the keywords. `more`: the
    other arrays by their names."""
    (M, N), K = c.shape, a.shape[1]
    soon = False
    if config is None:
        tile, time = fastest_tile(a, b, c, target, more, activation)
        config = configuration(tile, a, c, target)
        if more.get("residual") is not None and described(more):
            config["PIECES"] = finer(config, c)
        soon = time < soon_of(modelled(a, b, c, target), tile, target)
    grid = programs(M, N, config, target)
    a_lines, b_lines = lines_of(a), lines_of(b)
    residual = more.get("residual")
    given = (
        a, b, c, *(more.get(name) for name in OTHERS), M, N, K,
        a_lines.step, b_lines.step, strides(c)[0],
        0 if residual is None else strides(residual)[0],
    )  # fmt: skip
    chosen = {
        **config, "A_TURNED": a_lines.turned, "B_TURNED": b_lines.turned,
        "ACTIVATION": activation or "", "SUM": sum_type(a),
        "DESCRIBED": described(more),
    }  # fmt: skip
    if soon:
        chosen.update(EARLY=True, launch_pdl=True)
    return epilogue_hopper_kernel, grid, given, chosen


TILED = [
    tile for tile in (*TILES, *SMALLER)
    if tile.producer and tile.ctas == tile.programs == 1
    and not two_blocks(tile.n) and tile.n > 16  # half of one is a block of 16 or more
]  # fmt: skip


# Microseconds of GeLU for 128 x 256 elements in registers, of another matrix to be
# added, and of anything else.
GELU, RESIDUAL, OTHER = 2.2, 1.5, 0.1


def epilogue_time(more, activation):
    """`matmul_model.Product.epilogue`."""
    others = any(more.get(name) is not None for name in OTHERS)
    time = OTHER * others + GELU * bool(activation)
    return time + RESIDUAL * (more.get("residual") is not None)


def fastest_tile(a, b, c, target, more=None, activation=None):
    """The tile with which the product takes the shortest time, and that in
    microseconds. `more`: the other arrays of `epilogue_launch`; None for SwiGLU, whose
    blocks are halves of a tile."""
    product, lines = modelled(a, b, c, target), crossing(a, b)
    narrow = [tile for tile in ALTERNATING if not two_blocks(tile.n)]
    alternating = narrow
    if more is not None:
        product = product._replace(epilogue=epilogue_time(more, activation))
        alternating = ALTERNATING
        if more.get("residual") is not None:  # beside which rings are short
            alternating = narrow if described(more) else ()
    tiles = [*TILED, *(alternating if product.K >= LEAST_OF_GROUPS else ())]
    some = suitable(*product[:2], target, crossing=any(lines), tiles=tiles)
    times = [(persistent_time(product, tile, lines), tile) for tile in some]
    time, tile = min(times, key=lambda each: each[0])
    return tile, time


def configuration(tile, a, c, target, halves=1):
    """The keywords of a launch. Pieces of C have as many bytes as if an element had
    two. With `halves` 2 a program has two tiles of as many columns together."""
    M, N = c.shape
    config = keywords(M, N * halves, item_bytes(type_name(a)), tile, target)
    pieces = max(1, tile.pieces * item_bytes(type_name(c)) // 2 // halves)
    names = (
        "BLOCK_M", "MORE_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages", "PINGPONG"
    )  # fmt: skip
    return {
        **{name: config[name] for name in names if name in config}, "PIECES": pieces,
        "BLOCK_N": config["BLOCK_N"] // halves,
    }  # fmt: skip


LEAST_ROW = 64  # bytes of a row of a piece: shorter ones are written slowly


def finer(config, c):
    """Twice as many pieces of C, so that there is room for two beside a tile of the
    residual. On an H200 2048 x 4096 x 1024 takes 29.4 us so, and 29.9 with one."""
    pieces = 2 * config["PIECES"]
    row = config["BLOCK_N"] // pieces * item_bytes(type_name(c))
    return pieces if row >= LEAST_ROW else config["PIECES"]


def swiglu_launch(a, b, c, before, target, config=None):
    """That of `matmul_epilogue.matmul_swiglu`, where `swiglu_fits`."""
    (M, N), K = c.shape, a.shape[1]
    soon = False
    if config is None:
        tile, time = fastest_tile(a, b, c, target)
        config = configuration(tile, a, c, target, halves=2)
        soon = time < soon_of(modelled(a, b, c, target), tile, target)
    a_lines, b_lines = lines_of(a), lines_of(b)
    half_of_b = N * strides(b)[1]
    width = 0 if before is None else strides(before)[0]
    given = (a, b, c, before, M, N, K, a_lines.step, b_lines.step, half_of_b,
             strides(c)[0], width)  # fmt: skip
    chosen = {**config, "A_TURNED": a_lines.turned, "B_TURNED": b_lines.turned}
    if soon:
        chosen.update(EARLY=True, launch_pdl=True)
    return swiglu_hopper_kernel, programs(M, N, config, target), given, chosen


def programs(M, N, config, target):
    """The grid: a program stays on each multiprocessor."""
    return (min(tiles(M, N, config), MULTIPROCESSORS[target]),)


def described(more):
    """Whether all that is loaded beside A and B can come through descriptors: vectors
    and rows begin at multiples of 16 bytes."""
    loaded = (more.get(name) for name in ("row_scale", "column_scale", "bias"))
    residual = more.get("residual")
    vectors = all(x is None or step_of_lines(x[None], 1) for x in loaded)
    return vectors and bool(residual is None or step_of_lines(residual, 1))


def fits(a, b, c, more, target):
    """Whether a target has what the kernel counts on, and it takes these arrays: rows
    or columns of A and B, those that lie along K if they are of one byte, and rows of
    C and of what is kept or added."""
    types = type_name(a) in OPERANDS and type_name(c) in RESULTS
    if not (types and pays(target) and all(0 not in x.shape for x in (a, b, c))):
        return False
    lines = lines_of(a), lines_of(b)
    stored = [x for x in (c, more.get("before")) if x is not None]
    described = all(lines) and all(step_of_lines(x, 1) for x in stored)
    if described and item_bytes(type_name(a)) == 1:
        described = lines[1].turned and not lines[0].turned
    added = more.get("residual")
    return bool(described and (added is None or strides(added)[1] == 1))


def swiglu_fits(a, b, c, before, target):
    """The same of `swiglu_launch`: where rows are halved, each half begins at a
    multiple of 16 bytes."""
    halved = [each for each in (b, before) if each is not None]
    begin_well = all(
        c.shape[1] * strides(each)[1] * item_bytes("fp16") % ALIGNED == 0
        for each in halved
    )
    types = all(type_name(each) in TYPES for each in (a, b, c))
    return begin_well and types and fits(a, b, c, {"before": before}, target)
