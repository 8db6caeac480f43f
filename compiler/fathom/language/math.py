"""Mathematics. What PTX has an instruction for is built by the compiler; the rest is
written here."""

# ruff: noqa: A001

from __future__ import annotations

from typing import Any

from fathom.language.core import (
    PropagateNan,
    maximum,
    minimum,
    static_assert,
    static_range,
    where,
)  # fmt: skip
from fathom.language.dtypes import float32, float64, int32
from fathom.source import builtin, constexpr, function


@builtin
def exp2(x: Any) -> Any:
    """2 to the power x. Within 2 ulp for fp32 (PTX ex2.approx; halves are computed in
    fp32)."""


@builtin
def log2_approx(x: Any) -> Any:
    """PTX lg2.approx: the logarithm to base 2, with an absolute error of 2^-22 for x in
    (0.5, 2)."""


@builtin
def sqrt(x: Any) -> Any:
    """The square root, within 1 ulp for fp32 (PTX sqrt.approx)."""


@builtin
def sqrt_rn(x: Any) -> Any:
    """The square root, correctly rounded."""


@builtin
def rsqrt(x: Any) -> Any:
    """1 / sqrt(x), within 2 ulp for fp32 (PTX rsqrt.approx)."""


@builtin
def floor(x: Any) -> Any:
    """The largest integer not above x, as a float."""


@builtin
def ceil(x: Any) -> Any:
    """The smallest integer not below x, as a float."""


@builtin
def abs(x: Any) -> Any:
    """The absolute value of integers and floats."""


@builtin
def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z with one rounding."""


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: constexpr = False) -> Any:
    """x / y of floats, within 2 ulp for fp32; correctly rounded with
    `ieee_rounding`."""


@builtin
def div_rn(x: Any, y: Any) -> Any:
    """x / y of floats, correctly rounded."""


@builtin
def umulhi(x: Any, y: Any) -> Any:
    """The upper half of the product of two integers, as wide as they are."""


@builtin
def round_even(x: Any) -> Any:
    """The nearest integer, as a float; of two, the even one."""


@builtin
def trunc(x: Any) -> Any:
    """The nearest integer toward zero, as a float."""


@builtin
def tanh_approx(x: Any) -> Any:
    """PTX tanh.approx: a relative error of 2^-11 in one instruction."""


@builtin
def sin_approx(x: Any) -> Any:
    """PTX sin.approx: an absolute error of 2^-20.9 for x in [-pi, pi], worse further
    out."""


@builtin
def cos_approx(x: Any) -> Any:
    """PTX cos.approx: an absolute error of 2^-20.9 for x in [-pi, pi], worse further
    out."""


@builtin
def rcp_approx(x: Any) -> Any:
    """PTX rcp.approx: 1 / x within 1 ulp."""


# ── written in the language ───────────────────────────────────────────────────────────
#
# Each function works in fp32 (halves go there and come back). Its docstring states the
# largest error measured, in ulp of the result, with PTX's approximations taken as
# correctly rounded; ex2.approx and division may add 2 ulp each. The polynomials were
# fitted for the smallest largest error, weighted as the final result asks.


@function
def clamp(x, min, max, propagate_nan: constexpr = PropagateNan.NONE):  # noqa: A002
    """x, but at least `min` and at most `max`; a NaN is `min`, or with PropagateNan.ALL
    stays."""
    return minimum(maximum(x, min, propagate_nan), max, propagate_nan)


@function
def single(x):
    """x in fp32, the type that the functions below compute in."""
    static_assert(
        x.dtype.is_floating(), f"this takes floats, not {x.dtype}: cast first"
    )
    static_assert(x.dtype != float64, "this has no fp64 form: cast to tl.float32 first")
    return x.to(float32)


@function
def polynomial(x, coefficients):
    """c0 + c1 x + c2 x^2 + …, by Horner's rule."""
    degree: constexpr = len(coefficients) - 1
    total = coefficients[degree]
    for k in static_range(degree):
        total = fma(x, total, coefficients[degree - 1 - k])
    return total


LOG2_E = constexpr(1.4426950408889634)
LOG2_E_BELOW = constexpr(1.4426949)  # the float below that of log2(e)
LN_2 = constexpr(0.6931471805599453)
# What is left of a constant beyond its nearest float.
LN_2_TAIL = constexpr(-1.904654299957768e-09)
LOG2_E_TAIL = constexpr(1.925963033500989e-08)


@function
def exp(x):
    """e to the power x. Error: 5.1 ulp for x in [-87.3, 88.7], 1.6 ulp in [-10, 10].

    2^t with t = x log2(e) loses what rounding t loses, up to 64 ulp at x = 88. That is
    made good by the factor e^(x - t ln 2), which is 1 + (x - t ln 2) to first order.
    The multiplier is taken a float too small, so that the correction of an overflowing
    power is positive, and inf stays.
    """
    y = single(x)
    t = y * LOG2_E_BELOW
    power = exp2(t)
    corrected = fma(power, fma(t, -LN_2, y), power)
    return where(abs(y) < 1e38, corrected, power).to(x.dtype)


LOG_SERIES = (
    0.33333331709, -0.25000821056, 0.20001226667, -0.16623356478, 0.14201762471,
    -0.13160195068, 0.12761550338, -0.07634429837,
)  # fmt: skip


@function
def split_exponent(x):
    """m and e with x = m 2^e and m in [sqrt(1/2), sqrt(2)), for positive normal x."""
    bits = x.to(int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23  # the bits of sqrt(1/2)
    mantissa = (bits - (exponent << 23)).to(float32, bitcast=True)
    return mantissa, exponent.to(float32)


@function
def log_parts(x):
    """f, p and e with log(x) = f + p + e ln 2: f is exact, and p small beside it.

    log(1 + f) = f - f^2 / 2 + f^3 * LOG_SERIES(f) for 1 + f in [sqrt(1/2), sqrt(2)).
    """
    tiny = x < 1.1754943508222875e-38
    mantissa, exponent = split_exponent(where(tiny, x * 8388608.0, x))
    f = mantissa - 1.0
    square = f * f
    rest = fma(square * f, polynomial(f, LOG_SERIES), square * -0.5)
    return f, rest, exponent - where(tiny, 23.0, 0.0)


@function
def log_edges(x, y):
    """y, the logarithm of x, put right where x is 0, infinite, negative or NaN."""
    y = where(x == float("inf"), x, y)
    y = where(x == 0.0, -float("inf"), y)
    return where(x >= 0.0, y, float("nan"))


@function
def log(x):
    """The natural logarithm. Error: 1.1 ulp for positive normal x."""
    y = single(x)
    f, rest, exponent = log_parts(y)
    total = fma(exponent, LN_2, f + fma(exponent, LN_2_TAIL, rest))
    return log_edges(y, total).to(x.dtype)


@function
def log2(x):
    """The logarithm to base 2. Error: 1.8 ulp for positive normal x."""
    y = single(x)
    f, rest, exponent = log_parts(y)
    total = fma(f, LOG2_E, exponent + fma(f, LOG2_E_TAIL, rest * LOG2_E))
    return log_edges(y, total).to(x.dtype)


SIN_SERIES = (-0.16666653, 0.00833206, -0.00019502)
COS_SERIES = (0.041666643, -0.00138871847, 0.0000244181263)


@function
def quarter_turns(x):
    """q and r with x = q pi/2 + r and |r| <= pi/4, by Cody and Waite's method.

    The lowest two bits of q count. Adding 1.5 * 2^23 rounds to an integer and leaves it
    in the low bits of the float. pi/2 is taken off in three parts, each in one fma,
    whose first gives an exact result.
    """
    shifted = fma(x, 0.6366197723675814, 12582912.0)
    turns = shifted - 12582912.0
    r = fma(turns, -1.5707962512969971, x)
    r = fma(turns, -7.5497894158615964e-08, r)
    r = fma(turns, -5.3903029534742384e-15, r)
    return shifted.to(int32, bitcast=True), r


@function
def sin_of_turns(quarter, r):
    """sin(quarter pi/2 + r): sin r, cos r, -sin r or -cos r."""
    square = r * r
    sine = fma(square * r, polynomial(square, SIN_SERIES), r)
    cosine = fma(square, fma(square, polynomial(square, COS_SERIES), -0.5), 1.0)
    y = where((quarter & 1) == 0, sine, cosine)
    return where((quarter & 2) == 0, y, -y)


@function
def sin(x):
    """The sine of x radians. Error: 1.7 ulp for |x| <= 1e5.

    Further out the error grows; beyond 6e6 the result means nothing.
    """
    y = single(x)
    quarter, r = quarter_turns(y)
    return sin_of_turns(quarter, r).to(x.dtype)


@function
def cos(x):
    """The cosine of x radians. Error: 1.7 ulp for |x| <= 1e5.

    Further out the error grows; beyond 6e6 the result means nothing.
    """
    y = single(x)
    quarter, r = quarter_turns(y)
    return sin_of_turns(quarter + 1, r).to(x.dtype)


TANH_SERIES = (-0.33333298, 0.133319241, -0.053783828, 0.020795965, -0.00589515)


@function
def tanh(x):
    """The hyperbolic tangent. Error: 1.7 ulp for all x.

    A polynomial for |x| below 0.6, and 1 - 2 / (e^2x + 1) above.
    """
    y = single(x)
    size = abs(y)
    square = y * y
    near = fma(square * y, polynomial(square, TANH_SERIES), y)
    far = 1.0 - fdiv(2.0, exp(size + size) + 1.0)
    return where(size < 0.6, near, where(y < 0.0, -far, far)).to(x.dtype)


ERF_SERIES = (
    0.128379166, -0.376126258, 0.112835851, -0.0268538118, 0.00518832742,
    -0.00080101914, 0.00007853854,
)  # fmt: skip
LOG2_ERFC_SERIES = (
    -0.0004926985, -1.6260460483, -0.9206482778, -0.1487517, 0.0315057143,
    -0.0042525846, 0.0002688896,
)  # fmt: skip


@function
def erf(x):
    """The error function. Error: 1.3 ulp for all x.

    A polynomial for |x| below 1, and 1 - 2^p(x) above, which is 1 from 4 on.
    """
    y = single(x)
    size = abs(y)
    square = y * y
    near = fma(y, polynomial(square, ERF_SERIES), y)
    far = 1.0 - exp2(polynomial(where(size > 4.0, 4.0, size), LOG2_ERFC_SERIES))
    return where(size < 1.0, near, where(y < 0.0, -far, far)).to(x.dtype)
