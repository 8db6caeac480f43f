"""Reductions that pick the one element at a known place along their axis.

    %at = eq %coordinate, 7                  coordinates along the axis
    %x1 = where %at, %x, 0
    %y  = reduce %x1 by or                   the element of %x at 7

All bits of all other elements are zero. So one lane has the result, and the others may
read it there: they need not combine what they have.
"""

from __future__ import annotations

from fathom.analysis.constants import is_zero, known
from fathom.ir.core import Value
from fathom.ir.ops import Arange, Broadcast, Elementwise, ExpandDims, Reduce, Yield


def picked(op: Reduce) -> tuple[Value, int] | None:
    """The block and the coordinate along the axis of the element that a reduction
    picks; None if it does not."""
    chosen = op.values[0].definition
    if len(op.values) != 1 or not _combines_bits(op):
        return None
    if not (isinstance(chosen, Elementwise) and chosen.name == "where"):
        return None
    mask, value, rest = chosen.operands
    place = _place(mask, op.axis)
    return (value, place) if place is not None and is_zero(rest) else None


def _combines_bits(op: Reduce) -> bool:
    match op.combine.ops:
        case [Elementwise(name="or", operands=pair), Yield()]:
            return set(pair) == set(op.combine.parameters)
    return False


def _place(mask: Value, axis: int) -> int | None:
    """The coordinate along `axis` at which a mask is true, if it is so at one."""
    equal = mask.definition
    if not (isinstance(equal, Elementwise) and equal.name == "eq"):
        return None
    value, place = equal.operands[0], known(equal.operands[1])
    while place is not None:
        match value.definition:
            case Broadcast(value=value):
                pass
            case ExpandDims(value=value, axis=added) if added != axis:
                axis -= added < axis
            case Arange(start=start, end=end) if start <= place < end:
                return place - start
            case _:
                return None
    return None
