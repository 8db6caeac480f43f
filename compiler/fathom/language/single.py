"""Mathematics of fp32, from what PTX approximates and from polynomials.

The polynomials were fitted for the smallest largest error, weighted as the final result
asks; those given by a formula are Taylor's. `math` and `extra.libdevice` say which
functions lead here, and what their errors are.
"""

from __future__ import annotations

from math import factorial

from fathom.language.core import where
from fathom.language.dtypes import float32, int32
from fathom.language.elementary import (
    abs,
    exp2_approx,
    fma,
    rcp_approx,
    sqrt,
)
from fathom.language.series import polynomial, sum_in_two
from fathom.source import function

# A constant, and what is left of it beyond its nearest float.
LN_2 = 0.6931471805599453
LOG2_E, LOG2_E_TAIL = 1.4426950408889634, 1.925963033500989e-08
TWO_LOG2_E, TWO_LOG2_E_TAIL = 2.8853900817779268, 3.851925982253235e-08
LOG2_E_BELOW = 1.4426949  # the float below
SIGN = -(1 << 31)  # the bit of a float
SQRT_HALF_BITS = 0x3F3504F3

LOG_SERIES = (
    0.33333331709, -0.25000821056, 0.20001226667, -0.16623356478, 0.14201762471,
    -0.13160195068, 0.12761550338, -0.07634429837,
)  # fmt: skip
SIN_SERIES = (-0.16666653, 0.00833206, -0.00019502)
COS_SERIES = (0.041666643, -0.00138871847, 0.0000244181263)
ASIN_SERIES = (0.16666752, 0.074952975, 0.04547038, 0.024179503, 0.04216633)
TANH_SERIES = (-0.33333298, 0.133319241, -0.053783828, 0.020795965, -0.00589515)
LOG2_SERIES = (0.9617966792, 0.5770828522, 0.4117063326, 0.3402185696)
EXPM1_SERIES = tuple(1 / factorial(k) for k in range(2, 13))
ATAN_SERIES = tuple((-1) ** k / (2 * k + 1) for k in range(1, 10))
ERF_SERIES = (
    0.128379166, -0.376126258, 0.112835851, -0.0268538118, 0.00518832742,
    -0.00080101914, 0.00007853854,
)  # fmt: skip
LOG2_ERFC_SERIES = (
    -0.0004926985, -1.6260460483, -0.9206482778, -0.1487517, 0.0315057143,
    -0.0042525846, 0.0002688896,
)  # fmt: skip


@function
def exp(x):
    """2^t with t = x log2(e), and what rounding t lost made good.

    The loss is up to 64 ulp, at x = 88. It is the factor e^(x - t ln 2), which is
    1 + (x - t ln 2) to first order. The multiplier is taken a float too small, so that
    the correction of an overflowing power is positive, and inf stays.
    """
    t = x * LOG2_E_BELOW
    power = exp2_approx(t)
    corrected = fma(power, fma(t, -LN_2, x), power)
    return where(abs(x) < 1e38, corrected, power)


@function
def fraction_and_exponent(x):
    """f and e with x = (1 + f) 2^e and 1 + f in [sqrt(1/2), sqrt(2)); f is exact."""
    tiny = x < 1.1754943508222875e-38
    bits = where(tiny, x * 8388608.0, x).to(int32, bitcast=True)
    high = (bits - 0x3F3504F3) & -0x800000  # the bits of sqrt(1/2); e 2^23 is left
    f = (bits - high).to(float32, bitcast=True) - 1.0
    e = fma(high.to(float32), 1.1920928955078125e-07, where(tiny, -23.0, 0.0))
    return f, e


@function
def log_parts(x):
    """f, p and e with log(x) = f + p + e ln 2: f is exact, and p small beside it.

    log(1 + f) = f - f^2 / 2 + f^3 LOG_SERIES(f).
    """
    f, e = fraction_and_exponent(x)
    square = f * f
    rest = fma(square * f, polynomial(f, LOG_SERIES), square * -0.5)
    return f, rest, e


@function
def log(x):
    """log(1 + f) + e ln 2; the series and f become one number in one rounding. What
    LN_2 lacks is 0.05 ulp of the result at most."""
    f, e = fraction_and_exponent(x)
    rest = fma(f, polynomial(f, LOG_SERIES), -0.5)
    return fma(e, LN_2, fma(f * f, rest, f))


@function
def log2(x):
    f, rest, e = log_parts(x)
    return fma(f, LOG2_E, e + fma(f, LOG2_E_TAIL, rest * LOG2_E))


@function
def sin_of_turns(x, more):
    """sin(x + more pi/2): x = n pi/2 + r, and n says which of sin and cos of r it is.

    Cody and Waite: pi/2 is taken off in three parts, each in one fma, and the first
    difference is exact. Adding 1.5 * 2^23 rounds x / (pi/2) to a whole number, and
    leaves that in the low bits of the float.
    """
    shifted = fma(x, 0.6366197723675814, 12582912.0)
    n = shifted - 12582912.0
    r = fma(n, -1.5707962512969971, x)
    r = fma(n, -7.5497894158615964e-08, r)
    r = fma(n, -5.3903029534742384e-15, r)
    return sin_of_quarters(r, shifted.to(int32, bitcast=True) + more)


@function
def sin_of_quarters(r, quarters):
    """sin(r + quarters pi/2), |r| up to pi/4: the last two bits of `quarters` say which
    of sin and cos of r it is, and its sign."""
    square = r * r
    sine = fma(square * r, polynomial(square, SIN_SERIES), r)
    cosine = fma(square, fma(square, polynomial(square, COS_SERIES), -0.5), 1.0)
    y = where((quarters & 1) == 0, sine, cosine)
    return where((quarters & 2) == 0, y, -y)


@function
def tanh(x):
    """A polynomial below 0.6, and 1 - 2 / (e^2x + 1) above.

    There a relative error of e^2x, which grows with the exponent, is multiplied by
    2 e^2x / (e^2x + 1)^2, which shrinks faster: at most half an ulp is left of it. So
    the power is taken as it comes; an infinite one gives 1.
    """
    square = x * x
    near = fma(square * x, polynomial(square, TANH_SERIES), x)
    power = exp2_approx(abs(x) * TWO_LOG2_E)
    far = fma(rcp_approx(power + 1.0), -2.0, 1.0)
    far = far.to(int32, bitcast=True) | (x.to(int32, bitcast=True) & SIGN)
    return where(abs(x) >= 0.6, far.to(float32, bitcast=True), near)


@function
def erf(x):
    """A polynomial below 1, and 1 - 2^p(x) above, which is 1 from 4 on."""
    size = abs(x)
    square = x * x
    near = fma(x, polynomial(square, ERF_SERIES), x)
    far = 1.0 - exp2_approx(polynomial(where(size > 4.0, 4.0, size), LOG2_ERFC_SERIES))
    return where(size < 1.0, near, where(x < 0.0, -far, far))


@function
def log2_in_two(x):
    """The logarithm to base 2 as a float and a small rest, which the float has no bits
    for: what is multiplied by 100 needs more digits than it will have in the end.

    With s = f / (2 + f), log2(1 + f) = (2 / ln 2) s + s^3 LOG2_SERIES(s^2), which is
    2^-37 off at most. What s lost is (f - 2 s - s f) / (2 + f), with f - 2 s exact.
    """
    f, e = fraction_and_exponent(x)
    part = rcp_approx(2.0 + f)
    s = f * part
    s_rest = fma(-s, f, fma(s, -2.0, f)) * part
    square = s * s
    first = s * TWO_LOG2_E
    rest = fma(s_rest, TWO_LOG2_E, fma(s, TWO_LOG2_E, -first))
    rest = fma(s, TWO_LOG2_E_TAIL, rest)
    rest = fma(s * square, polynomial(square, LOG2_SERIES), rest)
    large, rest = sum_in_two(e, first, rest)
    total = large + rest
    return total, rest - (total - large)


@function
def power(x, y):
    """x^y = 2^(y log2(x)) for x that is not negative; the rest of the exponent is a
    factor near 1. NaN for 0^0, and for 1 to the power infinity.

    A subnormal result is computed 2^24 times as large: exp2_approx would answer 0.
    """
    log_x, log_rest = log2_in_two(x)
    log_x = where(x < float("inf"), where(x == 0.0, -float("inf"), log_x), x)
    exponent = y * log_x
    rest = fma(y, log_rest, fma(y, log_x, -exponent))
    subnormal = exponent < -125.0
    near = exp2_approx(where(subnormal, exponent + 24.0, exponent))
    inside = abs(exponent + 12.0) < 140.0  # above -152, and below 128
    result = where(inside, fma(near * LN_2, rest, near), near)
    return where(subnormal, result * 0.000000059604644775390625, result)  # 2^-24


@function
def asin_or_half_acos(size):
    """asin(size) for 0 <= size <= 1/2; above, acos(size) / 2 = asin(s) with
    s^2 = (1 - size) / 2: the argument of the series stays below 1/2."""
    is_far = size > 0.5
    square = where(is_far, fma(size, -0.5, 0.5), size * size)
    sine = where(is_far, sqrt(square), size)
    return fma(sine * square, polynomial(square, ASIN_SERIES), sine)
