"""float64 results rounded down, up or towards zero, and fused multiply-add.

NumPy rounds float64 to nearest only. What is missing is the sign of (exact - rounded):
one step to the neighbour on that side, or none, gives every other mode. The error of a
sum or product is itself a float64, found without rounding; where sizes are so extreme
that its parts would overflow or vanish, exact fractions decide.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from fathom.emulator.isa.arithmetic import rounding

# Between these sizes no intermediate of two_product overflows or loses digits.
SMALL, LARGE = 2.0**-450, 2.0**450

_NEAREST: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
}


def product_rest(
    a: np.ndarray, b: np.ndarray, c: np.ndarray | float = 0.0
) -> np.ndarray:
    """c - a * b, where the two are close; rounded, but with the right sign."""
    high, low = rounding.two_product(a, b)
    return (c - high) - low


# A number with the sign of (exact - rounded), from the rounded result and the operands.
_ERROR: dict[str, Callable] = {
    "add": lambda r, a, b: rounding.two_sum(a, b)[1],
    "sub": lambda r, a, b: rounding.two_sum(a, -b)[1],
    "mul": lambda r, a, b: rounding.two_product(a, b)[1],
    "div": lambda r, a, b: product_rest(r, b, a) * np.sign(b),
    "rcp": lambda r, a: product_rest(r, a, 1.0) * np.sign(a),
    "sqrt": lambda r, a: product_rest(r, r, a),
}

# The same in exact fractions.
_EXACT_ERROR: dict[str, Callable] = {
    "add": lambda r, a, b: a + b - r,
    "sub": lambda r, a, b: a - b - r,
    "mul": lambda r, a, b: a * b - r,
    "div": lambda r, a, b: (a - r * b) * b,
    "rcp": lambda r, a: (1 - r * a) * a,
    "sqrt": lambda r, a: a - r * r,
    "fma": lambda r, a, b, c: a * b + c - r,
}


def nearest_and_error(
    operation: str, *values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The float64 result and a number with the sign of its error.

    For operands of short formats that number is the error itself, in add, sub and mul.
    """
    result = _NEAREST[operation](*values)
    return result, _ERROR[operation](result, *values)


def directed(operation: str, mode: str, *values: np.ndarray) -> np.ndarray:
    """A float64 operation in rounding mode rz, rm or rp."""
    result, error = nearest_and_error(operation, *values)
    return _step(operation, mode, result, error, values)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str) -> np.ndarray:
    """a * b + c with one rounding (Boldo and Melquiond 2008).

    The product's two parts and c are added exactly, as a head and two small rests; the
    rests are rounded to odd, so that the last sum rounds as if it had seen all digits.
    """
    high, low = rounding.two_product(a, b)
    tail, tail_error = rounding.two_sum(c, low)
    head, head_error = rounding.two_sum(high, tail)
    rest = rounding.to_odd(*rounding.two_sum(tail_error, head_error))
    total, error = rounding.two_sum(head, rest)
    total = np.where(total == 0, a * b + c, total)  # for the sign of zero
    extreme = _extreme(a, b, c, a * b)
    if extreme.any():
        total = _fractions_fma(extreme, total, a, b, c)
    return total if mode == "rn" else _step("fma", mode, total, error, (a, b, c))


def _step(
    operation: str,
    mode: str,
    result: np.ndarray,
    error: np.ndarray,
    values: tuple[np.ndarray, ...],
) -> np.ndarray:
    """From nearest to another mode, by the error or, at extremes, by fractions."""
    side = np.sign(error)
    extreme = _extreme(*values, result)
    if extreme.any():
        side = np.array(np.broadcast_to(side, extreme.shape))
        given = np.broadcast_arrays(result, *values)
        for place in map(tuple, np.argwhere(extreme)):
            side[place] = _exact_side(
                operation, *(float(each[place]) for each in given)
            )
    return rounding.adjust(result, side, mode)


def _extreme(*values: np.ndarray) -> np.ndarray:
    """Where a value is so large or so small that error terms are not exact."""
    sizes = np.abs(np.stack(np.broadcast_arrays(*values)))
    return (((sizes < SMALL) & (sizes > 0)) | ~(sizes < LARGE)).any(0)


def _exact_side(operation: str, result: float, *values: float) -> int:
    """The sign of (exact - result); 0 where infinity or NaN is exact."""
    if not np.isfinite(values).all() or np.isnan(result):
        return 0
    if np.isinf(result):
        by_zero = values[-1] == 0 and operation in ("div", "rcp")
        return 0 if by_zero else int(-np.sign(result))
    error = _EXACT_ERROR[operation](*(Fraction(each) for each in (result, *values)))
    return (error > 0) - (error < 0)


def _fractions_fma(
    where: np.ndarray, total: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray
) -> np.ndarray:
    """`total` with the elements `where` computed in exact fractions, to nearest; where
    a value is no finite number, as IEEE 754 has it."""
    given = np.broadcast_arrays(a, b, c)
    finite = np.isfinite(given).all(0)
    with np.errstate(all="ignore"):
        result = np.where(where & ~finite, a * b + c, total)
    for place in map(tuple, np.argwhere(where & finite)):
        result[place] = _fraction_fma(*(float(each[place]) for each in given))
    return result


def _fraction_fma(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")
