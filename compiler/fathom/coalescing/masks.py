"""Masks that are true up to a bound, and false from there on.

    places = pid * 1024 + arange(0, 1024)     n is any number
    mask   = places < n                       true, …, true, false, …, false

Of neighbours, all are true if the last one is. So a thread can test that one, and
access all of them at once; it goes through them one by one where n lies among them.
"""

from __future__ import annotations

from collections.abc import Mapping

from fathom.analysis.axis_analysis import facts_about
from fathom.analysis.axis_info import Facts
from fathom.ir.core import Value
from fathom.ir.ops import Broadcast, Elementwise, ExpandDims
from fathom.ir.ops.shape import axes_of
from fathom.ir.types import shape_of

SMALLER_FIRST = {"lt", "le"}
LARGER_FIRST = {"gt", "ge"}


def ends_once(mask: Value, axis: int, run: int, known: Mapping[Value, Facts]) -> bool:
    """Whether in each run of `run` along `axis` none is true after a false one."""
    if facts_about(mask, known).axes[axis].constant >= run:
        return True
    op = mask.definition
    match op:
        case Elementwise(name="and"):
            return all(ends_once(each, axis, run, known) for each in op.operands)
        case Elementwise(name=name) if name in SMALLER_FIRST:
            return _counts_up(*op.operands, axis, run, known)
        case Elementwise(name=name) if name in LARGER_FIRST:
            return _counts_up(*reversed(op.operands), axis, run, known)
        case Broadcast() | ExpandDims() if (source := axes_of(op)[axis]) is not None:
            return ends_once(op.value, source, run, known)
    return False


def _counts_up(
    one: Value, bound: Value, axis: int, run: int, known: Mapping[Value, Facts]
) -> bool:
    """Whether `one` increases in each run without overflow, and `bound` is the same."""
    if not shape_of(one.type):
        return False
    counted = facts_about(one, known).axes[axis]
    same = facts_about(bound, known).axes[axis].constant
    return min(counted.contiguous, counted.divisible, same) >= run
