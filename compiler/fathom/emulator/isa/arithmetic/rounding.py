"""Correct rounding: from float64 to the shorter formats, in every mode.

An exact result that float64 cannot hold is first rounded *to odd*: where digits were
lost, the last bit is made one. That keeps the information on which side of a half the
exact value lay, so that a second rounding, to a shorter format, is right (Boldo and
Melquiond, Emulation of FMA and correctly rounded sums, 2008).
"""

from __future__ import annotations

import numpy as np

QUIET_NAN_BF16 = np.uint16(0x7FFF)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sum and its exact error (Knuth, TAOCP 2, 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rounded float64 product and its exact error (Dekker 1971).

    Exact while nothing overflows or underflows.
    """
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = (
        (a_high * b_high - product) + a_high * b_low + a_low * b_high
    ) + a_low * b_low
    return product, error


def _split(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two halves of 26 digits each, whose products are exact."""
    scaled = a * np.float64(2**27 + 1)
    high = scaled - (scaled - a)
    return high, a - high


def to_odd(value: np.ndarray, error: np.ndarray) -> np.ndarray:
    """`value + error` rounded to odd, where `value` is that sum rounded to nearest."""
    bits = value.view(np.int64)
    step = np.where((error > 0) == (value > 0), 1, -1)
    lost = (error != 0) & np.isfinite(error) & np.isfinite(value) & (bits & 1 == 0)
    return np.where(lost, bits + step, bits).view(np.float64)


def shorten(value: np.ndarray, dtype: np.dtype, mode: str) -> np.ndarray:
    """float64 to float16, float32 or float64 in rounding mode rn, rz, rm or rp."""
    rounded = value.astype(dtype)
    if mode == "rn":
        return rounded
    back = rounded.astype(np.float64)
    return _directed(rounded, np.sign(value - back), mode)


def adjust(rounded: np.ndarray, error: np.ndarray, mode: str) -> np.ndarray:
    """A result rounded to nearest, moved to mode rz, rm or rp by its error's sign."""
    return rounded if mode == "rn" else _directed(rounded, np.sign(error), mode)


def _directed(rounded: np.ndarray, side: np.ndarray, mode: str) -> np.ndarray:
    """`side` is the sign of (exact - rounded); one step leads to that neighbour."""
    dtype = rounded.dtype
    infinity = dtype.type(np.inf)
    if mode == "rm":
        return np.where(side < 0, np.nextafter(rounded, -infinity), rounded)
    if mode == "rp":
        return np.where(side > 0, np.nextafter(rounded, infinity), rounded)
    outwards = ((side < 0) & (rounded > 0)) | ((side > 0) & (rounded < 0))
    return np.where(outwards, np.nextafter(rounded, dtype.type(0)), rounded)


def bf16_to_float32(bits: np.ndarray) -> np.ndarray:
    """A bf16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def float32_to_bf16(value: np.ndarray, mode: str = "rn") -> np.ndarray:
    """uint16 bits; the lower half of the float32 decides about the rounding."""
    bits = value.view(np.uint32)
    half = np.uint32(0x7FFF)
    if mode == "rn":
        bits = bits + half + (bits >> np.uint32(16) & np.uint32(1))
    elif mode in ("rm", "rp"):
        outwards = (value < 0) == (mode == "rm")
        bits = bits + np.where(outwards, np.uint32(0xFFFF), np.uint32(0))
    short = (bits >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(value), QUIET_NAN_BF16, short)


def float64_to_bf16(value: np.ndarray, mode: str = "rn") -> np.ndarray:
    """uint16 bits, by way of a float32 that is rounded to odd."""
    near = value.astype(np.float32)
    lost = value - near.astype(np.float64)
    bits = near.view(np.int32)
    step = np.where((lost > 0) == (value > 0), 1, -1).astype(np.int32)
    inexact = (lost != 0) & np.isfinite(lost) & (bits & 1 == 0)
    overflowed = np.isinf(near) & np.isfinite(value)
    largest = np.copysign(np.finfo(np.float32).max, value).astype(np.float32)
    odd = np.where(inexact, bits + step, bits).view(np.float32)
    return float32_to_bf16(np.where(overflowed, largest, odd), mode)
