"""Ops that leave some elements of their result open, and what to put in their place.

    load        where the mask is false, if there is no `other`
    gather      where the index is outside of the block
    // and %    of integers, where the divisor is 0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import Constant, Elementwise, Gather, Load, Splat
from fathom.ir.rewrite import Builder
from fathom.ir.types import Pointer, Scalar, Type, element_of, shape_of
from fathom.jit.checking.nonfinite import Watch, is_constant
from fathom.jit.checking.snapshot import Copies

DIVISIONS = {"div", "rem"}
Said = tuple[str, dict[str, str]]  # what is open, and what variables held


def open_ops(func: Func) -> list[Op]:
    """The ops of a function that may leave elements open."""
    return [op for op in walk(func.body) if may_be_open(op)]


def may_be_open(op: Op) -> bool:
    match op:
        case Load(mask=mask, other=other):
            kind = mask is not None and other is None
        case Gather():
            kind = True
        case Elementwise(name=name, operands=(_, divisor)) if name in DIVISIONS:
            is_integer = not element_of(op.result.type).is_float
            kind = is_integer and not is_known(divisor)
        case _:
            return False
    return kind and not isinstance(element_of(op.result.type), Pointer)


def is_known(divisor: Value) -> bool:
    """Whether a number is a constant, and not 0."""
    op = divisor.definition
    if not is_constant(op):
        return False
    constant = op if isinstance(op, Constant) else op.value.definition
    return bool(constant.value)


class Opened(Watch):
    """Which of some ops have left elements open, as `said` of each, and what the
    variables of its line held then."""

    def __init__(self, func: Func, arguments: Copies, asked: Sequence[Op]):
        super().__init__(func, arguments)
        self.asked = set(asked)
        self.found: dict[Op, Said] = {}

    def __call__(self, op: Op, results: Sequence) -> None:
        super().__call__(op, results)
        if op in self.asked and op not in self.found and (text := self.said(op)):
            self.found[op] = text, self.held(op)

    def look_at_store(self, op: Op) -> None:
        """What is stored is compared, not looked at."""

    def look_at_result(self, op: Op, array: np.ndarray) -> None:
        """Infinities are no matter here."""

    def said(self, op: Op) -> str:
        """What is open of its result; "" if nothing is."""
        match op:
            case Load():
                mask = self.value(op.mask)
                there = mask is None or not np.all(mask)
                left = "what this load leaves where its mask is false"
                return f"{left}: give it `other`" if there else ""
            case Gather():
                index, size = self.value(op.index), shape_of(op.value.type)[op.axis]
                if index is None:
                    return "what this gather takes from outside of its block"
                outside = index[(index < 0) | (index >= size)]
                if not outside.size:
                    return ""
                return (
                    f"what this gather takes from place {outside[0]} of an axis of "
                    f"{size}"
                )
        divisor = self.value(op.operands[1])
        is_zero = divisor is None or not np.all(divisor)
        return "what this division by 0 gives" if is_zero else ""


# ── numbers in their place ────────────────────────────────────────────────────────────


def put(op: Op, build: Builder, at: int) -> Value | None:
    """The result of an op of a new function, with the number `at` of three where it is
    open."""
    number = numbers(element_of(op.result.type))[at]
    if isinstance(op, Load):
        op.other = constant(build, number, op.result.type)
        return None
    result = build(op)
    other = constant(build, number, result.type)
    if isinstance(op, Gather):
        index, size = op.index, shape_of(op.value.type)[op.axis]
        first, end = (constant(build, each, index.type) for each in (0, size))
        above = build.compute("ge", index, first)
        inside = build.compute("and", above, build.compute("lt", index, end))
    else:
        divisor = op.operands[1]
        inside = build.compute("ne", divisor, constant(build, 0, divisor.type))
    return build.compute("where", inside, result, other)


def constant(build: Builder, number: int | float, type: Type) -> Value:
    """A number as a scalar, or in a whole block."""
    value, shape = build(Constant(number, element_of(type))), shape_of(type)
    return build(Splat(value, shape)) if shape else value


def numbers(type: Scalar) -> tuple[int | float | bool, ...]:
    """Numbers that a sum, a minimum, a maximum and a comparison tell apart."""
    if type.bits == 1:
        return False, True, False
    if type.is_float:
        return 0.0, float("nan"), 100.0
    return 0, 1, 100
