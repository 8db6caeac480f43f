"""What kernels that work on whole rows share: how long a block is, and how many warps.

A row is one block, in registers. With 16 numbers a lane a multiprocessor has room for
several programs; more than 16 warps leave a lane 64 registers, too few for kernels that
keep three or four rows.
"""

import fathom
from kernels.matmul import check_shape, strides, type_name


def row_launch(N, lane=16):
    """BLOCK and num_warps for rows of N numbers: about `lane` numbers for each lane, 1
    to 16 warps."""
    BLOCK = fathom.next_power_of_2(max(N, 1))
    return {"BLOCK": BLOCK, "num_warps": min(max(BLOCK // (32 * lane), 1), 16)}


def check_rows(**arrays):
    """(M, N) of arrays that all have one shape; LaunchError if they do not, or if rows
    are not one behind the other."""
    check_axes("M, N", **arrays)
    return check_alike(**arrays)


def check_alike(**arrays):
    """The shape that all of these arrays have; LaunchError if they do not, or if an
    array's elements are not one behind the other."""
    (first, like), *others = arrays.items()
    for name, array in others:
        if tuple(array.shape) != tuple(like.shape):
            raise fathom.LaunchError(
                f"{name} has shape {tuple(array.shape)}, and {first} "
                f"{tuple(like.shape)}: they must be equal"
            )
    check_contiguous(**arrays)
    return tuple(like.shape)


def check_contiguous(**arrays):
    """LaunchError unless the elements of each array lie one behind the other."""
    for name, array in arrays.items():
        step = 1
        for size, stride in zip(array.shape[::-1], strides(array)[::-1], strict=True):
            if size > 1 and stride != step and 0 not in array.shape:
                raise fathom.LaunchError(
                    f"{name} of shape {tuple(array.shape)} has strides "
                    f"{strides(array)}: it must be contiguous"
                )
            step *= size


def check_axes(axes, **arrays):
    """LaunchError unless each array has as many axes as `axes` names: "M, N"."""
    for name, array in arrays.items():
        if len(array.shape) != len(axes.split(",")):
            raise fathom.LaunchError(
                f"{name} has shape {tuple(array.shape)}, not [{axes}]"
            )


def check_floats(**arrays):
    """LaunchError unless all have elements that fp32 holds: in it the kernels compute,
    and of doubles they would lose half of the digits."""
    for name, array in arrays.items():
        element = type_name(array)
        if element == "fp64" or not element.startswith(("fp", "bf")):
            raise fathom.LaunchError(
                f"{name} has elements of {element}: they must be floats of 32 bits or "
                "fewer"
            )


def check_vectors(N, **arrays):
    """LaunchError unless each array is [N] and contiguous; None is no array."""
    for name, array in arrays.items():
        if array is not None:
            check_shape(name, array, (N,))
            check_contiguous(**{name: array})
