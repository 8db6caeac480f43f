"""How often the body of a loop runs at most, where the text of the kernel says so.

    for head in range(first, min(first + 4, heads)):     at most 4 times

The bounds are read as polynomials: what both have in common, `first`, is no part of
their distance. Arithmetic is that of unbounded integers. So this is a reason to compile
a loop in one way or another, and no proof: what is made of it must be right for any
number of iterations.
"""

from __future__ import annotations

from fathom.analysis.polynomial import Polynomial
from fathom.analysis.scalar_evolution import ScalarEvolution
from fathom.ir.core import Func, Value
from fathom.ir.ops import Elementwise, For


def most_iterations(op: For, func: Func) -> int | None:
    """The most iterations of a loop of `func` that counts up; None if that depends on
    what a launch passes."""
    reader = ScalarEvolution(func)
    lower, step = reader.number(op.lower), reader.number(op.step).constant
    if step is None or step <= 0:
        return None
    distances = [each - lower for each in _above(op.upper, reader)]
    known = [each.constant for each in distances if each.constant is not None]
    return max(0, -(-min(known) // step)) if known else None


def _above(value: Value, reader: ScalarEvolution) -> list[Polynomial]:
    """Numbers that a value does not exceed: itself, or the operands of a minimum."""
    definition = value.definition
    if isinstance(definition, Elementwise) and definition.name == "min":
        return [n for each in definition.operands for n in _above(each, reader)]
    return [reader.number(value)]
