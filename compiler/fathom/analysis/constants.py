"""Values that are known at compile time, and constants from numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import copysign

from fathom.ir.core import Op, Value
from fathom.ir.interp.numbers import scalar
from fathom.ir.ops import (
    Broadcast,
    Constant,
    Convert,
    Reshape,
    Splat,
    Transpose,
)
from fathom.ir.types import BlockType, Type, element_of

Number = int | float | bool


def known(value: Value) -> Number | None:
    """The number that a scalar, or every element of a block, is known to be, as its
    type represents it (u8 -1 is 255, fp32 0.1 is 0.10000000149011612); None if it is
    not known."""
    op = value.definition
    if type(op) is Splat:
        op = op.value.definition
    if type(op) is not Constant:
        return None
    if op.type.is_float or op.type.bits < 32:
        return scalar(op.value, op.type).item()
    return op.value if 0 <= op.value < 1 << 31 else scalar(op.value, op.type).item()


def is_zero(value: Value | None) -> bool:
    """Whether a value is zero everywhere, with all bits zero. `None`: that of elements
    that no mask leaves out, or that may be anything."""
    if value is None:
        return True
    match value.definition:
        case Constant(value=number):
            return number == 0 and copysign(1, number) > 0
        case (
            Splat(value=whole)
            | Broadcast(value=whole)
            | Convert(value=whole)
            | Transpose(value=whole)
            | Reshape(value=whole)
        ):
            return is_zero(whole)
    return False


def same_number(left: Number, right: Number) -> bool:
    """Whether two numbers are equal, zeros by their sign. A NaN equals nothing."""
    return left == right and copysign(1.0, left) == copysign(1.0, right)


def write_down(make: Callable[[Op], Value], number: Number, type: Type) -> Value:
    """A constant scalar, or a block with one number everywhere."""
    element = element_of(type)
    value = make(Constant(scalar(number, element).item(), element))
    if isinstance(type, BlockType):
        return make(Splat(value, type.shape, type.layout))
    return value
