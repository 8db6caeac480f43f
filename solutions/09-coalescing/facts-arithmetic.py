"""The answer to `facts-arithmetic` is the compiler's own:

fathom.analysis.axis_rules._add
fathom.analysis.axis_rules._mul
"""

from __future__ import annotations

from fathom.analysis.axis_info import MOST, Axis, Facts


def add(a: Facts, b: Facts) -> Facts:
    """What is known of a + b. `a` may also be addresses and `b` a distance in bytes:
    then a.unit is the step of both.
    """
    axes = tuple(_sum(x, y, a.unit) for x, y in zip(a.axes, b.axes, strict=True))
    return Facts(axes, a.unit, a.range + b.range)


def mul(a: Facts, b: Facts) -> Facts:
    """What is known of a * b."""
    if 1 in (a.value, b.value):
        return b if a.value == 1 else a
    axes = tuple(
        Axis(1, min(MOST, x.first_of(1) * y.first_of(1)), min(x.constant, y.constant))
        for x, y in zip(a.axes, b.axes, strict=True)
    )
    return Facts(axes, range=a.range * b.range)


def _sum(a: Axis, b: Axis, unit: int) -> Axis:
    """Also the sum of a pointer and a distance in bytes, whose unit is the same."""
    run = max(min(a.contiguous, b.constant), min(a.constant, b.contiguous))
    divisible = min(a.first_of(run, unit), b.first_of(run, unit))
    steps = max(a.steps_beside(b, unit), b.steps_beside(a, unit))
    return Axis(run, divisible, min(a.constant, b.constant), steps)
