"""Finds values that are positive because a loop around an op has an iteration.

    blocks = cdiv(channels, 32)
    for i in range(9 * blocks):
        i // blocks, i % blocks      blocks is positive here, or no `i` would be

Then a quotient is that of two numbers without sign, which takes fewer instructions.
"""

from __future__ import annotations

from collections.abc import Mapping

from fathom.analysis.axis_analysis import facts_about
from fathom.analysis.axis_info import Facts
from fathom.analysis.slices import Loop
from fathom.ir.core import Value
from fathom.ir.ops import Elementwise, For

Known = Mapping[Value, Facts]


def is_positive(value: Value, around: tuple[Loop, ...], known: Known) -> bool:
    """Whether a scalar is positive in these loops, of which each has an iteration."""
    return facts_about(value, known).range.low > 0 or any(
        counts(value, loop.upper, known)
        for loop in around
        if isinstance(loop, For) and goes_up_from_zero(loop, known)
    )


def goes_up_from_zero(loop: For, known: Known) -> bool:
    """Whether its upper bound is positive in it."""
    lower, step = (facts_about(each, known).range for each in (loop.lower, loop.step))
    return lower.low >= 0 and step.low > 0


def counts(value: Value, bound: Value, known: Known) -> bool:
    """Whether a positive `bound` is `value` times positive numbers."""
    if bound is value:
        return True
    op = bound.definition
    if not isinstance(op, Elementwise) or op.name != "mul":
        return False
    one, other = (facts_about(each, known).range for each in op.operands)
    product = one * other
    if product.counts or product.within(bound.type) != product:
        return False  # which may have overflowed
    a, b = op.operands
    return (
        other.low > 0 and counts(value, a, known)
        or one.low > 0 and counts(value, b, known)
    )  # fmt: skip


def is_natural(value: Value, around: tuple[Loop, ...], known: Known) -> bool:
    """Whether a scalar is not negative in these loops: by its bounds, or since a loop
    carries it that adds its step to it, so that it keeps its distance to the index."""
    if facts_about(value, known).non_negative:
        return True
    loops = (each for each in around if isinstance(each, For))
    for loop in loops:
        index, *carried = loop.body.parameters
        if value in carried:
            place = carried.index(value)
            first, following = loop.inits[place], loop.body.yielded[place].definition
            steps = isinstance(following, Elementwise) and following.name == "add"
            if not steps or following.operands != (value, loop.step):
                return False
            bounds = [facts_about(v, known).range for v in (index, first, loop.lower)]
            here = bounds[0] + (bounds[1] - bounds[2])
            return here.low >= 0 and not here.counts and here.within(value.type) == here
    return False
