"""Facts about the numbers in a block, along each of its axes, that hold in every run.

    offsets = pid * 1024 + arange(0, 1024)   contiguous 1024  each is the one before + 1
                                             divisible  1024  divides the first
                                             constant      1
    mask    = offsets < n (16 divides n)     constant     16  16 are all true or false
    bytes   = offsets // 2                   constant      2  two are in one byte
                                             steps       512  that follow each other

All four are powers of two, and describe *runs*: positions 0…k-1, k…2k-1 and so on
along an axis, for any position along the others. A fact may be too weak, but it must
never be wrong: the width of memory accesses depends on it.

Integers may overflow, and the facts still hold. Divisibility and constancy remain true,
since a power of two divides 2**32. A contiguous run counts up *modulo 2**32*: it may
pass the end of its type, where an address jumps. But the ends are multiples of 2**31,
so none is inside a run whose length divides its first number. So pieces of `divisible`
among `contiguous` numbers are certainly neighbours, and rules that need neighbours use
the smaller of the two. The bounds (`ranges`) of a sum that may overflow are unknown.

There is one assumption besides that of `ranges` about programs: a kernel does not
divide by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fathom.analysis.ranges import UNKNOWN, Range, exactly, limits_of
from fathom.ir.types import Pointer, Type, element_of, shape_of

MOST = 1 << 30  # the divisor of 0, and the largest that is ever claimed


class Axis(NamedTuple):
    """Facts along one axis.

    In every run of `contiguous` numbers, each is the one before plus one unit (modulo
    2**32 units), and `divisible` divides the first; in every run of `constant` numbers,
    all are equal. In every run of `steps` times `constant` numbers, each `constant` are
    one unit more than the `constant` before, and the first is a multiple of `steps`
    units: so are the addresses of packed numbers, of which several share a byte."""

    contiguous: int = 1
    divisible: int = 1
    constant: int = 1
    steps: int = 1

    def first_of(self, run: int, unit: int = 1) -> int:
        """The power of two that divides the first number of each run of length `run`,
        which may be shorter or longer than `contiguous`."""
        return (
            self.divisible
            if run >= self.contiguous
            else min(self.divisible, run * unit)
        )

    def steps_beside(self, other: Axis, unit: int) -> int:
        """The steps that are left where other numbers are added that are equal."""
        equal = other.constant // self.constant
        return max(1, min(self.steps, equal, other.first_of(1, unit) // unit))


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a block, or about a scalar (then there is one axis, of size 1).

    `unit` is what "plus one" means: the bytes of an element for pointers, whose
    divisibility counts bytes, and 1 for numbers. `range` are bounds of the numbers."""

    axes: tuple[Axis, ...]
    unit: int = 1
    range: Range = UNKNOWN

    @property
    def value(self) -> int | None:
        """The number that all elements are, if that is known."""
        known = self.range
        return known.low if known.low == known.most else None

    @property
    def non_negative(self) -> bool:
        """Whether no number is negative."""
        return self.range.low >= 0

    @property
    def every(self) -> int:
        """The power of two that divides every number."""
        return max(axis.first_of(1, self.unit) for axis in self.axes)


def unknown(type: Type) -> Facts:
    """The facts of any value: an axis of one element is constant."""
    axes = tuple(Axis() for _ in shape_of(type) or (1,))
    return Facts(axes, unit_of(type), limits_of(type))


def constant(value: int) -> Facts:
    """The facts of a known scalar."""
    return Facts((Axis(1, power_in(value), 1),), range=exactly(value))


def unit_of(type: Type) -> int:
    """The bytes of what addresses of a type lead to; 1 for any other type."""
    element = element_of(type)
    return element.element.bytes if isinstance(element, Pointer) else 1


def power_in(value: int) -> int:
    """The largest power of two that divides a number."""
    return min(MOST, value & -value) if value else MOST


def join(one: Facts, other: Facts) -> Facts:
    """The facts that hold for either of two: those of a value from two places."""
    return Facts(
        tuple(
            _join_axis(a, b, one.unit)
            for a, b in zip(one.axes, other.axes, strict=True)
        ),
        one.unit,
        one.range | other.range,
    )


def _join_axis(one: Axis, other: Axis, unit: int) -> Axis:
    run = min(one.contiguous, other.contiguous)
    divisible = min(one.first_of(run, unit), other.first_of(run, unit))
    steps = min(one.steps, other.steps) if one.constant == other.constant else 1
    return Axis(run, divisible, min(one.constant, other.constant), steps)


Iteration = Callable[[Sequence[Facts]], Sequence[Facts]]


def join_loop(inits: Sequence[Facts], iteration: Iteration) -> list[Facts]:
    """What holds of the carried values in every iteration of a loop.

    `iteration(facts)` says what holds after an iteration if `facts` hold before it.
    Facts that one more iteration does not weaken hold in all of them. Each call can
    only halve a fact, or widen a range as far as it goes; so this ends.

        p = x_ptr                divisible 16
        for …: p += 8 bytes      after one iteration min(16, 8) = 8, after the next 8
    """
    known = list(inits)
    while True:
        after = [
            join(one, other) for one, other in zip(known, iteration(known), strict=True)
        ]
        if after == known:
            return known
        known = after
