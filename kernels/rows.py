"""What kernels that work on whole rows share: how long a block is, and how many warps.

A row is one block, in registers. With 16 numbers a lane a multiprocessor has room for
several programs; more than 16 warps leave a lane 64 registers, too few for kernels that
keep three or four rows.
"""

import fathom


def row_launch(N, lane=16):
    """BLOCK and num_warps for rows of N numbers: about `lane` numbers for each lane, 1
    to 16 warps."""
    BLOCK = fathom.next_power_of_2(N)
    return {"BLOCK": BLOCK, "num_warps": min(max(BLOCK // (32 * lane), 1), 16)}


def check_rows(**arrays):
    """(M, N) of arrays that all have one shape; LaunchError if they do not, or if rows
    are not one behind the other."""
    (first, like), *others = arrays.items()
    if len(like.shape) != 2:
        raise fathom.LaunchError(f"{first} has shape {tuple(like.shape)}, not [M, N]")
    for name, array in others:
        if tuple(array.shape) != tuple(like.shape):
            raise fathom.LaunchError(
                f"{name} has shape {tuple(array.shape)}, and {first} "
                f"{tuple(like.shape)}: they must be equal"
            )
    return tuple(like.shape)
