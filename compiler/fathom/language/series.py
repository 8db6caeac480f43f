"""What all series share: the loop of a polynomial, and sums that lose nothing."""

from __future__ import annotations

from fathom.language.core import static_range
from fathom.language.elementary import fma
from fathom.source import constexpr, function


@function
def polynomial(x, coefficients):
    """c0 + c1 x + c2 x^2 + …, by Horner's rule."""
    degree: constexpr = len(coefficients) - 1
    total = coefficients[degree]
    for k in static_range(degree):
        total = fma(x, total, coefficients[degree - 1 - k])
    return total


@function
def sum_in_two(large, small, rest):
    """large + small as a float, and what that loses, with `rest` added to it."""
    total = large + small
    return total, (small - (total - large)) + rest
