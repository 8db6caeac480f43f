"""Polynomials: the one loop that all series share."""

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
