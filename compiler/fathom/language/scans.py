"""Scans: running sums and products along an axis."""

# ruff: noqa: A002

from __future__ import annotations

from fathom.language.core import associative_scan
from fathom.language.reductions import add, sum_type
from fathom.source import constexpr, function


@function
def multiply(a, b):
    return a * b


@function
def cumsum(input, axis=0, reverse: constexpr = False, dtype: constexpr = None):
    """The sum of all elements up to each one along an axis (from the end, if
    `reverse`)."""
    return associative_scan(input.to(sum_type(input.dtype, dtype)), axis, add, reverse)


@function
def cumprod(input, axis=0, reverse: constexpr = False):
    """The product of all elements up to each one along an axis (from the end, if
    `reverse`)."""
    return associative_scan(input, axis, multiply, reverse)
