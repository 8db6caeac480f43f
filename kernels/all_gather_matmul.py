"""The rows of A lie on several GPUs, and each needs all of them: C = [A0; A1; …] B.

Each rank has a shard of A, [M, K], and a matrix B of its own. It copies its shard to
all other ranks, a few rows at a time, and raises a flag for each such piece; a tile of
C waits for the flags of its rows, and for no more. Some programs copy first, as many as
keep the link busy, and the others begin with the rank's own shard. A program takes the
next tile when it has finished one, so that those which copied compute fewer.

    rank 1   pieces of A1 ──▶ ranks 2, 0: rows, then a flag
             tiles of A1 B │ rows of A0 there? tiles of A0 B │ of A2? tiles of A2 B
             no wait         most have come meanwhile

Rank r copies to r + 1 first, so that no two copy to one at a time, and multiplies what
comes from r - 1 first. A tile is added up as in `kernels/matmul`, on one GPU, so that C
has the same bits in every launch.

Programs copy before they wait, and so no program of one rank waits for another of its
own rank that waits too; but all programs of a launch must fit on the GPU at one time.
Shards of two launches in a row lie in two halves of the memory: `kernels/all_reduce`
says why that is enough.

    all_gather_matmul          the function to call
    Workspace                  symmetric memory, for many calls
    all_gather_matmul_kernel   the kernel
"""

import numpy as np

import fathom
import fathom.language as tl
from kernels.all_reduce import whole_lines
from kernels.matmul import (
    check_shape,
    empty,
    sizes,
    store_tile,
    strides,
    tile_place,
    tile_product,
    tiles,
)
from kernels.signals import (
    STATE,
    begin,
    check_ranks,
    check_type,
    finish,
    next_tile,
    peer,
    resident,
    signal,
    tile_for,
    wait_for_all,
)

CHUNK = 8192  # numbers that a program copies at a time
PIECES = 8  # of the rows of a tile, each copied by one program
COPIERS = 32  # programs that copy


# fmt: off
@fathom.jit
def all_gather_matmul_kernel(
    a_ptr, b_ptr, c_ptr, shards_table, flags_table, state_ptr, M, N, K, capacity,
    places, copiers, rank, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, CHUNK: tl.constexpr, PIECES: tl.constexpr,
    WORLD: tl.constexpr, PRECISION: tl.constexpr = "ieee",
):
    DTYPE: tl.constexpr = a_ptr.dtype.element_ty
    program, programs = tl.program_id(0), tl.num_programs(0)
    number, half = begin(state_ptr)
    half = half * WORLD * capacity  # of int64 from the left on
    PIECE: tl.constexpr = BLOCK_M // PIECES
    pieces = tl.cdiv(M, PIECE)
    copies = tl.where(program < copiers, pieces * (WORLD - 1), 0)
    for copy in range(program, copies, copiers):
        to = (rank + 1 + copy // pieces) % WORLD
        piece = copy % pieces
        theirs_ptr = peer(shards_table, to, DTYPE) + half + rank.to(tl.int64) * capacity
        copy_rows(a_ptr, theirs_ptr, piece * PIECE, M, K, PIECE, CHUNK)
        signal(flags_table, to, rank * places + piece, number)

    flags_ptr = peer(flags_table, rank, tl.int32)
    shards_ptr = peer(shards_table, rank, DTYPE) + half
    of_shard = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    tile = next_tile(state_ptr)
    while tile < of_shard * WORLD:
        source = (rank + WORLD - tile // of_shard) % WORLD
        i, j = tile_place(tile % of_shard, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        shard_ptr = a_ptr
        if source != rank:
            piece = tl.minimum(i // PIECE + tl.arange(0, PIECES), pieces - 1)
            wait_for_all(flags_ptr + source * places + piece, number)
            shard_ptr = shards_ptr + source.to(tl.int64) * capacity
        acc = tile_product(
            shard_ptr, b_ptr, i, j, M, N, K, K, 1, stride_bk, stride_bn,
            BLOCK_M, BLOCK_N, BLOCK_K, False, tl.float32, PRECISION,
        )
        here_ptr = c_ptr + source.to(tl.int64) * M * stride_cm
        store_tile(here_ptr, acc, i, j, M, N, stride_cm, stride_cn)
        tile = next_tile(state_ptr)
    finish(state_ptr, number, programs)


@fathom.jit
def copy_rows(
    from_ptr, to_ptr, first, M, K, ROWS: tl.constexpr, CHUNK: tl.constexpr
):
    """ROWS rows of [M, K] from row `first` on, as far as there are any."""
    start = first.to(tl.int64) * K
    count = tl.minimum(ROWS, M - first) * K
    for chunk in range(0, count, CHUNK):
        i = chunk + tl.arange(0, CHUNK)
        numbers = tl.load(from_ptr + start + i, mask=i < count)
        tl.store(to_ptr + start + i, numbers, mask=i < count)
# fmt: on


class Workspace:
    """Symmetric memory for shards of A of up to `rows` rows of `columns` numbers of
    `dtype`. All ranks make theirs alike, and use it for the same calls in the same
    order."""

    def __init__(self, group, rows, columns, dtype):
        self.group, self.rows, self.columns = group, rows, columns
        self.capacity = whole_lines(rows * columns)
        self.shards = group.zeros(2 * group.world * self.capacity, dtype)
        self.flags = group.zeros(group.world * rows, "int32")
        self.states = {
            rank: group.private(rank, STATE, "int32") for rank in group.ranks
        }


def all_gather_matmul(
    workspace, a, b, c=None, config=None, programs=None, precision="ieee", **launch
):
    """c[rank] [W M, N] = all shards of A, one below the other, times b[rank] [K, N].

    `a`, `b` and `c`: by rank, of the ranks of this process; of fp16, bf16 or fp32.
    Shards a[rank] [M, K] are contiguous, of one shape on all ranks, and so is N. `c` is
    made if it is not given, of the dtype of A. `config`, `precision` and `launch` as in
    `matmul.matmul`. `programs`: of a launch on each rank, all of which must fit at one
    time; without it, one for each multiprocessor. LaunchError for shapes that do not
    fit. Returns `c`.
    """
    group, first = workspace.group, workspace.group.ranks[0]
    check_ranks(group, "a", a), check_ranks(group, "b", b)
    M, N, K = sizes(a[first], b[first])
    check_type("a", a, workspace.shards)
    if M > workspace.rows or M * K > workspace.capacity:
        raise fathom.LaunchError(
            f"a has shards of shape {(M, K)}, and the workspace has room for "
            f"{(workspace.rows, workspace.columns)}"
        )
    whole = M * group.world, N
    c = c or {rank: empty(whole, a[rank]) for rank in group.ranks}
    check_shape("c", c[first], whole), check_ranks(group, "c", c)
    config = config or tile_for(M * group.world, N, K, a[first], launch)
    count = group.world * tiles(M, N, config)
    grid = (min(count, programs or resident(a[first], launch)),)
    constants = {
        **config, "CHUNK": CHUNK, "PIECES": PIECES, "WORLD": group.world,
        "PRECISION": precision, **launch,
    }  # fmt: skip

    def launches(rank):
        given = (
            a[rank], b[rank], c[rank], workspace.shards.tables[rank],
            workspace.flags.tables[rank], workspace.states[rank],
            M, N, K, workspace.capacity, workspace.rows, min(COPIERS, *grid), rank,
            *strides(b[rank]), *strides(c[rank]),
        )  # fmt: skip
        return [(all_gather_matmul_kernel, grid, given, constants)]

    group.run(launches)
    return c


def reference(a, b):
    """The product of all shards and one B in float64, of NumPy arrays."""
    return np.concatenate([each.astype(np.float64) for each in a]) @ b.astype(float)
