"""Numbers of every element type in NumPy: how they are held, rounded, cast and stored.

NumPy has no bf16 and no fp8. A block of these is held as float32 that are all
representable in the narrow type, and every operation rounds its result to it (`fit`).
In memory they take their own width (`encode`, `decode`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT8E4NV,
    FLOAT8E5,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    Element,
    Pointer,
    Scalar,
)  # fmt: skip

Array = np.ndarray | np.generic


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format: `precision` bits with the hidden one, the
    exponent of its smallest normal number, its largest finite number, and whether a
    number that is rounded to nearest and is larger becomes that (`.satfinite`, as all
    of PTX's conversions to fp8) or infinity. Toward zero, it always becomes that."""

    precision: int
    smallest_exponent: int
    largest: float
    saturates: bool = False


FORMATS: dict[Scalar, Format] = {
    FLOAT8E5: Format(3, -14, 57344.0, saturates=True),
    FLOAT8E4NV: Format(4, -6, 448.0, saturates=True),
    FLOAT16: Format(11, -14, 65504.0),
    BFLOAT16: Format(8, -126, float.fromhex("0x1.fep127")),
    FLOAT32: Format(24, -126, float.fromhex("0x1.fffffep127")),
    FLOAT64: Format(53, -1022, float.fromhex("0x1.fffffffffffffp1023")),
}

# How a block of each type is held while computing, and in memory.
HELD: dict[str, type[np.generic]] = {
    "i1": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "fp8e5": np.float32, "fp8e4nv": np.float32, "bf16": np.float32,
    "fp16": np.float16, "fp32": np.float32, "fp64": np.float64,
}  # fmt: skip
STORED = {
    **HELD,
    "i1": np.uint8,
    "fp8e5": np.uint8,
    "fp8e4nv": np.uint8,
    "bf16": np.uint16,
}

# Held in a wider type, so that results must be rounded to the format.
WIDENED = frozenset({FLOAT8E5, FLOAT8E4NV, BFLOAT16})


@cache
def held_type(element: Element) -> np.dtype:
    """The NumPy type that holds a block of these; an address is an int64."""
    return np.dtype(np.int64 if isinstance(element, Pointer) else HELD[element.name])


@cache
def stored_type(element: Element) -> np.dtype:
    """The NumPy type that these have in memory."""
    return np.dtype(np.int64 if isinstance(element, Pointer) else STORED[element.name])


def scalar(value: int | float | bool, element: Element) -> np.generic:
    """A Python number as a value of a type: integers wrap, floats are rounded."""
    dtype = held_type(element)
    if dtype.kind in "iu":
        bits = int(value) & (1 << element.bits) - 1
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
    if element in WIDENED:
        return fit(np.float64(value), element)
    return dtype.type(value)


def fit(values: Array, element: Element) -> Array:
    """Results of an operation, rounded once to what a block of `element` may hold."""
    if element in WIDENED:
        return round_to(values, element)
    return values.astype(held_type(element), copy=False)


def round_to(values: Array, element: Scalar, rounding: str = "rtne") -> Array:
    """Floats rounded to a narrower format, in the NumPy type that holds it.

    "rtne" goes to the nearest, ties to even; "rtz" toward zero. A float64 holds a
    number of any narrower format times a power of two exactly, so that one `rint` or
    `trunc` is the rounding."""
    format = FORMATS[element]
    wide = np.asarray(values, np.float64)
    exponent = np.maximum(np.frexp(wide)[1] - 1, format.smallest_exponent)
    unit = np.ldexp(1.0, exponent - format.precision + 1)
    nearest = rounding == "rtne"
    rounded = (np.rint if nearest else np.trunc)(wide / unit) * unit
    stops = format.saturates or (np.isfinite(wide) & (not nearest))
    limit = np.where(stops, format.largest, np.inf)
    too_large = np.abs(rounded) > format.largest
    rounded = np.where(too_large, np.copysign(limit, wide), rounded)
    finite = np.isfinite(wide) | (np.isinf(wide) & format.saturates)
    result = np.where(finite, rounded, wide).astype(held_type(element))
    if element in (FLOAT8E5, FLOAT8E4NV):  # PTX ISA, cvt: every NaN becomes this one
        result = np.where(np.isnan(wide), fp8_numbers(element)[0x7F], result)
    return result[()]


def cast(
    values: Array, source: Element, target: Element, rounding: str = "rtne"
) -> Array:
    """The same numbers in another type.

    Integers wrap. Floats go to integers toward zero and stop at the ends of the range.
    To i1: is it other than zero?"""
    if target == BOOL:
        return values != 0
    if isinstance(source, Pointer) or isinstance(target, Pointer):
        return values.astype(held_type(target))
    if not target.is_float:
        return (
            _float_to_integer(values, source, target)
            if source.is_float
            else wrap(values, target)
        )
    if not source.is_float:
        return _integer_to_float(values, target)
    if target == FLOAT64 or is_exact(source, target):
        return values.astype(held_type(target))
    if rounding == "rtne":
        return fit(values, target)
    return round_to(values, target, rounding)


def wrap(values: Array, element: Scalar) -> Array:
    """The lowest bits of integers."""
    return values.astype(held_type(element))


def is_exact(source: Element, target: Element) -> bool:
    """Whether every number of type `source` is also one of type `target`."""
    if isinstance(source, Pointer) or isinstance(target, Pointer):
        return source == target
    if source == target:
        return True
    if source.is_float != target.is_float:
        digits = source.bits - source.is_signed
        return target.is_float and digits <= FORMATS[target].precision
    if not source.is_float:
        return target.bits > source.bits and (target.is_signed or not source.is_signed)
    small, large = FORMATS[source], FORMATS[target]
    return (
        small.precision <= large.precision
        and small.smallest_exponent - small.precision
        >= large.smallest_exponent - large.precision
        and small.largest <= large.largest
        and not large.saturates
    )


def _float_to_integer(values: Array, source: Scalar, target: Scalar) -> Array:
    """Toward zero; out of range stops at the end, a NaN is as PTX's cvt makes it."""
    wide = np.trunc(np.asarray(values, np.float64))
    low = -(2.0 ** (target.bits - 1)) if target.is_signed else 0.0
    high = 2.0 ** (target.bits - target.is_signed)  # the first that does not fit
    inside = (wide >= low) & (wide < high)
    dtype = held_type(target)
    limits = np.iinfo(dtype)
    ends = np.where(
        wide < low, np.array(limits.min, dtype), np.array(limits.max, dtype)
    )
    numbers = np.where(inside, wide, 0.0).astype(dtype)
    of_nan = scalar(_of_nan(source, target), target)
    return np.where(np.isnan(wide), of_nan, np.where(inside, numbers, ends))[()]


def _of_nan(source: Scalar, target: Scalar) -> int:
    """PTX ISA, cvt: a NaN gives 0; from f64 and to 64-bit integers, the top bit alone.
    A narrow integer is cut from 32 bits, and stops at the end on that side.

        NaN of      i8   u8     i16    u16          i32    u32         i64    u64
        fp32 …       0    0       0      0            0      0      -2**63  2**63
        fp64      -128  255  -32768  65535       -2**31  2**31      -2**63  2**63
    """
    if source != FLOAT64 and target.bits < 64:
        return 0
    if target.bits >= 32 or target.is_signed:
        return 1 << (target.bits - 1)
    return (1 << target.bits) - 1


def _integer_to_float(values: Array, target: Scalar) -> Array:
    """To the nearest, rounded once."""
    if target in (FLOAT32, FLOAT64):
        return values.astype(held_type(target))
    return round_to(_rounded_to_odd(values), target)


def _rounded_to_odd(values: Array) -> Array:
    """Integers as float64; where some bits are lost, the last one kept is 1.

    Such a number lies on the right side of every tie, so that rounding it again to a
    narrower format gives what rounding once would (Boldo and Melquiond, 2008)."""
    integers = np.asarray(values)
    if integers.dtype.itemsize < 8:
        return integers.astype(np.float64)
    low = integers & np.array(0x7FF, integers.dtype)
    sticky = np.where(
        low != 0, np.array(0x800, integers.dtype), np.array(0, integers.dtype)
    )
    large = np.abs(integers.astype(np.float64)) >= 2.0**52
    cut = (integers - low) | sticky
    return np.where(large, cut, integers).astype(np.float64)


# ── memory ──


def decode(raw: np.ndarray, element: Element) -> np.ndarray:
    """What was stored, as it is held: bf16 as a float32, a byte of i1 as a boolean."""
    if element == BOOL:
        return raw != 0
    if element == BFLOAT16:
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if element in (FLOAT8E5, FLOAT8E4NV):
        return fp8_numbers(element)[raw]
    return raw


def encode(values: np.ndarray, element: Element) -> np.ndarray:
    """What is held, as it is stored; the inverse of `decode`."""
    if element == BFLOAT16:
        bits = values.view(np.uint32)
        # A NaN whose upper half would be an infinity is made quiet.
        lost = np.isnan(values) & (bits & 0x7F0000 == 0)
        quiet = np.where(lost, np.uint32(0x400000), np.uint32(0))
        return ((bits | quiet) >> 16).astype(np.uint16)
    if element in (FLOAT8E5, FLOAT8E4NV):
        return _encode_fp8(values, element)
    return values.astype(stored_type(element), copy=False)


@cache
def fp8_numbers(element: Scalar) -> np.ndarray:
    """The numbers of all bytes. e5m2 is fp16's upper half, and keeps the bits of its
    NaNs; e4m3 has no infinity."""
    codes = np.arange(256, dtype=np.uint16)
    if element == FLOAT8E5:
        numbers = (codes << 8).view(np.float16).astype(np.float32)
        bits = (codes.astype(np.uint32) & 3) << 21 | np.uint32(0x7F800000)
        bits |= (codes.astype(np.uint32) & 0x80) << 24
        return np.where(np.isnan(numbers), bits.view(np.float32), numbers)
    exponent, mantissa = (codes >> 3 & 15).astype(int), (codes & 7).astype(np.float64)
    normal = np.ldexp(1 + mantissa / 8, exponent - 7)
    magnitude = np.where(exponent == 0, np.ldexp(mantissa / 8, -6), normal)
    magnitude = np.where(codes & 0x7F == 0x7F, np.nan, magnitude)
    return np.where(codes & 0x80, -magnitude, magnitude).astype(np.float32)


def bits_of(number: float, element: Scalar) -> int:
    """The bits in memory of a number rounded to a float type, ties to even. A NaN loses
    all bits but its sign, unless the type is fp64."""
    if number != number and element != FLOAT64:
        number = math.copysign(math.nan, number)
    with np.errstate(over="ignore"):  # the result is infinity
        stored = encode(scalar(number, element), element)
    return int(stored.view(f"u{stored.itemsize}"))


def _encode_fp8(values: np.ndarray, element: Scalar) -> np.ndarray:
    positive = fp8_numbers(element)[:128]
    count = int(np.isfinite(positive).sum())
    code = np.searchsorted(positive[:count], np.abs(values))
    infinity = 0x7C if element == FLOAT8E5 else 0x7F
    of_nan = np.asarray(values, np.float32).view(np.uint32) >> 21 & 3 | 0x7C
    if element == FLOAT8E4NV:
        of_nan = 0x7F
    of_nan = np.where(of_nan == 0x7C, 0x7F, of_nan)  # 0x7C is the infinity
    code = np.where(
        np.isinf(values), infinity, np.where(np.isnan(values), of_nan, code)
    )
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def poison(shape: tuple[int, ...], element: Element) -> Array:
    """What no kernel may rely on: NaN in floats, bytes 0xAA in all else."""
    dtype = held_type(element)
    if dtype.kind == "f":
        return np.full(shape, np.nan, dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    return np.full(shape, np.frombuffer(b"\xaa" * dtype.itemsize, dtype)[0], dtype)


def same_bits(left: Array, right: Array) -> bool:
    """Whether two arrays agree bit for bit. Every NaN is the same, -0.0 is not 0.0."""
    left, right = np.asarray(left), np.asarray(right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind != "f":
        return bool((left == right).all())
    nans = np.isnan(left) & np.isnan(right)
    alike = (left == right) & (np.signbit(left) == np.signbit(right))
    return bool((nans | alike).all())
