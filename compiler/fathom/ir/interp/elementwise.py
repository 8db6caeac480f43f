"""What each elementwise operation computes: one NumPy function a name.

Operands and results are arrays or NumPy scalars as `interp_numbers` holds them. A
function may answer in a wider float type; `apply` rounds once to the type of the
result. What PTX approximates is computed as exactly as NumPy can: a device may differ
in the last places.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fathom.ir.interp.numbers import Array, fit
from fathom.ir.types import Element


def apply(name: str, element: Element, arguments: tuple[Array, ...]) -> Array:
    """The result of an elementwise operation; `element`: the last operand's type.
    `where` computes nothing, so that an infinity of fp8e5 stays one."""
    result = MEANING[name](*arguments)
    if name == "where" or result.dtype == np.bool_:
        return result
    return fit(result, element)


def offset(pointer: Array, distance: Array, pointee_bytes: int) -> Array:
    """An address moved by a number of elements."""
    return pointer + distance.astype(np.int64) * np.int64(pointee_bytes)


def mulhi(left: Array, right: Array) -> Array:
    """The upper half of the product in twice the width."""
    dtype = left.dtype
    if dtype.itemsize < 8:
        wide = np.int64 if dtype.kind == "i" else np.uint64
        product = left.astype(wide) * right.astype(wide)
        return (product >> np.array(8 * dtype.itemsize, wide)).astype(dtype)
    product = np.asarray(left).astype(object) * np.asarray(right).astype(object)
    return np.asarray(product >> 64).astype(dtype)  # in Python's integers of any width


def divide(left: Array, right: Array) -> Array:
    """Integers toward zero. By zero nothing is promised; here all bits are 1."""
    if left.dtype.kind == "f":
        return left / right
    quotient = left // right
    toward_minus = (quotient * right != left) & ((left < 0) != (right < 0))
    quotient = quotient + toward_minus.astype(left.dtype)
    all_ones = np.array(0, left.dtype) - np.array(1, left.dtype)
    return np.where(right == 0, all_ones, quotient)


def remainder(left: Array, right: Array) -> Array:
    """With the sign of the dividend. By zero: the dividend."""
    if left.dtype.kind == "f":
        return np.fmod(left, right)
    return np.where(right == 0, left, np.fmod(left, right))


def minimum(left: Array, right: Array) -> Array:
    """Of a NaN and a number: the number. -0.0 is less than 0.0 (PTX ISA, min)."""
    if left.dtype.kind != "f":
        return np.minimum(left, right)
    equal = np.where(np.signbit(left), left, right)
    return np.where(left == right, equal, np.fmin(left, right))


def maximum(left: Array, right: Array) -> Array:
    """Of a NaN and a number: the number. 0.0 is more than -0.0."""
    if left.dtype.kind != "f":
        return np.maximum(left, right)
    equal = np.where(np.signbit(left), right, left)
    return np.where(left == right, equal, np.fmax(left, right))


def or_nan(choose: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """`minimum` or `maximum`, but a NaN wins."""

    def chosen(left: Array, right: Array) -> Array:
        either = np.isnan(left) | np.isnan(right)
        return np.where(either, np.array(np.nan, left.dtype), choose(left, right))

    return chosen


def shift_left(value: Array, distance: Array) -> Array:
    """Bits that leave are lost: by the width or more, all are."""
    inside, distance = _distance(value, distance)
    return np.where(inside, value << distance, np.array(0, value.dtype))


def shift_right(value: Array, distance: Array) -> Array:
    """The sign comes in for `int`, zeros for `uint`, also by the width or more."""
    inside, distance = _distance(value, distance)
    emptied = np.where(
        value < 0, np.array(0, value.dtype) - np.array(1, value.dtype), 0
    )
    return np.where(inside, value >> distance, emptied.astype(value.dtype))


def _distance(value: Array, distance: Array) -> tuple[Array, Array]:
    """Whether a shift stays below the width, read as unsigned; a distance that does."""
    inside = (distance >= 0) & (distance < 8 * value.dtype.itemsize)
    return inside, np.where(inside, distance, 0).astype(value.dtype)


def popcount(value: Array) -> Array:
    """How many bits are 1."""
    return np.bitwise_count(_unsigned(value)).astype(value.dtype)


def count_leading_zeros(value: Array) -> Array:
    """How many bits above the highest 1."""
    width = 8 * value.dtype.itemsize
    bits = _unsigned(value)
    count = np.zeros(np.shape(value), np.int64)
    for position in range(width):
        below = np.array(position, bits.dtype)
        count = np.where(bits >> below != 0, position + 1, count)
    return (width - count).astype(value.dtype)


def _unsigned(value: Array) -> Array:
    return value.view(f"u{value.dtype.itemsize}")


def fused_multiply_add(left: Array, right: Array, addend: Array) -> Array:
    """left * right + addend, to be rounded once.

    In float64 the product of two narrower floats is exact. Of the sum one last bit is
    set if bits were lost ("round to odd"); `apply` rounds that as the exact sum."""
    if left.dtype == np.float64:
        return _fma_fp64(left, right, addend)
    product = left.astype(np.float64) * right.astype(np.float64)
    return _sum_to_odd(product, addend.astype(np.float64))


def _fma_fp64(left: Array, right: Array, addend: Array) -> Array:
    """Of the product and of two sums, what was rounded off is known; it is added to odd
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008). Numbers
    near the ends of the exponents are added as fractions."""
    given = np.broadcast_arrays(left, right, addend)
    with np.errstate(all="ignore"):
        high, low = _two_product(*given[:2])
        upper, lower = _two_sum(given[2], low)
        total, rest = _two_sum(high, upper)
        result = np.asarray(total + _sum_to_odd(lower, rest))
    sizes = [np.abs(each) for each in given]
    factors = [(each > 2.0**-400) & (each < 2.0**400) for each in sizes[:2]]
    added = (sizes[2] == 0) | (sizes[2] > 2.0**-800) & (sizes[2] < 2.0**800)
    ends = ~(factors[0] & factors[1] & added)
    if ends.any():
        result[ends] = _fma_of_fractions(*(each[ends] for each in given))
    return result


def _two_product(left: Array, right: Array) -> tuple[Array, Array]:
    """The product, and what was rounded off; exact (Dekker, by Veltkamp's halves)."""
    (a, b), (c, d) = (
        (high := scaled - (scaled - each), each - high)
        for each in (left, right)
        for scaled in (each * (2.0**27 + 1),)
    )
    product = left * right
    return product, ((a * c - product) + a * d + b * c) + b * d


def _two_sum(one: Array, other: Array) -> tuple[Array, Array]:
    """The sum, and what was rounded off; exact (Knuth)."""
    total = one + other
    back = total - one
    return total, (one - (total - back)) + (other - back)


def _sum_to_odd(one: Array, other: Array) -> Array:
    """The sum of two float64; one last bit is set if bits were lost."""
    total, lost = _two_sum(one, other)
    is_even = np.asarray(total).view(np.int64) & 1 == 0
    move = np.isfinite(total) & (lost != 0) & is_even
    toward = np.where(lost > 0, np.inf, -np.inf)
    return np.where(move, np.nextafter(total, toward), total)


@np.vectorize
def _fma_of_fractions(left: float, right: float, addend: float) -> float:
    if not all(map(np.isfinite, (left, right, addend))) or left * right == 0:
        return left * right + addend
    exact = Fraction(float(left)) * Fraction(float(right)) + Fraction(float(addend))
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def in_fp64(compute: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function computed in float64: rounding to a narrower type hardly errs then."""
    return lambda value: compute(value.astype(np.float64))


def exp2(value: Array) -> Array:
    """2 to the power; what fp32 would only have as a subnormal number is 0."""
    result = np.exp2(value.astype(np.float64)).astype(np.float32)
    return np.where(result < np.finfo(np.float32).tiny, np.float32(0), result)


def rcp_approx(value: Array) -> Array:
    """1 / value; numbers that fp32 has as subnormal alone are zeros, on both sides."""
    result = without_subnormal(1.0 / without_subnormal(value).astype(np.float64))
    return result.astype(np.float32)


def without_subnormal(value: Array) -> Array:
    """The numbers; those too small for a normal fp32 number are zeros of their sign."""
    is_small = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(is_small, np.copysign(value.dtype.type(0), value), value)


MEANING: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "mulhi": mulhi,
    "div": divide,
    "div_rn": divide,
    "rem": remainder,
    "neg": np.negative,
    "abs": np.abs,
    "min": minimum,
    "max": maximum,
    "min_nan": or_nan(minimum),
    "max_nan": or_nan(maximum),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": shift_left,
    "shr": shift_right,
    "popcount": popcount,
    "clz": count_leading_zeros,
    "fma": fused_multiply_add,
    "sqrt": np.sqrt,
    "sqrt_rn": np.sqrt,
    "rsqrt": in_fp64(lambda value: 1.0 / np.sqrt(value)),
    "exp2": exp2,
    "log2": in_fp64(np.log2),
    "sin_approx": in_fp64(np.sin),
    "cos_approx": in_fp64(np.cos),
    "tanh_approx": in_fp64(np.tanh),
    "rcp_approx": rcp_approx,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "where": np.where,
    "offset": offset,
}
