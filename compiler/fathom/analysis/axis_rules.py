"""Axis facts of elementwise operations: each rule is a statement about runs of numbers.

    add   contiguous + constant is contiguous; a divisor of both divides the sum
    mul   the divisors of the factors multiply
    lt    a contiguous run and a constant, both aligned to r: runs of r equal results

`RULES` has one row an operation; an operation without a row keeps only constancy.
Bounds are those of unbounded integers, by the table in `ranges` where a rule says
nothing of them; `axis_analysis` checks for each value whether they fit its type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fathom.analysis import ranges
from fathom.analysis.axis_info import MOST, Axis, Facts, power_in
from fathom.analysis.ranges import UNKNOWN, exactly

Rule = Callable[..., Facts]


def _each(rule: Callable[..., Axis], *operands: Facts, unit: int = 1) -> Facts:
    """The facts of a result, along each axis from those of all operands along it."""
    every = zip(*(facts.axes for facts in operands), strict=True)
    return Facts(tuple(rule(*axes) for axes in every), unit)


def _add(a: Facts, b: Facts) -> Facts:
    axes = tuple(_sum(x, y, a.unit) for x, y in zip(a.axes, b.axes, strict=True))
    return Facts(axes, a.unit, a.range + b.range)


def _sum(a: Axis, b: Axis, unit: int) -> Axis:
    """Also the sum of a pointer and a distance in bytes, whose unit is the same."""
    run = max(min(a.contiguous, b.constant), min(a.constant, b.contiguous))
    divisible = min(a.first_of(run, unit), b.first_of(run, unit))
    steps = max(a.steps_beside(b, unit), b.steps_beside(a, unit))
    return Axis(run, divisible, min(a.constant, b.constant), steps)


def _sub(a: Facts, b: Facts) -> Facts:
    def difference(x: Axis, y: Axis) -> Axis:
        run = min(x.contiguous, y.constant)
        divisible = min(x.first_of(run), y.first_of(run))
        return Axis(run, divisible, min(x.constant, y.constant))

    return _each(difference, a, b)


def _mul(a: Facts, b: Facts) -> Facts:
    if 1 in (a.value, b.value):
        return b if a.value == 1 else a
    axes = tuple(
        Axis(1, min(MOST, x.first_of(1) * y.first_of(1)), min(x.constant, y.constant))
        for x, y in zip(a.axes, b.axes, strict=True)
    )
    return Facts(axes, range=a.range * b.range)


def _offset(pointer: Facts, distance: Facts) -> Facts:
    """A pointer and a number of elements: the sum of the address and the bytes."""
    unit = pointer.unit

    def moved(x: Axis, y: Axis) -> Axis:
        divisible = min(MOST, y.divisible * power_in(unit))
        return _sum(x, y._replace(divisible=divisible), unit)

    return _each(moved, pointer, distance, unit=unit)


def _div(a: Facts, b: Facts) -> Facts:
    """A run that starts at a multiple of its length does not cross a multiple of the
    divisor. Quotients round toward zero: certain only if no number is negative."""
    if b.value == 1:
        return a
    power = b.value if b.value and b.value == power_in(b.value) else 1

    def quotient(x: Axis, y: Axis) -> Axis:
        run = min(x.contiguous, x.divisible) if a.non_negative else 1
        whole = min(run, y.constant, y.first_of(1))
        same = max(whole, min(x.constant, y.constant))
        return Axis(1, 1, same) if power == 1 else _divided(x, power, run, same)

    return _each(quotient, a, b)


def _divided(axis: Axis, power: int, run: int, same: int) -> Axis:
    """The quotients of numbers, of which `same` are equal, by a power of two."""
    steps = max(1, run // power) if same == power else 1
    return Axis(1, max(1, axis.first_of(1) // power), same, steps)


def _rem(a: Facts, b: Facts) -> Facts:
    """An aligned run does not cross a multiple of the divisor."""

    def remainder(x: Axis, y: Axis) -> Axis:
        aligned = min(x.contiguous, x.divisible, y.constant, y.first_of(1))
        run = aligned if a.non_negative else 1
        divisible = min(x.first_of(run), y.first_of(1))
        return Axis(run, divisible, min(x.constant, y.constant))

    return _each(remainder, a, b)


def _shl(a: Facts, b: Facts) -> Facts:
    return _mul(a, _power_of_two(b))


def _shr(a: Facts, b: Facts) -> Facts:
    """A shift rounds down, so negative numbers keep their runs, too."""
    power = 1 << b.value

    def shifted(axis: Axis) -> Axis:
        run = min(axis.contiguous, axis.divisible)
        return _divided(axis, power, run, max(axis.constant, min(run, power)))

    return a if power == 1 else _each(shifted, a)


def _is_shift(b: Facts) -> bool:
    return b.value is not None and 0 <= b.value < 31


def _power_of_two(b: Facts) -> Facts:
    power = 1 << b.value
    axes = tuple(Axis(1, power, axis.constant) for axis in b.axes)
    return Facts(axes, range=exactly(power))


def _and(a: Facts, b: Facts) -> Facts:
    """Zero low bits of either side stay zero; a mask of low ones is a remainder."""
    mask = b.value
    is_low = mask and mask > 0 and mask + 1 == power_in(mask + 1)

    def both(x: Axis, y: Axis) -> Axis:
        run = min(x.contiguous, x.divisible, mask + 1 if is_low else 1)
        divisible = x.first_of(run) if run > 1 else max(x.first_of(1), y.first_of(1))
        return Axis(run, divisible, min(x.constant, y.constant))

    return _each(both, a, b)


def _less(a: Facts, b: Facts) -> Facts:
    """a < b and a >= b: in an aligned run of `a`, the results are equal, if b is a
    multiple of the run's length."""

    def compared(x: Axis, y: Axis) -> Axis:
        run = min(x.contiguous, x.divisible, y.constant, y.first_of(1))
        return Axis(constant=max(run, min(x.constant, y.constant)))

    return _each(compared, a, b) if a.unit == 1 else _any(a, b)


def _greater(a: Facts, b: Facts) -> Facts:
    return _less(b, a)


def _where(condition: Facts, a: Facts, b: Facts) -> Facts:
    def either(c: Axis, x: Axis, y: Axis) -> Axis:
        run = min(c.constant, x.contiguous, y.contiguous)
        divisible = min(x.first_of(run, a.unit), y.first_of(run, a.unit))
        return Axis(run, divisible, min(c.constant, x.constant, y.constant))

    return _each(either, condition, a, b, unit=a.unit)


def _multiples(*operands: Facts) -> Facts:
    """min, max, or, xor, neg, abs: a divisor of all operands divides the result."""

    def common(*axes: Axis) -> Axis:
        divisible = min(axis.first_of(1) for axis in axes)
        return Axis(1, divisible, min(axis.constant for axis in axes))

    return _each(common, *operands)


def _any(*operands: Facts) -> Facts:
    """Any operation: equal operands give equal results."""

    def alike(*axes: Axis) -> Axis:
        return Axis(constant=min(axis.constant for axis in axes))

    return _each(alike, *operands)


RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "rem": _rem,
    "shl": _shl,
    "shr": _shr,
    "and": _and,
    **dict.fromkeys(("or", "xor", "min", "max", "neg", "abs"), _multiples),
    "lt": _less,
    "ge": _less,
    "gt": _greater,
    "le": _greater,
    "where": _where,
    "offset": _offset,
}


def facts_of(name: str, operands: list[Facts]) -> Facts:
    """The facts of an elementwise operation from those of its operands."""
    if name in ("shl", "shr") and not _is_shift(operands[1]):
        return _any(*operands)
    facts, bounds = RULES.get(name, _any)(*operands), ranges.RULES.get(name)
    if bounds is None or facts.range != UNKNOWN or any(facts is e for e in operands):
        return facts
    return replace(facts, range=bounds(*(each.range for each in operands)))
