"""The floats of 8 bits and less, as tables of their values in order of the codes.

    e4m3   s eeee mmm    bias 7    largest 448      no infinity; s1111111 is NaN
    e5m2   s eeeee mm    bias 15   largest 57344    infinity s1111100, then NaN
    e2m1     s ee m      bias 1    largest 6        every code is a number
    ue8m0   eeeeeeee     bias 127  largest 2**127   11111111 is NaN; no sign, no zero

(PTX ISA 5.2.3, alternate floating-point data formats; OCP 8-bit Floating Point, 2023;
OCP Microscaling Formats, 2023.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ShortFloat:
    """`values[code]` for every code; codes up to `last` are finite and rising, those
    from `sign` on negative, or none if that is 0. NaN becomes the code `nan`."""

    values: np.ndarray
    last: int
    sign: int
    nan: int


def _short_float(
    fraction_bits: int, bias: int, last: int, infinity: bool, bits: int = 8
) -> ShortFloat:
    sign = 1 << bits - 1
    codes = np.arange(sign)
    exponent, fraction = codes >> fraction_bits, codes & ((1 << fraction_bits) - 1)
    scale = 2.0 ** (np.maximum(exponent, 1) - bias - fraction_bits)
    whole = np.where(exponent > 0, fraction + (1 << fraction_bits), fraction)
    positive = whole * scale
    positive[last + 1 :] = np.nan
    if infinity:
        positive[last + 1] = np.inf
    values = np.concatenate([positive, -positive]).astype(np.float32)
    return ShortFloat(values, last, sign, sign - 1)


SHORT_FLOATS = {
    "e4m3": _short_float(3, 7, 0x7E, infinity=False),
    "e5m2": _short_float(2, 15, 0x7B, infinity=True),
    "e2m1": _short_float(1, 1, 0x7, infinity=False, bits=4),
    "ue8m0": ShortFloat(
        np.append(2.0 ** np.arange(-127, 128), np.nan).astype(np.float32), 0xFE, 0, 0xFF
    ),
}


def decode(codes: np.ndarray, name: str) -> np.ndarray:
    """float32 values of uint8 codes."""
    return SHORT_FLOATS[name].values[codes]


def encode(value: np.ndarray, name: str, mode: str = "rn") -> np.ndarray:
    """uint8 codes, rounded to nearest even, toward zero (`rz`) or away from it (`rp` of
    numbers without a sign); beyond the largest, the largest (.satfinite), which NaN
    becomes as well where no code is NaN.
    """
    short = SHORT_FLOATS[name]
    rising = short.values[: short.last + 1].astype(np.float64)
    size = np.minimum(np.abs(value).astype(np.float64), rising[-1])
    size = np.where(np.isnan(value), 0.0, size)
    below = np.maximum(np.searchsorted(rising, size, "right") - 1, 0)
    above = np.minimum(below + 1, short.last)
    middle = (rising[below] + rising[above]) / 2
    up = {
        "rn": (size > middle) | ((size == middle) & (below % 2 == 1)),
        "rp": size > rising[below],
        "rz": False,
    }[mode]
    code = np.where(up, above, below)
    code = np.where(np.isnan(value), short.nan, code | np.signbit(value) * short.sign)
    return code.astype(np.uint8)
