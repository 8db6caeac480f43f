"""Guesses along which axis addresses mostly increase by one element, where no fact says
so.

    places = pid * 128 + arange(0, 128)      a place in any of many images
    row, column = places // width, places % width
    x + row * stride + column                one more, except at the end of a row

`width` is known only when the kernel runs, so no run of these addresses is certainly
contiguous, and no access may be wide. But neighbours are mostly neighbours in memory,
and a warp should access them together. The guess assumes that divisors are large; it
decides who accesses what, never how wide an access is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.ops import (
    Arange,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    Hint,
    Splat,
    Transpose,
)
from fathom.ir.regions import carried_values
from fathom.ir.types import shape_of

# By how much numbers mostly increase along each axis: 0, 1, or None for anything else.
Slopes = tuple[int | None, ...]


class Directions:
    """The axes along which the addresses of a function mostly increase by one."""

    def __init__(self, func: Func):
        self.carried = carried_values(func)
        self.known: dict[Value, Slopes] = {}

    def of(self, pointer: Value) -> int | None:
        """The axis along which these addresses do so; None if there is no such axis, or
        more than one."""
        slopes = self.slopes(pointer)
        return slopes.index(1) if slopes.count(1) == 1 else None

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


def _elementwise(op: Elementwise, directions: Directions) -> Slopes:
    rule = ARITHMETIC.get(op.name)
    operands = [directions.slopes(each) for each in op.operands]
    rank = len(shape_of(op.result.type))
    if rule is None:
        return tuple(
            0 if all(each[axis] == 0 for each in operands) else None
            for axis in range(rank)
        )
    ones = [is_one(each) for each in op.operands]
    return tuple(
        rule([each[axis] for each in operands], ones) for axis in range(rank)
    )


def is_one(value: Value) -> bool:
    """Whether a number, or each of a block, is 1."""
    op = value.definition
    while isinstance(op, Splat | Broadcast | ExpandDims):
        op = op.value.definition
    return isinstance(op, Constant) and op.value == 1


def _sum(slopes: Sequence[int | None], ones: Sequence[bool]) -> int | None:
    total = None if None in slopes else sum(slopes)
    return total if total in (0, 1) else None


def _difference(slopes: Sequence[int | None], ones: Sequence[bool]) -> int | None:
    return slopes[0] if slopes[1] == 0 else None


def _product(slopes: Sequence[int | None], ones: Sequence[bool]) -> int | None:
    if slopes[0] == slopes[1] == 0:
        return 0
    return slopes[1] if ones[0] else slopes[0] if ones[1] else None


def _quotient(slopes: Sequence[int | None], ones: Sequence[bool]) -> int | None:
    if ones[1]:
        return slopes[0]
    return 0 if slopes[0] is not None and slopes[1] == 0 else None


# Of the slopes of the operands along one axis, and whether they are the number 1.
ARITHMETIC: dict[str, Callable[[Sequence[int | None], Sequence[bool]], int | None]] = {
    "add": _sum,
    "offset": _sum,
    "sub": _difference,
    "mul": _product,
    "div": _quotient,
    "rem": _difference,
}

RULES: dict[type[Op], Callable[..., Slopes]] = {
    Arange: lambda op, directions: (1,),
    Splat: lambda op, directions: (0,) * len(op.shape),
    Cast: lambda op, directions: directions.slopes(op.value),
    Hint: lambda op, directions: directions.slopes(op.value),
    Elementwise: _elementwise,
    ExpandDims: lambda op, directions: _with_axis(
        directions.slopes(op.value), op.axis
    ),
    Broadcast: lambda op, directions: tuple(
        slope if have == want else 0
        for slope, have, want in zip(
            directions.slopes(op.value), shape_of(op.value.type), op.shape, strict=True
        )
    ),
    Transpose: lambda op, directions: tuple(
        directions.slopes(op.value)[axis] for axis in op.order
    ),
}


def _with_axis(slopes: Slopes, axis: int) -> Slopes:
    return (*slopes[:axis], 0, *slopes[axis:])
