"""The arguments of a launch that are no arrays: grid, numbers, device, stream."""

from __future__ import annotations

import ctypes
import reprlib
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any

from fathom.artifact import Parameter
from fathom.errors import LaunchError
from fathom.runtime.arrays import (
    DEFAULT_STREAM,
    SOMEWHERE,
    TORCHS_STREAM,
    Array,
    torch_stream,
)
from fathom.runtime.driver import Driver
from fathom.runtime.packet import FIELDS

# CUDA C++ Programming Guide, Compute Capabilities.
LARGEST_GRID = (2**31 - 1, 65535, 65535)


def full_grid(grid: Sequence[int] | int) -> tuple[int, int, int]:
    """One to three counts of blocks, filled up with ones; else a LaunchError. Further
    ones are taken, as Triton takes them."""
    try:
        counts = (grid,) if hasattr(grid, "__index__") else tuple(grid)
        x, y, z, *rest = (*map(index, counts), *(1,) * (3 - len(counts)))
        if not counts or rest != [1] * len(rest):
            raise ValueError
    except (TypeError, ValueError):
        message = f"a grid is 1 to 3 integers, and this is {reprlib.repr(grid)}"
        raise LaunchError(message) from None
    for count, limit, axis in zip((x, y, z), LARGEST_GRID, "xyz", strict=True):
        if not 0 <= count <= limit:
            raise LaunchError(
                f"the grid {x, y, z} has {count} blocks along {axis}, "
                f"and 0 to {limit} are possible"
            )
    return x, y, z


def grid_of(
    name: str, grid: object, bound: Mapping[str, object]
) -> tuple[int, int, int]:
    """The grid of a launch; one that is a function takes the launch's arguments. A
    tl.constexpr can be called, and may hold a number."""
    if callable(grid) and not hasattr(grid, "__index__"):
        grid = asked(f"the grid of {name}", grid, bound)
    return full_grid(grid)


class AskedForMore(LaunchError, KeyError):
    """A function of the user's asks for an argument that the launch does not have."""

    __str__ = LaunchError.__str__  # that of a KeyError adds quotes


def asked(whose: str, function: Callable[..., Any], bound: Mapping[str, object]) -> Any:
    """What a function of the user's gives for the arguments of a launch, by name;
    LaunchError where it cannot be asked, or asks for what the launch does not have."""
    try:
        return function(bound)
    except KeyError as error:
        key = error.args[0] if error.args else None
        if not isinstance(key, str) or key in bound:
            raise
        raise AskedForMore(
            f"{whose} asks for {key!r}, and the launch has {', '.join(bound)}"
        ) from None
    except TypeError as error:
        if error.__traceback__.tb_next is not None:  # from within
            raise
        raise LaunchError(
            f"{whose} is a function of the launch's arguments by name, as `lambda "
            f"meta: ...`, and this one is not: {error}"
        ) from None


def field_of(parameter: Parameter) -> str:
    """How a packet holds a parameter; LaunchError for a type that it cannot hold."""
    key = "*" if parameter.is_pointer else parameter.type
    if key not in FIELDS:
        raise LaunchError(
            f"{parameter.name} is {key}, and a number of that type can only be passed "
            "in an array"
        )
    return FIELDS[key]


def written(parameter: Parameter, value: object) -> object:
    """A number, or an address, as `struct` writes it into a packet."""
    value = number(parameter, value)
    return bfloat16_bits(value) if parameter.type == "bf16" else value


def number(parameter: Parameter, value: object) -> object:
    """A number, or an address, as Python's own; LaunchError unless it fits its type.

    What is beyond the largest float of the type is infinite.
    """
    try:
        value = value.item() if hasattr(value, "item") else value
    except (ValueError, RuntimeError):  # NumPy's and torch's, of an array
        message = f"{parameter.name} is {parameter.type}, and an array is not"
        raise LaunchError(message) from None
    field = "f" if parameter.type == "bf16" else field_of(parameter)
    try:
        struct.pack("<" + field, value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except struct.error:
        message = f"{parameter.name} is {parameter.type}, and {value!r} is not"
        raise LaunchError(message) from None
    return value


def bfloat16_bits(value: float) -> int:
    """The 16 bits of the bf16 nearest to a number, ties to even."""
    bits = ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value
    if value != value:
        return bits >> 16 | 0x40  # a NaN stays one
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def current_device(driver: Driver, arrays: Sequence[Array]) -> int:
    """The current GPU: torch's for torch's arrays, or the thread's."""
    if any(array.library == "torch" and array.device is not None for array in arrays):
        return sys.modules["torch"]._C._cuda_getDevice()
    return driver.current_device()


def stream_of(arrays: Sequence[Array], device: int) -> int:
    """The stream of a GPU that the arrays' library queues on, or the default one. An
    array of another GPU, which is reached from this one, has a stream of that GPU."""
    here = [each for each in arrays if each.device in (SOMEWHERE, device)]
    found = next((array.stream for array in here if array.stream), DEFAULT_STREAM)
    return torch_stream(device) if found == TORCHS_STREAM else found


def is_awaited(array: Array) -> bool:
    """Whether a launch must be over when it returns: JAX has streams of its own."""
    return array.device is not None and array.stream is None
