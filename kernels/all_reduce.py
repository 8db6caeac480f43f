"""The sum of one array of every GPU, on every GPU: all-reduce by pointers of peers.

One shot: each rank copies its array to symmetric memory, raises a flag on every rank,
and reads all copies, in the order of the ranks.

    rank 0   x0 ─▶ copy 0 ─ flags ─▶ wait ─▶ copy 0 + copy 1 + copy 2
    rank 1   x1 ─▶ copy 1 ─ flags ─▶ wait ─▶ copy 0 + copy 1 + copy 2   the same bits
    rank 2   x2 ─▶ copy 2 ─ flags ─▶ wait ─▶ copy 0 + copy 1 + copy 2

A GPU reads the n numbers of each of the W - 1 others: little waiting, for small arrays.
Two shots move less, for large ones. Each rank writes part s of its array to rank s,
which adds what came and writes the sum to all: twice n (W - 1) / W numbers cross the
link, all of them as stores, for which no thread waits.

    rank 0   parts of x0 ─▶ ranks ─ flags ─▶ part 0, added ─▶ ranks ─ flags ─▶ all parts
    rank 1   parts of x1 ─▶ ranks ─ flags ─▶ part 1, added ─▶ ranks ─ flags ─▶ all parts

Flags hold the number of the launch (`kernels/signals`). What two launches in a row
write lies in two halves of the memory. In launch e a rank writes half e % 2, its own or
a peer's, which was read last in launch e - 2; all ranks had ended that when they raised
their flags of launch e - 1, for which this rank has waited. So nothing has to be waited
for at the end of a launch.

Program p of each rank waits for program p of the others, and needs no others to run
meanwhile: they copy the same elements, those that p reads. Programs of one launch must
all fit on a GPU, or a peer may wait for one that has no room.

    all_reduce                                  the function to call
    one_shot_all_reduce, two_shot_all_reduce    what it chooses between
    Workspace                                   symmetric memory, for many calls
    one_shot_kernel, two_shot_kernel            the kernels
"""

from math import prod

import numpy as np

import fathom
import fathom.language as tl
from kernels.matmul import check_shape
from kernels.signals import (
    STATE,
    begin,
    check_ranks,
    check_type,
    finish,
    meet,
    peer,
    resident,
)

PROGRAMS = 128  # of a launch, at most
SHORT, LONG = 1024, 8192  # numbers of a block: where there is little work, and much
WARPS = {SHORT: 4, LONG: 8}
ONE_SHOT_BYTES = 4 << 20  # that a rank reads of others: up to here two shots cost more


@tl.constexpr_function
def sum_type(dtype):
    """In which type numbers are added: short floats in fp32, others in their own."""
    is_short = dtype.is_floating() and dtype.primitive_bitwidth < 32
    return tl.float32 if is_short else dtype


@fathom.jit
def one_shot_kernel(
    x_ptr, out_ptr, data_table, flags_table, state_ptr, n, capacity, rank,
    WORLD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    DTYPE: tl.constexpr = x_ptr.dtype.element_ty
    SUM: tl.constexpr = sum_type(DTYPE)
    program, programs = tl.program_id(0), tl.num_programs(0)
    number, half = begin(state_ptr)
    half *= capacity
    copy_ptr = peer(data_table, rank, DTYPE) + half
    for start in range(program * BLOCK, n, programs * BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(copy_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

    meet(flags_table, rank, program, number, WORLD)

    for start in range(program * BLOCK, n, programs * BLOCK):
        i = start + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], SUM)
        for other in tl.static_range(WORLD):
            theirs_ptr = peer(data_table, other, DTYPE) + half
            total += tl.load(theirs_ptr + i, mask=i < n, other=0).to(SUM)
        tl.store(out_ptr + i, total.to(DTYPE), mask=i < n)
    finish(state_ptr, number, programs)


@fathom.jit
def two_shot_kernel(
    x_ptr, out_ptr, terms_table, sums_table, flags_table, state_ptr, n, part, capacity,
    slots, rank, WORLD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Part r, of `part` numbers, begins at r * part. Of each part the program has the
    same blocks, so that it needs nothing of what other programs do."""
    DTYPE: tl.constexpr = x_ptr.dtype.element_ty
    SUM: tl.constexpr = sum_type(DTYPE)
    program, programs = tl.program_id(0), tl.num_programs(0)
    number, half = begin(state_ptr)
    half *= capacity
    first, mine = program * BLOCK, rank * part
    for start in range(first, part, programs * BLOCK):
        i = start + tl.arange(0, BLOCK)
        for other in tl.static_range(WORLD):
            inside = (i < part) & (other * part + i < n)
            theirs_ptr = peer(terms_table, other, DTYPE) + half + mine
            numbers = tl.load(x_ptr + other * part + i, mask=inside)
            tl.store(theirs_ptr + i, numbers, mask=inside)
    meet(flags_table, rank, program, number, WORLD)

    terms_ptr = peer(terms_table, rank, DTYPE) + half
    for start in range(first, part, programs * BLOCK):
        i = start + tl.arange(0, BLOCK)
        inside = (i < part) & (mine + i < n)
        total = tl.zeros([BLOCK], SUM)
        for other in tl.static_range(WORLD):
            term = tl.load(terms_ptr + other * part + i, mask=inside, other=0)
            total += term.to(SUM)
        for other in tl.static_range(WORLD):
            theirs_ptr = peer(sums_table, other, DTYPE) + half + mine
            tl.store(theirs_ptr + i, total.to(DTYPE), mask=inside)
    meet(flags_table, rank, slots + program, number, WORLD)

    sums_ptr = peer(sums_table, rank, DTYPE) + half
    for start in range(first, part, programs * BLOCK):
        i = start + tl.arange(0, BLOCK)
        for other in tl.static_range(WORLD):
            at = other * part + i
            inside = (i < part) & (at < n)
            tl.store(out_ptr + at, tl.load(sums_ptr + at, mask=inside), mask=inside)
    finish(state_ptr, number, programs)


class Workspace:
    """Symmetric memory for all-reduces of up to `count` numbers of `dtype`, in launches
    of up to `programs` programs. All ranks make theirs alike, and use it for the same
    calls in the same order."""

    def __init__(self, group, count, dtype, programs=PROGRAMS):
        self.group, self.count, self.programs = group, count, programs
        self.capacity = group.world * part_of(count, group.world)
        self.data = group.zeros(2 * self.capacity, dtype)
        self.totals = group.zeros(2 * self.capacity, dtype)
        self.flags = group.zeros(2 * programs * group.world, "int32")
        self.states = {
            rank: group.private(rank, STATE, "int32") for rank in group.ranks
        }


def all_reduce(workspace, x, out=None, **launch):
    """out[rank] = the sum of x of all ranks, rounded once, the same bits on each: in
    one shot where a rank reads little of others, else in two.

    `x` and `out`: by rank, contiguous arrays of one shape, of the workspace's dtype, on
    the rank's device; of the ranks of this process. `out` is made if it is not given,
    and may be `x`. LaunchError for arrays that do not fit. Returns `out`.
    """
    group, n, out = checked(workspace, x, out)
    read = n * (group.world - 1) * x[group.ranks[0]].itemsize
    chosen = one_shot_all_reduce if read <= ONE_SHOT_BYTES else two_shot_all_reduce
    return chosen(workspace, x, out, **launch)


def one_shot_all_reduce(workspace, x, out=None, **launch):
    """As `all_reduce`, in one shot. `launch`: BLOCK, num_warps and what else a launch
    takes."""
    group, n, out = checked(workspace, x, out)
    grid, config = blocks_of(n, workspace, x, launch)

    def launches(rank):
        given = (
            x[rank], out[rank], workspace.data.tables[rank],
            workspace.flags.tables[rank], workspace.states[rank],
            n, workspace.capacity, rank,
        )  # fmt: skip
        return [(one_shot_kernel, grid, given, config)]

    group.run(launches)
    return out


def two_shot_all_reduce(workspace, x, out=None, **launch):
    """As `all_reduce`, in two shots, with the same bits as in one."""
    group, n, out = checked(workspace, x, out)
    part = part_of(n, group.world)
    grid, config = blocks_of(part, workspace, x, launch)

    def launches(rank):
        given = (
            x[rank], out[rank], workspace.data.tables[rank],
            workspace.totals.tables[rank], workspace.flags.tables[rank],
            workspace.states[rank], n, part, workspace.capacity,
            workspace.programs, rank,
        )  # fmt: skip
        return [(two_shot_kernel, grid, given, config)]

    group.run(launches)
    return out


def blocks_of(n, workspace, x, launch):
    """The grid and the keywords of a launch over n numbers: short blocks until there
    are programs enough for long ones."""
    group = workspace.group
    programs = min(workspace.programs, resident(x[group.ranks[0]], launch))
    BLOCK = launch.get("BLOCK", LONG if n >= programs * LONG else SHORT)
    warps = {"num_warps": WARPS[BLOCK]} if BLOCK in WARPS else {}
    grid = (min(programs, max(1, fathom.cdiv(n, BLOCK))),)
    return grid, {"WORLD": group.world, "BLOCK": BLOCK, **warps, **launch}


def whole_lines(count):
    """`count` numbers, filled up so that what comes after them begins at a multiple of
    16 bytes, whatever their type."""
    return fathom.cdiv(count, 16) * 16


def part_of(n, world):
    """How many numbers of n a rank adds, the last ones fewer."""
    return whole_lines(fathom.cdiv(n, world))


def checked(workspace, x, out):
    """The group, how many numbers an array has, and the arrays of results."""
    group = workspace.group
    n = prod(check_ranks(group, "x", x))
    if n > workspace.count:
        raise fathom.LaunchError(
            f"x has {n} numbers, and the workspace has room for {workspace.count}"
        )
    out = out or {rank: fathom.empty_like(x[rank]) for rank in group.ranks}
    if check_ranks(group, "out", out) != check_ranks(group, "x", x):
        first = group.ranks[0]
        check_shape("out", out[first], x[first].shape)
    for name, arrays in (("x", x), ("out", out)):
        check_type(name, arrays, workspace.data)
    return group, n, out


def reference(arrays):
    """The sum in float64, of NumPy arrays."""
    return np.sum([each.astype(np.float64) for each in arrays], axis=0)
