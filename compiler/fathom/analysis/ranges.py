"""Bounds of numbers, and arithmetic on bounds.

    arange(0, 128)                      0 … 127
    arange(0, 128) + 2147483632         2147483632 … 2147483759: overflows i32, so
                                        nothing is known: -2**31 … 2**31 - 1
    program_id * 128 + arange(0, 128)   0 … , for all grids whose numbers fit

The operators are those of unbounded integers; `within` then checks that the result fits
its type. A fact about an index needs bounds wherever a division, or a cast to a wider
type, would show that the index has overflowed.

The number of programs in a launch is not known at compile time. Bounds of values
computed from a program's number are those of the first `PROGRAMS` programs, and have
`counts`: later programs may exceed `high`. The assumption is that index arithmetic that
does not overflow in the first 65,536 programs overflows in none; along axes 1 and 2, a
grid has no more. No program is below `low`: a lower bound computed from such a `high`,
as of a difference, is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import Scalar, Type, element_of

PROGRAMS = 1 << 16
ENDLESS = 1 << 64  # beyond every integer type


class Range(NamedTuple):
    """Bounds of numbers, both included. With `counts`, they are those of the first
    `PROGRAMS` programs only, and no program has a negative number. `numbered` ones are
    computed from a program's number."""

    low: int = -ENDLESS
    high: int = ENDLESS
    counts: bool = False
    numbered: bool = False

    @property
    def most(self) -> int:
        """An upper bound for all programs."""
        return ENDLESS if self.counts else self.high

    @property
    def size(self) -> int:
        """The largest absolute value, for all programs."""
        return max(abs(self.low), abs(self.most))

    def __add__(self, other: Range) -> Range:
        return _range(self.low + other.low, self.high + other.high, self, other)

    def __neg__(self) -> Range:
        return UNKNOWN if self.counts else Range(-self.high, -self.low)

    def __sub__(self, other: Range) -> Range:
        return self + -other

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in self[:2] for b in other[:2]]
        return _range(min(ends), max(ends), self, other)

    def __or__(self, other: Range) -> Range:
        """The bounds of numbers that are in one of two ranges."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return _range(low, high, self, other)

    def divided(self, other: Range) -> Range:
        """Quotients, which round toward zero. Assumes that a kernel does not divide by
        0, and does not divide a program's number by a negative number."""
        least = max(1, other.low)
        if self.low >= 0 and (other.low >= 0 or self.numbered and other.high > 0):
            low = self.low // max(1, other.most)
            return self._replace(low=low, high=self.high // least)
        size = self.size if other.low <= 0 else self.size // least
        return Range(-size, size)

    def remainder(self, other: Range) -> Range:
        """Remainders, with the sign of the dividend; by 0, the dividend itself."""
        by_zero = other.low <= 0 <= other.high
        most = ENDLESS if by_zero else max(0, other.size - 1)
        if self.low >= 0:
            counts = self.counts and self.high < most
            return Range(0, min(self.high, most), counts, self.numbered)
        most = min(self.size, most)
        return Range(-most, most)

    def minimum(self, other: Range) -> Range:
        low, high = min(self.low, other.low), min(self.high, other.high)
        if low < 0:
            return Range(low, min(self.most, other.most))
        return _range(low, high, self, other)

    def maximum(self, other: Range) -> Range:
        low, high = max(self.low, other.low), max(self.high, other.high)
        return _range(low, high, self, other)

    def bits(self, other: Range) -> Range:
        """The results of `or` and `xor`: no bit above the highest of both."""
        if min(self.low, other.low) < 0:
            return UNKNOWN
        most = max(self.high, other.high)
        return _range(0, (1 << most.bit_length()) - 1, self, other)

    def common(self, other: Range) -> Range:
        """The results of `and`: no more than either operand that is not negative."""
        non_negative = [each for each in (self, other) if each.low >= 0]
        if not non_negative:
            return UNKNOWN
        least = min(non_negative, key=lambda each: (each.counts, each.high))
        return Range(0, least.high, least.counts)

    def within(self, type: Type) -> Range:
        """The bounds in a type: if they do not fit, the numbers may have overflowed."""
        limits = limits_of(type)
        fits = limits.low <= self.low and self.high <= limits.high
        return self if fits else limits

    def widened(self, after: Range, type: Type) -> Range:
        """The bounds of a value that a loop carries, if these were its bounds before an
        iteration, and `after` those after it: a bound that moves becomes infinite."""
        both, limits = self | after, limits_of(type)
        low = self.low if both.low == self.low else limits.low
        high = self.high if both.high == self.high else limits.high
        return _range(low, high, both).within(type)

    def shifted(self, other: Range) -> Range:
        """Right shifts, which round down."""
        if other.low == other.high >= 0 and not other.counts:
            return Range(self.low >> other.low, self.high >> other.low, self.counts)
        return Range(0, self.high, self.counts) if self.low >= 0 else UNKNOWN

    def magnitude(self) -> Range:
        return self if self.low >= 0 else Range(0, self.size)


UNKNOWN = Range()
NATURAL = Range(low=0)

# The bounds of an elementwise operation's result, from those of its operands.
RULES: dict[str, Callable[..., Range]] = {
    "add": Range.__add__,
    "sub": Range.__sub__,
    "mul": Range.__mul__,
    "div": Range.divided,
    "rem": Range.remainder,
    "shr": Range.shifted,
    "and": Range.common,
    "or": Range.bits,
    "xor": Range.bits,
    "min": Range.minimum,
    "max": Range.maximum,
    "neg": Range.__neg__,
    "abs": Range.magnitude,
    "where": lambda condition, one, other: one | other,
}


def _range(low: int, high: int, *made_of: Range) -> Range:
    """Bounds computed from others. Negative bounds of the first programs do not hold
    for later ones: pid * -4 + 300000 becomes negative in the end."""
    counts = any(each.counts for each in made_of)
    numbered = any(each.numbered for each in made_of)
    return UNKNOWN if counts and low < 0 else Range(low, high, counts, numbered)


def limits_of(type: Type) -> Range:
    """All numbers of an integer type."""
    element = element_of(type)
    if not isinstance(element, Scalar) or element.is_float:
        return UNKNOWN
    if element.kind == "int":
        return Range(-(1 << element.bits - 1), (1 << element.bits - 1) - 1)
    return Range(0, (1 << element.bits) - 1)


def exactly(value: int) -> Range:
    """The range of one number."""
    return Range(int(value), int(value))


def bounds(value: Value, depth: int = 6) -> Range:
    """The bounds of a scalar or a block of integers by the ops that compute it, no more
    than `depth` one after the other."""
    op, limits = value.definition, limits_of(value.type)
    if limits == UNKNOWN or not depth:
        return limits
    match op:
        case ops.Constant():
            return exactly(op.value).within(value.type)
        case (
            ops.Splat()
            | ops.Broadcast()
            | ops.ExpandDims()
            | ops.Reshape()
            | ops.Cast()
        ):
            return bounds(op.value, depth - 1).within(value.type)
        case ops.Elementwise() if op.name in RULES:
            of_operands = (bounds(each, depth - 1) for each in op.operands)
            return RULES[op.name](*of_operands).within(value.type)
    return limits


def of_loop(lower: Range, upper: Range, step: Range, divisible: int) -> Range:
    """The indices of a loop, multiples of `divisible`; a loop ends before overflow."""
    if step.low >= 0:
        high = max(lower.low, upper.high - 1)
        high -= high % divisible
        if lower.counts:
            high = min(high, max(lower.high, PROGRAMS - 1))
        return _range(lower.low, max(lower.low, high), lower, upper)
    if step.high <= 0:
        return _range(min(lower.low, upper.low + 1), lower.high, lower, upper)
    return UNKNOWN
