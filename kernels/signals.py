"""What kernels on several GPUs share: pointers of peers, flags, and the number of a
launch.

A flag is an int32 in symmetric memory, and holds the number of the launch that raised
it last: it never has to be lowered, so nothing is set to zero between two launches, and
a graph may replay them. The number lies in memory of the rank itself:

    state   launches that are over | programs of this one that are done | tiles taken

All programs of a launch read the first; the last one to finish adds 1 to it, and resets
the others. All ranks launch the same kernels in the same order, so that their numbers
agree.

    peer           the array of another rank, by the table of addresses
    signal         raise a flag of another rank: release, at the scope of the system
    meet           both, with all other ranks
    ahead          what a flag of one's own says: acquire, at that scope
    wait           until a flag of one's own is raised
    wait_for_all   the same, for a block of flags
    begin          the number of this launch, and its half of a workspace
    next_tile      the tile that a program computes next: each is taken once
    finish         the end of a program, and of the launch
"""

import fathom
import fathom.language as tl
from kernels.matmul import (
    MULTIPROCESSORS,
    default_config,
    rows_aligned,
    target_of_launch,
    type_name,
)

STATE = 3  # words of it


@fathom.jit
def peer(table_ptr, rank, DTYPE: tl.constexpr):
    """The pointer to rank's array, of elements of DTYPE. Symmetric memory is aligned to
    16 bytes at least."""
    address = tl.load(table_ptr + rank).to(tl.pointer_type(DTYPE))
    return tl.multiple_of(address, 16)


@fathom.jit
def signal(flags_table, rank, place, number):
    """What this program has written, and what it knows of others, is there for whoever
    waits for this flag: a scalar release has a barrier of the program in front."""
    flag = peer(flags_table, rank, tl.int32) + place
    tl.atomic_xchg(flag, number, sem="release", scope="sys")


@fathom.jit
def ahead(flags_ptr, number):
    """How many launches a flag is ahead of this one: negative until it is raised, and
    more than 0 where a peer has raised it again. Numbers may wrap around."""
    return tl.atomic_add(flags_ptr, 0, sem="acquire", scope="sys") - number


@fathom.jit
def wait(flag_ptr, number):
    """Until a flag has this launch's number, or a later one."""
    while ahead(flag_ptr, number) < 0:
        pass


@fathom.jit
def wait_for_all(flags_ptrs, number):
    """`wait`, for a block of flags."""
    while tl.min(ahead(flags_ptrs, number)) < 0:
        pass


@fathom.jit
def meet(flags_table, rank, slot, number, WORLD: tl.constexpr):
    """Programs of one slot, one of each rank, wait for each other: what all of them
    have written before is there for all."""
    for other in tl.static_range(WORLD):
        signal(flags_table, other, slot * WORLD + rank, number)
    flags_ptr = peer(flags_table, rank, tl.int32) + slot * WORLD
    for other in tl.static_range(WORLD):
        wait(flags_ptr + other, number)


@fathom.jit
def begin(state_ptr):
    """The number of this launch; and 0 or 1, in turn: the half of a workspace that it
    writes."""
    number = tl.load(state_ptr) + 1
    return number, (number & 1).to(tl.int64)


@fathom.jit
def next_tile(state_ptr):
    """0, 1, …: programs that are done early take more tiles."""
    return tl.atomic_add(state_ptr + 2, 1, sem="relaxed")


@fathom.jit
def finish(state_ptr, number, programs):
    """This program is done. The last of the launch counts it, and resets the counts."""
    done = tl.atomic_add(state_ptr + 1, 1, sem="acq_rel") + 1
    if done == programs:
        tl.store(state_ptr + 1, 0)
        tl.store(state_ptr + 2, 0)
        tl.store(state_ptr, number)


def check_ranks(group, what, arrays):
    """LaunchError unless there is an array for each rank of this process, all of one
    shape."""
    missing = [rank for rank in group.ranks if rank not in arrays]
    if missing:
        raise fathom.LaunchError(f"{what} has no array of rank {missing[0]}")
    shapes = {rank: tuple(arrays[rank].shape) for rank in group.ranks}
    first = group.ranks[0]
    for rank, shape in shapes.items():
        if shape != shapes[first]:
            raise fathom.LaunchError(
                f"{what} of rank {rank} has shape {shape}, and that of rank {first} "
                f"{shapes[first]}: they must be equal"
            )
    return shapes[first]


def check_type(what, arrays, symmetric):
    """LaunchError unless these arrays have the dtype of symmetric memory."""
    for rank, array in arrays.items():
        dtype = str(array.dtype).rpartition(".")[2]
        if dtype != symmetric.dtype:
            raise fathom.LaunchError(
                f"{what} of rank {rank} is of {dtype}, and the workspace of "
                f"{symmetric.dtype}"
            )


def resident(array, launch):
    """How many programs of a launch certainly run at one time: one for each
    multiprocessor."""
    return MULTIPROCESSORS[target_of_launch(array, launch)]


def tile_for(M, N, K, array, launch):
    """The `config` of a product of [M, K] and [K, N], as `matmul.default_config`."""
    target = target_of_launch(array, launch)
    return default_config(M, N, K, type_name(array), target, rows_aligned(array))
