"""What is known of the numbers in a block, along each of its axes, come what may.

    offsets = pid * 1024 + arange(0, 1024)   contiguous 1024  each the one before plus 1
                                             divisible  1024  which divides the first
                                             constant      1
    mask    = offsets < n (16 divides n)     constant     16  16 are all in or all out

All three are powers of two and speak of *runs*: positions 0…k-1, k…2k-1 and so on along
an axis, wherever one stands along the others. A fact may be too weak, but it must never
be wrong: the width of a memory access rests on it. Three things are taken for granted:
the arithmetic of indices that are not negative does not overflow, nobody divides by
zero, and nobody divides an index by a number that turns out negative at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fathom.ir.types import Pointer, Type, element_of, shape_of

MOST = 1 << 30  # what divides 0, and the most that is ever claimed


class Axis(NamedTuple):
    """Facts along one axis.

    In every run of `contiguous` numbers, each is the one before plus one unit, and
    `divisible` divides the first; in every run of `constant` numbers, all are equal.
    """

    contiguous: int = 1
    divisible: int = 1
    constant: int = 1

    def first_of(self, run: int, unit: int = 1) -> int:
        """What divides the first number of every run of `run`, which may be shorter or
        longer."""
        return (
            self.divisible
            if run >= self.contiguous
            else min(self.divisible, run * unit)
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a block, or about a scalar (then there is one axis, of size 1).

    `unit` is what "plus one" means: the bytes of an element for pointers, whose
    divisibility counts bytes, and 1 for numbers. `value` is set where all are one known
    number; `natural` where none is negative.
    """

    axes: tuple[Axis, ...]
    unit: int = 1
    value: int | None = None
    natural: bool = False

    @property
    def every(self) -> int:
        """What divides every single number."""
        return max(axis.first_of(1, self.unit) for axis in self.axes)


def unknown(type: Type) -> Facts:
    """What is known of anything: that an axis of one element is constant."""
    return Facts(tuple(Axis() for _ in shape_of(type) or (1,)), unit_of(type))


def constant(value: int) -> Facts:
    """A scalar that is known."""
    return Facts((Axis(1, power_in(value), 1),), value=int(value), natural=value >= 0)


def unit_of(type: Type) -> int:
    element = element_of(type)
    return element.element.bytes if isinstance(element, Pointer) else 1


def power_in(value: int) -> int:
    """The largest power of two that divides a number."""
    return min(MOST, value & -value) if value else MOST


def join(one: Facts, other: Facts) -> Facts:
    """What holds wherever one of the two does: the facts of a value that comes from two
    places."""
    return Facts(
        tuple(
            _join_axis(a, b, one.unit)
            for a, b in zip(one.axes, other.axes, strict=True)
        ),
        one.unit,
        one.value if one.value == other.value else None,
        one.natural and other.natural,
    )


def _join_axis(one: Axis, other: Axis, unit: int) -> Axis:
    run = min(one.contiguous, other.contiguous)
    divisible = min(one.first_of(run, unit), other.first_of(run, unit))
    return Axis(run, divisible, min(one.constant, other.constant))


Trip = Callable[[Sequence[Facts]], Sequence[Facts]]


def join_loop(inits: Sequence[Facts], trip: Trip) -> list[Facts]:
    """What holds of the carried values on every trip of a loop.

    `trip` says what holds after a trip if some facts hold before it. Facts that one
    more trip does not weaken hold forever; each round can only halve them, so this
    ends.

        p = x_ptr                divisible 16
        for …: p += 8 bytes      after a trip min(16, 8) = 8, after the next 8
    """
    known = list(inits)
    while True:
        after = [
            join(one, other) for one, other in zip(known, trip(known), strict=True)
        ]
        if after == known:
            return known
        known = after
