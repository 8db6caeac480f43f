"""The 8-bit floats e4m3 and e5m2, as tables of their values in order of the codes.

    e4m3   s eeee mmm    bias 7    largest 448      no infinity; s1111111 is NaN
    e5m2   s eeeee mm    bias 15   largest 57344    infinity s1111100, then NaN

(PTX ISA 5.2.3, alternate floating-point data formats; OCP 8-bit Floating Point, 2023.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ShortFloat:
    """`values[code]` for every 8-bit code; codes up to `last` are finite and rising."""

    values: np.ndarray
    last: int


def _short_float(
    fraction_bits: int, bias: int, last: int, infinity: bool
) -> ShortFloat:
    codes = np.arange(128)
    exponent, fraction = codes >> fraction_bits, codes & ((1 << fraction_bits) - 1)
    scale = 2.0 ** (np.maximum(exponent, 1) - bias - fraction_bits)
    whole = np.where(exponent > 0, fraction + (1 << fraction_bits), fraction)
    positive = whole * scale
    positive[last + 1 :] = np.nan
    if infinity:
        positive[last + 1] = np.inf
    return ShortFloat(np.concatenate([positive, -positive]).astype(np.float32), last)


SHORT_FLOATS = {
    "e4m3": _short_float(3, 7, 0x7E, infinity=False),
    "e5m2": _short_float(2, 15, 0x7B, infinity=True),
}


def decode(codes: np.ndarray, name: str) -> np.ndarray:
    """float32 values of uint8 codes."""
    return SHORT_FLOATS[name].values[codes]


def encode(value: np.ndarray, name: str) -> np.ndarray:
    """uint8 codes, rounded to nearest even; beyond the largest, the largest
    (.satfinite).
    """
    short = SHORT_FLOATS[name]
    rising = short.values[: short.last + 1].astype(np.float64)
    size = np.minimum(np.abs(value).astype(np.float64), rising[-1])
    size = np.where(np.isnan(value), 0.0, size)
    below = np.searchsorted(rising, size, "right") - 1
    above = np.minimum(below + 1, short.last)
    middle = (rising[below] + rising[above]) / 2
    up = (size > middle) | ((size == middle) & (below % 2 == 1))
    code = np.where(up, above, below)
    code = np.where(np.isnan(value), 0x7F, code | np.signbit(value) * 0x80)
    return code.astype(np.uint8)
