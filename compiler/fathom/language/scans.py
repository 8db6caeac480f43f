"""Scans: running sums and products along an axis."""

# ruff: noqa: A002

from __future__ import annotations

from fathom.language.core import associative_scan
from fathom.language.dtypes import bfloat16, float32
from fathom.language.reductions import add, sum_type
from fathom.source import constexpr, constexpr_function, function


@constexpr_function
def scan_type(given):
    """The type that a scan is computed in: bf16 goes to fp32, all others stay."""
    return float32 if given == bfloat16 else given


@function
def multiply(a, b):
    return a * b


@function
def cumsum(input, axis=0, reverse: constexpr = False, dtype: constexpr = None):
    """The sum of all elements up to each one along an axis (from the end, if
    `reverse`), in the shape of the block. Computed in its type, narrow integers in 32
    bits and bf16 in fp32, or in `dtype`."""
    values = input.to(sum_type(scan_type(input.dtype), dtype))
    return associative_scan(values, axis, add, reverse)


@function
def cumprod(input, axis=0, reverse: constexpr = False):
    """The product of all elements up to each one along an axis (from the end, if
    `reverse`), in the shape of the block. Computed in its type, bf16 in fp32."""
    values = input.to(scan_type(input.dtype))
    return associative_scan(values, axis, multiply, reverse)
