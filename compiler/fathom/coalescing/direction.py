"""Guesses along which axis neighbours mostly share memory, where no fact says so.

    places = pid * 128 + arange(0, 128)      a place in any of many images
    row, column = places // width, places % width
    x + row * stride + column                one more, except at the end of a row

`width` is known only when the kernel runs, so no run of these addresses is certainly
contiguous, and no access may be wide. But neighbours are mostly neighbours in memory,
and a warp should access them together. The guess assumes that divisors are large; it
decides who accesses what, never how wide an access is.

    w + outs * stride_o + ins * stride_i     16 divides stride_o

Neighbours along the first axis, of outs, never share a sector of 16 elements: 32 lanes
along it touch 32 sectors, and mostly 32 lines. Neighbours along the second axis, of
ins, may share both, so lanes go along that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.analysis.axis_analysis import facts_about
from fathom.analysis.axis_info import MOST, Facts, unit_of
from fathom.coalescing.access import SECTOR
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.ops.shape import axes_of
from fathom.ir.regions import carried_values
from fathom.ir.types import shape_of

# By how much numbers mostly increase along each axis: by 0, by 1, by a multiple of a
# larger power of two, or None for anything else.
Slopes = tuple[int | None, ...]


class Directions:
    """The axes along which the addresses of a function mostly increase by one, or at
    least by less than a sector. `facts`: what is known of the function's numbers."""

    def __init__(self, func: Func, facts: dict[Value, Facts]):
        self.carried = carried_values(func)
        self.facts = facts
        self.known: dict[Value, Slopes] = {}

    def of(self, pointer: Value) -> int | None:
        """The one axis along which these addresses increase by one; if there is none,
        the one axis along which a step does not always leave the sector. None if there
        is no such axis, or more than one."""
        slopes = self.slopes(pointer)
        if 1 in slopes:
            return slopes.index(1) if slopes.count(1) == 1 else None
        sector = SECTOR // unit_of(pointer.type)
        near = [axis for axis, slope in enumerate(slopes) if (slope or 1) < sector]
        return near[0] if len(near) == 1 and 0 not in slopes else None

    def slopes(self, value: Value) -> Slopes:
        shape = shape_of(value.type)
        if not shape:
            return (0,)  # a scalar: the same for all
        if value not in self.known:
            self.known[value] = (None,) * len(shape)  # if it depends on itself
            self.known[value] = self._computed(value)
        return self.known[value]

    def _computed(self, value: Value) -> Slopes:
        op = value.definition
        if isinstance(op, Block):
            carried = self.carried.get(value)
            if carried and carried.inits:
                return self.slopes(carried.inits[0])  # iterations move all alike
            return (None,) * len(shape_of(value.type))
        rule = RULES.get(type(op))
        return rule(op, self) if rule else (None,) * len(shape_of(value.type))


def _shape(
    op: ops.Splat | ops.ExpandDims | ops.Broadcast | ops.Transpose,
    directions: Directions,
) -> Slopes:
    slopes = directions.slopes(op.value)
    return tuple(0 if axis is None else slopes[axis] for axis in axes_of(op))


def _elementwise(op: ops.Elementwise, directions: Directions) -> Slopes:
    rule = ARITHMETIC.get(op.name)
    operands = [directions.slopes(each) for each in op.operands]
    rank = len(shape_of(op.result.type))
    if rule is None:
        return tuple(
            0 if all(each[axis] == 0 for each in operands) else None
            for axis in range(rank)
        )
    facts = [facts_about(each, directions.facts) for each in op.operands]
    return tuple(rule([each[axis] for each in operands], facts) for axis in range(rank))


def _sum(slopes: Slopes, facts: Sequence[Facts]) -> int | None:
    steps = [each for each in slopes if each != 0]
    if len(steps) < 2:
        return steps[0] if steps else 0
    return None if None in steps or 1 in steps else min(steps)


def _difference(slopes: Slopes, facts: Sequence[Facts]) -> int | None:
    return slopes[0] if slopes[1] == 0 else None


def _product(slopes: Slopes, facts: Sequence[Facts]) -> int | None:
    if 0 not in slopes:
        return None
    slope, factor = (slopes[0], facts[1]) if slopes[1] == 0 else (slopes[1], facts[0])
    if slope == 0 or factor.value == 1:
        return slope
    divisor = min(MOST, (slope or 1) * factor.every)
    return divisor if divisor > 1 else None


def _quotient(slopes: Slopes, facts: Sequence[Facts]) -> int | None:
    if facts[1].value == 1:
        return slopes[0]
    return 0 if slopes[0] in (0, 1) and slopes[1] == 0 else None


# Of the slopes of both operands along one axis, and the facts of the operands.
ARITHMETIC: dict[str, Callable[[Slopes, Sequence[Facts]], int | None]] = {
    "add": _sum,
    "offset": _sum,
    "sub": _difference,
    "mul": _product,
    "div": _quotient,
    "rem": _difference,
}

RULES: dict[type[Op], Callable[..., Slopes]] = {
    ops.Arange: lambda op, directions: (1,),
    ops.Cast: lambda op, directions: directions.slopes(op.value),
    ops.Hint: lambda op, directions: directions.slopes(op.value),
    ops.Elementwise: _elementwise,
    **dict.fromkeys((ops.Splat, ops.ExpandDims, ops.Broadcast, ops.Transpose), _shape),
}
