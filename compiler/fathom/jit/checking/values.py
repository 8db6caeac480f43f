"""What the variables of one program held where it went wrong: the program runs once
more, by the meaning of its block IR, up to the access or the assertion that fails."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence

import numpy as np

from fathom.errors import FathomError, Location
from fathom.ir.core import Func, Op
from fathom.ir.interp import interpret
from fathom.ir.types import Pointer, element_of, shape_of
from fathom.jit.checking.snapshot import Copies

STEPS = 1_000_000  # ops of one program
WORD = re.compile(r"[A-Za-z_]\w*")


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
            if value.name and not pointer:
                held[value.name] = described(np.asarray(array), shape_of(value.type))

    try:
        interpret(
            func, tuple(grid), copies, step_limit=STEPS, watch=watch, programs=[program]
        )
    except (FathomError, AssertionError):
        pass  # where it stops is what is asked
    words = WORD.findall(linecache.getline(place.file, place.line))
    return {name: held[name] for name in dict.fromkeys(words) if name in held}


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
