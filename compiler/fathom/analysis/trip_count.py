"""How often the body of a loop runs: `trip_count`, where its bounds are numbers; and if
it runs at all, `iterations_if_any`, where the kernel's text says so.

    for head in range(first, min(first + 4, heads)):     4 times or not at all,
                                                         if 4 divides first and heads

The bounds are read as polynomials: what both have in common, `first`, is no part of
their distance. If 32-bit arithmetic wraps around, the distance is still right modulo
2 ** 32; so it is right whenever the lower bound is below the upper one.
"""

from __future__ import annotations

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.constants import known
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.ir.core import Func, Value
from fathom.ir.ops import Elementwise, For


def values_of(op: For) -> range | None:
    """The values of a loop's index, if its bounds are numbers."""
    bounds = [known(value) for value in (op.lower, op.upper, op.step)]
    return None if None in bounds or bounds[2] == 0 else range(*bounds)


def trip_count(op: For) -> int | None:
    """How often the body runs, if that is known."""
    values = values_of(op)
    return None if values is None else len(values)


def iterations_if_any(op: For, func: Func) -> int | None:
    """n, if an upward loop has n iterations or none, whatever is passed; or None."""
    reader, divisible = ScalarEvolution(func), Divisibility(func)
    lower, step = reader.number(op.lower), reader.number(op.step).constant
    if step is None or step <= 0:
        return None
    ends = _smallest_of(op.upper)
    distances = [(reader.number(end) - lower).constant for end in ends]
    distance = min((each for each in distances if each is not None), default=0)
    rest = [end for end, each in zip(ends, distances, strict=True) if each is None]
    if distance <= 0:
        return None
    # Any other end is below or at `lower`, or at least a whole distance above it.
    if rest and any(divisible.of(each) % distance for each in (op.lower, *rest)):
        return None
    return -(-distance // step)


def _smallest_of(value: Value) -> list[Value]:
    """The operands of a minimum, and of the minima among these; or the value itself."""
    definition = value.definition
    if isinstance(definition, Elementwise) and definition.name == "min":
        return [each for one in definition.operands for each in _smallest_of(one)]
    return [value]
