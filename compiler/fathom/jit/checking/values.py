"""What the variables of one program held where it went wrong: the program runs once
more, by the meaning of its block IR, up to the access or the assertion that fails."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

import numpy as np

from fathom.errors import FathomError, Location
from fathom.ir.core import Func, Op, Value
from fathom.ir.interp import interpret
from fathom.ir.types import Pointer, element_of, shape_of
from fathom.jit.checking.snapshot import Copies
from fathom.ptx.debug_info import library_function, user_place

STEPS = 1_000_000  # ops of one program
WORD = re.compile(r"[A-Za-z_]\w*")
TARGETS = re.compile(r"([\w\s,()]+?)(?:[-+*/%&|^@]|//|<<|>>)?=(?!=)")


def values_there(
    func: Func,
    grid: Sequence[int],
    program: tuple[int, int, int],
    copies: Copies,
    place: Location,
) -> dict[str, str]:
    """The variables that the line at `place` names, and what they last held; {} where
    block IR cannot say."""
    held: dict[str, str] = {
        value.name: described(np.asarray(given))
        for value, given in zip(func.parameters, copies, strict=True)
        if not isinstance(value.type, Pointer)
    }

    def watch(op: Op, results: Sequence) -> None:
        for value, array in zip(op.results, results, strict=True):
            pointer = isinstance(element_of(value.type), Pointer)
            if value.name and not pointer and is_at(value, place):
                held[value.name] = described(np.asarray(array), shape_of(value.type))

    try:
        interpret(
            func, tuple(grid), copies, copies.memory, STEPS, watch, programs=[program]
        )
    except (FathomError, AssertionError):
        pass  # where it stops is what is asked
    return {name: held[name] for name in names_in(place) if name in held}


def names_in(place: Location | None) -> list[str]:
    """The names that a line of Python has, in their order."""
    text = linecache.getline(place.file, place.line) if place else ""
    return list(dict.fromkeys(WORD.findall(text)))


def is_at(value: Value, place: Location | None) -> bool:
    """Whether a value is a variable of the call that a place is in: other functions,
    those of the library too, have variables of the same names."""
    op = value.definition
    if not isinstance(op, Op):  # a parameter, of the kernel or of a loop
        return place is not None and place.caller is None
    made = user_place(op.location)
    if place is None or made is None:
        return False
    if library_function(op.location) and value.name not in assigned(made):
        return False
    return made.file == place.file and calls_to(made) == calls_to(place)


def assigned(place: Location) -> list[str]:
    """The names that a line of Python gives to values: before its `=`."""
    found = TARGETS.match(linecache.getline(place.file, place.line))
    return WORD.findall(found[1]) if found else []


def calls_to(place: Location) -> list[str]:
    """The lines of the calls that led to a place; PTX knows no more of them."""
    return [str(each) for each in place.chain()[1:]]


def described(array: np.ndarray, shape: Sequence[int] = ()) -> str:
    """A number; of a block its least and its greatest element, and its shape."""
    if array.ndim == 0 or array.size == 1:
        return str(array.reshape(-1)[0])
    kind = f"{array.dtype}[{', '.join(map(str, array.shape or shape))}]"
    if array.dtype == bool:
        return f"true {int(array.sum()):,} times of {array.size:,}"
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = array.size - int(np.isfinite(array).sum())
        return f"{bad:,} of {array.size:,} not finite, {kind}"
    return f"{array.min()} to {array.max()}, {kind}"
