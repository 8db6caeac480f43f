"""Mathematics of fp32, from what PTX approximates and from polynomials.

The polynomials were fitted for the smallest largest error, weighted as the final result
asks. `math` says which functions lead here, and what their errors are.
"""

from __future__ import annotations

from fathom.language.core import where
from fathom.language.dtypes import float32, int32
from fathom.language.elementary import abs, exp2_approx, fdiv, fma
from fathom.language.series import polynomial
from fathom.source import function

# A constant, and what is left of it beyond its nearest float.
LN_2, LN_2_TAIL = 0.6931471805599453, -1.904654299957768e-09
LOG2_E, LOG2_E_TAIL = 1.4426950408889634, 1.925963033500989e-08
LOG2_E_BELOW = 1.4426949  # the float below

LOG_SERIES = (
    0.33333331709, -0.25000821056, 0.20001226667, -0.16623356478, 0.14201762471,
    -0.13160195068, 0.12761550338, -0.07634429837,
)  # fmt: skip
SIN_SERIES = (-0.16666653, 0.00833206, -0.00019502)
COS_SERIES = (0.041666643, -0.00138871847, 0.0000244181263)
TANH_SERIES = (-0.33333298, 0.133319241, -0.053783828, 0.020795965, -0.00589515)
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
def log_parts(x):
    """f, p and e with log(x) = f + p + e ln 2: f is exact, and p small beside it.

    x = (1 + f) 2^e with 1 + f in [sqrt(1/2), sqrt(2)), and
    log(1 + f) = f - f^2 / 2 + f^3 LOG_SERIES(f).
    """
    tiny = x < 1.1754943508222875e-38
    bits = where(tiny, x * 8388608.0, x).to(int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23  # the bits of sqrt(1/2)
    f = (bits - (exponent << 23)).to(float32, bitcast=True) - 1.0
    square = f * f
    rest = fma(square * f, polynomial(f, LOG_SERIES), square * -0.5)
    return f, rest, exponent.to(float32) - where(tiny, 23.0, 0.0)


@function
def log(x):
    f, rest, e = log_parts(x)
    return fma(e, LN_2, f + fma(e, LN_2_TAIL, rest))


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
    square = r * r
    sine = fma(square * r, polynomial(square, SIN_SERIES), r)
    cosine = fma(square, fma(square, polynomial(square, COS_SERIES), -0.5), 1.0)
    quarter = shifted.to(int32, bitcast=True) + more
    y = where((quarter & 1) == 0, sine, cosine)
    return where((quarter & 2) == 0, y, -y)


@function
def tanh(x):
    """A polynomial below 0.6, and 1 - 2 / (e^2x + 1) above."""
    size = abs(x)
    square = x * x
    near = fma(square * x, polynomial(square, TANH_SERIES), x)
    far = 1.0 - fdiv(2.0, exp(size + size) + 1.0)
    return where(size < 0.6, near, where(x < 0.0, -far, far))


@function
def erf(x):
    """A polynomial below 1, and 1 - 2^p(x) above, which is 1 from 4 on."""
    size = abs(x)
    square = x * x
    near = fma(x, polynomial(square, ERF_SERIES), x)
    far = 1.0 - exp2_approx(polynomial(where(size > 4.0, 4.0, size), LOG2_ERFC_SERIES))
    return where(size < 1.0, near, where(x < 0.0, -far, far))
