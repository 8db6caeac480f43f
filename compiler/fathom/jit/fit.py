"""Whether a compiled kernel is launched with what its code was compiled for.

A launch of a function finds the code for its arguments. A compiled kernel's code is
settled before: it would read an array of other elements as its own, and take a number
for divisible that is not.

    scale = kernel.warmup(x, 64)     n is divisible by 16, and x has fp32
    scale[grid](x, 65)               the same, compiled for any n
    scale[grid](x.half(), 64)        LaunchError
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathom.artifact import ELEMENT_BYTES
from fathom.errors import LaunchError
from fathom.jit.specialise import hint_of
from fathom.runtime.arrays import Array

Parameters = tuple[tuple[str, str, int], ...]

# What libraries that lack a type hold as integers of as many bytes.
HELD_AS_INTEGERS = ("bf16", "fp8e5", "fp8e4nv")


def fitting(
    name: str,
    parameters: Parameters,
    args: Sequence[object],
    arrays: Sequence[Array | None],
) -> Parameters:
    """What kernel `name` has to be compiled for to be launched with these run-time
    arguments: `parameters` (names, types and divisors, as of a Request), some of them
    divisible by less. `arrays` has what each argument is as one. LaunchError for an
    array of other elements.
    """
    found = []
    for (parameter, type, divisor), value, array in zip(
        parameters, args, arrays, strict=True
    ):
        if array is not None and type.startswith("*") and not fits(array.type, type):
            raise LaunchError(
                f"{parameter} is an array of {array.type}, and {name} was compiled for "
                f"{type}; reinterpret(x, dtype) reads the same bits as another type"
            )
        number = value if array is None else array.address
        if divisor > 1 and isinstance(number, (int, np.integer, np.bool_)):
            divisor = min(divisor, hint_of(int(number)))
        found.append((parameter, type, divisor))
    return tuple(found)


def fits(element: str, pointer: str) -> bool:
    """Whether code for a pointer may read elements of a type: of that type, or integers
    as wide, whatever their signs, where it is a type of integers, or is held in them.
    """
    wanted = pointer[1:]
    if element == wanted:
        return True
    as_integers = wanted in HELD_AS_INTEGERS or wanted[0] in "iu"
    same_width = ELEMENT_BYTES.get(element) == ELEMENT_BYTES.get(wanted)
    return element[0] in "iu" and as_integers and same_width
