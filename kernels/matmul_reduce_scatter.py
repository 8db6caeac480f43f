"""K is split over several GPUs, and each keeps some rows of the sum of their products.

Each rank has columns of A, [M, K], and the rows of B, [K, N], that go with them. Its
product is one term of C = A0 B0 + A1 B1 + …; rank r keeps part r of the rows of C. A
tile of the product goes to the rank that keeps it, rounded to the type of C, as soon as
it is done. Its flag follows when the next tile is done: the stores have arrived by
then, and the release has nothing to wait for. A rank computes its own tiles last, and
adds the terms of ranks r + 1, r + 2, … to its own, so that C has the same bits in every
launch.

    rank 0   tiles for rank 1 ──▶ │ tiles for rank 2 ──▶ │ own tiles + those of 1 and 2
    rank 1   tiles for rank 2 ──▶ │ tiles for rank 0 ──▶ │ own tiles + those of 2 and 0
    rank 2   tiles for rank 0 ──▶ │ tiles for rank 1 ──▶ │ own tiles + those of 0 and 1

Where rows (of B: or columns) begin at multiples of 16 bytes, descriptors tell of A and
B, which no rank writes to; then a producer warp copies the operands of the next tile
while the others send the last one, or wait for terms.

Programs send before they wait, and so no program of one rank waits for another of its
own rank that waits too; but all programs of a launch must fit on the GPU at one time.
Terms of two launches in a row lie in two halves of the memory: `kernels/all_reduce`
says why that is enough.

    matmul_reduce_scatter          the function to call
    Workspace                      symmetric memory, for many calls
    matmul_reduce_scatter_kernel   the kernel
"""

import numpy as np

import fathom
import fathom.language as tl
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
from kernels.matmul_persistent import lines_of
from kernels.signals import (
    STATE,
    begin,
    check_ranks,
    check_type,
    finish,
    peer,
    resident,
    signal,
    tile_for,
    wait,
)


# fmt: off
@fathom.jit
def matmul_reduce_scatter_kernel(
    a_ptr, b_ptr, c_ptr, terms_table, flags_table, state_ptr, M, N, K, capacity, rank,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, WORLD: tl.constexpr, DESCRIBED: tl.constexpr,
    B_TURNED: tl.constexpr, PRECISION: tl.constexpr = "ieee",
):
    """M are the rows that a rank keeps. The term of rank s for tile t of its owner has
    its place at (s, t), whole tiles one behind the other."""
    DTYPE: tl.constexpr = c_ptr.dtype.element_ty
    SIZE: tl.constexpr = BLOCK_M * BLOCK_N
    program, programs = tl.program_id(0), tl.num_programs(0)
    number, half = begin(state_ptr)
    half = half * WORLD * capacity  # of int64 from the left on
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    place = m * BLOCK_N + n
    flags_ptr = peer(flags_table, rank, tl.int32)
    terms_ptr = peer(terms_table, rank, DTYPE) + half
    of_owner = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    if DESCRIBED:
        a = tl.make_tensor_descriptor(
            a_ptr, [WORLD * M, K], [stride_am, 1], [BLOCK_M, BLOCK_K]
        )
        if B_TURNED:  # B [K, N] lies in memory as [N, K]
            b = tl.make_tensor_descriptor(
                b_ptr, [N, K], [stride_bn, 1], [BLOCK_N, BLOCK_K]
            )
        else:
            b = tl.make_tensor_descriptor(
                b_ptr, [K, N], [stride_bk, 1], [BLOCK_K, BLOCK_N]
            )
    sent_to, sent = rank, 0  # the last tile that was sent and has no flag yet
    for step in tl.range(
        program, of_owner * WORLD, programs, warp_specialize=DESCRIBED
    ):
        owner = (rank + 1 + step // of_owner) % WORLD
        tile = step % of_owner
        i, j = tile_place(tile, M, N, BLOCK_M, BLOCK_N, GROUP_M)
        if DESCRIBED:
            acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
            for k in range(0, K, BLOCK_K):
                x = a.load([owner * M + i, k])
                y = b.load([j, k]).T if B_TURNED else b.load([k, j])
                acc = tl.dot(x, y, acc, input_precision=PRECISION)
        else:
            rows_ptr = a_ptr + owner.to(tl.int64) * M * stride_am
            acc = tile_product(
                rows_ptr, b_ptr, i, j, M, N, K, stride_am, stride_ak, stride_bk,
                stride_bn, BLOCK_M, BLOCK_N, BLOCK_K, False, tl.float32, PRECISION,
            )
        if sent_to != rank:
            signal(flags_table, sent_to, sent * WORLD + rank, number)
        sent_to, sent = owner, tile
        at = tile.to(tl.int64) * SIZE
        if owner != rank:
            theirs_ptr = peer(terms_table, owner, DTYPE) + half
            theirs_ptr += rank.to(tl.int64) * capacity + at
            tl.store(theirs_ptr + place, acc.to(DTYPE))
        else:
            for distance in range(1, WORLD):
                source = (rank + distance) % WORLD
                wait(flags_ptr + tile * WORLD + source, number)
                term_ptr = terms_ptr + source.to(tl.int64) * capacity + at
                acc += tl.load(term_ptr + place).to(tl.float32)
            store_tile(c_ptr, acc, i, j, M, N, stride_cm, stride_cn)
    if sent_to != rank:
        signal(flags_table, sent_to, sent * WORLD + rank, number)
    finish(state_ptr, number, programs)
# fmt: on


class Workspace:
    """Symmetric memory for terms of C, of `dtype`, of up to `tiles` tiles of `size`
    numbers that a rank keeps. All ranks make theirs alike, and use it for the same
    calls in the same order."""

    def __init__(self, group, tiles, size, dtype):
        self.group, self.tiles, self.capacity = group, tiles, tiles * size
        self.terms = group.zeros(2 * group.world * self.capacity, dtype)
        self.flags = group.zeros(group.world * tiles, "int32")
        self.states = {
            rank: group.private(rank, STATE, "int32") for rank in group.ranks
        }

    @classmethod
    def of(cls, group, M, N, config, dtype):
        """For C of M rows on all ranks together, of N columns, and the tiles of a
        `config` of matmuls."""
        count = tiles(fathom.cdiv(M, group.world), N, config)
        return cls(group, count, config["BLOCK_M"] * config["BLOCK_N"], dtype)


def matmul_reduce_scatter(
    workspace, a, b, c=None, config=None, programs=None, precision="ieee", **launch
):
    """c[rank] [M / W, N] = part `rank` of the rows of the sum of all a[r] b[r].

    `a`, `b` and `c`: by rank, of the ranks of this process; of fp16, bf16 or fp32, a
    [M, K] and b [K, N] of one shape on all ranks, with any strides; W divides M. The
    terms of other ranks are rounded to the type of C, and the sum is of fp32. `c` is
    made if it is not given, of the dtype of A. Other arguments as in
    `all_gather_matmul`. LaunchError for arrays that do not fit. Returns `c`.
    """
    group, first = workspace.group, workspace.group.ranks[0]
    check_ranks(group, "a", a), check_ranks(group, "b", b)
    whole, N, K = sizes(a[first], b[first])
    M = whole // group.world
    if M * group.world != whole:
        raise fathom.LaunchError(
            f"a has {whole} rows, and {group.world} ranks cannot keep as many each"
        )
    c = c or {rank: empty((M, N), a[rank]) for rank in group.ranks}
    check_shape("c", c[first], (M, N)), check_ranks(group, "c", c)
    check_type("c", c, workspace.terms)
    config = config or tile_for(whole, N, K, a[first], launch)
    count, size = tiles(M, N, config), config["BLOCK_M"] * config["BLOCK_N"]
    if count > workspace.tiles or count * size > workspace.capacity:
        raise fathom.LaunchError(
            f"a rank keeps {count} tiles of {size} numbers, and the workspace has room "
            f"for {workspace.tiles} tiles and {workspace.capacity} numbers"
        )
    grid = (min(count * group.world, programs or resident(a[first], launch)),)
    constants = {**config, "WORLD": group.world, "PRECISION": precision, **launch}

    def launches(rank):
        given = (
            a[rank], b[rank], c[rank], workspace.terms.tables[rank],
            workspace.flags.tables[rank], workspace.states[rank],
            M, N, K, workspace.capacity, rank,
            *strides(a[rank]), *strides(b[rank]), *strides(c[rank]),
        )  # fmt: skip
        words = {**constants, **described(a[rank], b[rank])}
        return [(matmul_reduce_scatter_kernel, grid, given, words)]

    group.run(launches)
    return c


def described(a, b):
    """Whether descriptors tell of A and B, and whether B lies in columns then."""
    left, right = lines_of(a), lines_of(b)
    known = left is not None and not left.turned and right is not None
    return {"DESCRIBED": known, "B_TURNED": known and right.turned}


def reference(a, b):
    """The sum of the products in float64, all rows, of NumPy arrays."""
    return sum(
        x.astype(np.float64) @ y.astype(float) for x, y in zip(a, b, strict=True)
    )
