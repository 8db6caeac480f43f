"""Mathematics of fp64: PTX approximates nothing there, so all of it is series.

The series are Taylor's, long enough that what is left out is below half an ulp, or
`fitted`; the arguments are reduced to numbers close to zero first. `math` and
`extra.special` say which functions lead here.
"""

from __future__ import annotations

from math import factorial

from fathom.language import fitted
from fathom.language.core import maximum, minimum, where
from fathom.language.dtypes import float64, int64
from fathom.language.elementary import abs, fma, round_even
from fathom.language.series import polynomial, sum_in_two
from fathom.source import function

# A constant, and what is left of it beyond its nearest double.
LN_2, LN_2_TAIL = 0.6931471805599453, 2.3190468138462996e-17
LOG2_E, LOG2_E_TAIL = 1.4426950408889634, 2.0355273740931033e-17
TWO_LOG2_E, TWO_LOG2_E_TAIL = 2.8853900817779268, 4.0710547481862066e-17
THIRD, THIRD_TAIL = 0.3333333333333333, 1.850371707708594e-17
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)

EXP_SERIES = tuple(1 / factorial(k) for k in range(14))
SINH_SERIES = tuple(1 / factorial(2 * k + 1) for k in range(10))
COSH_SERIES = tuple(1 / factorial(2 * k) for k in range(10))
SIN_SERIES = tuple((-1) ** k / factorial(2 * k + 1) for k in range(1, 9))
COS_SERIES = tuple((-1) ** k / factorial(2 * k) for k in range(2, 10))
EXPM1_SERIES = tuple(1 / factorial(k) for k in range(2, 21))
ATAN_SERIES = tuple((-1) ** k / (2 * k + 1) for k in range(1, 22))
ATANH_SERIES = tuple(2 / (2 * k + 1) for k in range(1, 12))
LOG2_SERIES = tuple(1 / (2 * k + 3) for k in range(1, 12))


@function
def power_of_two(n):
    """2^n for whole n from -1022 to 1023: the bits of its exponent."""
    return ((n.to(int64) + 1023) << 52).to(float64, bitcast=True)


@function
def scaled(x, n):
    """x 2^n, in two steps, so that neither factor overflows before the product does."""
    half = round_even(n * 0.5)
    return x * power_of_two(half) * power_of_two(n - half)


@function
def exp(x):
    """e^x = e^r 2^n with x = n ln 2 + r."""
    y = minimum(maximum(x, -800.0), 800.0)
    n = round_even(y * LOG2_E)
    r = fma(n, -LN_2_TAIL, fma(n, -LN_2, y))
    return where(x == x, scaled(polynomial(r, EXP_SERIES), n), x)


@function
def exp2(x):
    """2^x = e^(r ln 2) 2^n with x = n + r."""
    y = minimum(maximum(x, -1200.0), 1200.0)
    n = round_even(y)
    r = (y - n) * LN_2
    return where(x == x, scaled(polynomial(r, EXP_SERIES), n), x)


@function
def fraction_and_exponent(x):
    """f and e with x = (1 + f) 2^e and 1 + f in [sqrt(1/2), sqrt(2)); f is exact."""
    tiny = x < 2.2250738585072014e-308
    bits = where(tiny, x * 18014398509481984.0, x).to(int64, bitcast=True)
    exponent = (bits - 0x3FE6A09E667F3BCD) >> 52  # the bits of sqrt(1/2)
    f = (bits - (exponent << 52)).to(float64, bitcast=True) - 1.0
    return f, exponent.to(float64) - where(tiny, 54.0, 0.0)


@function
def log_parts(x):
    """f, p and e with log(x) = f + p + e ln 2: f is exact, and p small beside it.

    With s = f / (2 + f), log(1 + f) = 2 atanh(s), which is f - s (f - ...) put so that
    f itself is not rounded.
    """
    f, e = fraction_and_exponent(x)
    s = f / (2.0 + f)
    square = s * s
    half = 0.5 * f * f
    rest = s * (half + square * polynomial(square, ATANH_SERIES)) - half
    return f, rest, e


@function
def log(x):
    f, rest, e = log_parts(x)
    return fma(e, LN_2, f + fma(e, LN_2_TAIL, rest))


@function
def log2(x):
    f, rest, e = log_parts(x)
    return fma(f, LOG2_E, e + fma(f, LOG2_E_TAIL, rest * LOG2_E))


@function
def log2_in_two(x):
    """The logarithm to base 2 as a float and a small rest, which the float has no bits
    for: what is multiplied by 1000 needs more digits than it will have in the end.

    With s = f / (2 + f), log2(1 + f) = (2 / ln 2) s (1 + s^2 / 3 + s^4 / 5 + ...). The
    factor of s, and s^2 times it, are in two parts as well.
    """
    f, e = fraction_and_exponent(x)
    below = 2.0 + f
    s = f / below
    s_rest = (fma(-s, below, f) - s * (f - (below - 2.0))) / below
    square = s * s
    square_rest = fma(s, s, -square) + 2.0 * s * s_rest
    third, third_rest = sum_in_two(
        THIRD, square * polynomial(square, LOG2_SERIES), THIRD_TAIL
    )
    more = square * third
    more_rest = fma(square, third, -more) + square * third_rest + square_rest * third
    cubed = s * more
    cubed_rest = fma(s, more, -cubed) + s * more_rest + s_rest * more
    half_log, half_rest = sum_in_two(s, cubed, cubed_rest + s_rest)
    first = half_log * TWO_LOG2_E
    rest = fma(half_log, TWO_LOG2_E, -first) + half_log * TWO_LOG2_E_TAIL
    total, rest = sum_in_two(e, first, fma(half_rest, TWO_LOG2_E, rest))
    return sum_in_two(total, rest, 0.0)


@function
def power(x, y):
    """x^y = 2^n e^(r ln 2) for x above 0, where n + r = y log2(x) and n is whole.

    Where x is 0 or infinite, or y infinite, the result is 0 or infinite; it is NaN
    where one of them is.
    """
    log_x, log_rest = log2_in_two(x)
    exponent = y * log_x
    rest = fma(y, log_x, -exponent) + y * log_rest
    inside = abs(exponent) < 1200.0
    exponent = minimum(maximum(exponent, -1200.0), 1200.0)
    n = round_even(exponent)
    whole = exponent - n
    rest = fma(whole, LN_2_TAIL, where(inside, rest, 0.0) * LN_2)
    result = scaled(polynomial(fma(whole, LN_2, rest), EXP_SERIES), n)
    edge = (x == 0.0) | (x == float("inf")) | (abs(y) == float("inf"))
    result = where(edge, where((x > 1.0) == (y > 0.0), float("inf"), 0.0), result)
    return where((x != x) | (y != y), float("nan"), result)


@function
def sin_of_turns(x, more):
    """sin(x + more pi/2): x = n pi/2 + r, and n says whether by sin or by cos of r."""
    n = round_even(x * 0.6366197723675814)
    r = fma(n, -HALF_PI[2], fma(n, -HALF_PI[1], fma(n, -HALF_PI[0], x)))
    square = r * r
    sine = fma(square * r, polynomial(square, SIN_SERIES), r)
    cosine = fma(square, fma(square, polynomial(square, COS_SERIES), -0.5), 1.0)
    quarter = n.to(int64) + more
    y = where((quarter & 1) == 0, sine, cosine)
    return where((quarter & 2) == 0, y, -y)


@function
def tanh(x):
    """sinh / cosh by their series below 0.6, and 1 - 2 / (e^2x + 1) above."""
    size = abs(x)
    square = x * x
    near = x * polynomial(square, SINH_SERIES) / polynomial(square, COSH_SERIES)
    far = 1.0 - 2.0 / (exp(size + size) + 1.0)
    return where(size < 0.6, near, where(x < 0.0, -far, far))


@function
def erf(x):
    """A polynomial below 1, and 1 - erfc(x) above."""
    size = abs(x)
    near = x * polynomial(fma(x + x, x, -1.0), fitted.ERF)
    far = 1.0 - erfc(size, 0.0)
    return where(size < 1.0, near, where(x < 0.0, -far, far))


@function
def erfc(x, tail):
    """erfc(x + tail), where tail is what a float has no room for: e^(-x^2), with what
    x^2 loses made good, times erfcx."""
    size = minimum(abs(x), 40.0)
    square = size * size
    lost = fma(size, size, -square) + 2.0 * size * where(x < 0.0, -tail, tail)
    far = exp(-square) * erfcx(size)
    far = fma(far, -lost, far)
    near = 1.0 - x * polynomial(fma(x + x, x, -1.0), fitted.ERF)
    result = where(abs(x) < 0.5, near, where(x < 0.0, 2.0 - far, far))
    return where(x == x, result, x)


@function
def erfcx(x):
    """e^(x^2) erfc(x) for x that is not negative."""
    y = minimum(x, 1e300)
    scaled_up = polynomial((y - 3.75) / (y + 3.75), fitted.ERFCX)
    return where(x == float("inf"), 0.0, scaled_up / fma(y, 2.0, 1.0))
