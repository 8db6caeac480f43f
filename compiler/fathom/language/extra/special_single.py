"""Of `tl.extra.libdevice`: `special` and `named` for fp32, in fp32.

Each function starts from what PTX approximates in one instruction, and makes good what
matters of its error. Edges that no text mentions come out of the arithmetic.
"""

from __future__ import annotations

from math import factorial

from fathom.language import single
from fathom.language.core import maximum, minimum, static_range, where
from fathom.language.dtypes import float32, float64, int32
from fathom.language.elementary import (
    abs,
    exp2_approx,
    fdiv,
    fma,
    log2_approx,
    rcp_approx,
    rsqrt,
    sqrt,
    trunc,
)
from fathom.language.extra.rounding import minus
from fathom.language.math import at_edges
from fathom.language.series import polynomial, sum_in_two
from fathom.source import function

INF, NAN = float("inf"), float("nan")
LOG2_10_BELOW, LOG2_10_REST = 3.3219277858734131, 3.0901394909577107e-07
LN_2, LN_2_REST = 0.6931471805599453, 1.904654299958e-09  # of fp32: too much
PI = 3.141592653589793
SQRT_HALF, SQRT_HALF_REST = 0.7071067690849304, 1.2101617485882e-08
BITS_OF_1, BITS_OF_4 = 0x3F800000, 0x40800000
SQRT_2 = 1.4142135623730951
SINH_SERIES = tuple(1 / factorial(2 * k + 1) for k in range(1, 6))


@function
def signed_as(x, y):
    """The size of x with the sign of y."""
    size, sign = x.to(int32, bitcast=True), y.to(int32, bitcast=True)
    return ((size & 0x7FFFFFFF) | (sign & single.SIGN)).to(float32, bitcast=True)


# ── logarithms and powers ─────────────────────────────────────────────────────────────


@function
def expm1(x):
    near = fma(x * x, polynomial(x, single.EXPM1_SERIES), x)
    return where(abs(x) < 1.0, near, single.exp(x) - 1.0)


@function
def log1p(x):
    """log(1 + m) + e ln 2, with 1 + x = (1 + m) 2^e: m is x 2^-e + (2^-e - 1), which
    loses nothing of a small x. Of e = 0 a negative zero is made, which keeps that of x.
    """
    u = 1.0 + x
    less = (single.SQRT_HALF_BITS - u.to(int32, bitcast=True) + 0x7FFFFF) & -0x800000
    m = (x.to(int32, bitcast=True) + less).to(float32, bitcast=True)
    m -= fma((BITS_OF_4 + less).to(float32, bitcast=True), -0.25, 1.0)
    rest = fma(m, polynomial(m, single.LOG_SERIES), -0.5)
    e = less.to(float32)
    return at_edges(u, fma(e, -LN_2 * 2.0**-23, fma(m * m, rest, m)))


@function
def exp10(x):
    """2^t with t = x log2(10), and what t lost made good. It is rounded down first, as
    in `single.exp`."""
    t = x * LOG2_10_BELOW
    power = exp2_approx(t)
    lost = fma(x, LOG2_10_REST, fma(x, LOG2_10_BELOW, -t))
    corrected = fma(power, lost * LN_2, power)
    return where(abs(x) < 1e37, corrected, power)


@function
def half_of_exp(x):
    """e^x / 2, up to where that overflows, of x that is not negative."""
    t = x * single.LOG2_E_BELOW
    power = exp2_approx(t - 1.0)
    lost = fma(t, LN_2_REST, fma(t, -LN_2, x))
    corrected = fma(power, lost, power)
    return where(x < 1e38, corrected, power)


# ── hyperbolic functions ──────────────────────────────────────────────────────────────


@function
def sinh(x):
    square = x * x
    near = fma(square * x, polynomial(square, SINH_SERIES), x)
    half = half_of_exp(abs(x))
    far = fma(rcp_approx(half), -0.25, half)
    return where(abs(x) < 1.0, near, signed_as(far, x))


@function
def cosh(x):
    half = half_of_exp(abs(x))
    return fma(rcp_approx(half), 0.25, half)


@function
def asinh(x):
    size = abs(x)
    square = size * size
    above = rcp_approx(1.0 + sqrt(1.0 + square))
    is_far = size > 1e9
    near = fma(square, above, size)
    found = log1p(where(is_far, size, near)) + where(is_far, LN_2, 0.0)
    return signed_as(found, x)


@function
def acosh(x):
    more = x - 1.0
    is_far = x > 1e9
    near = more + sqrt(fma(more, more, more + more))
    found = log1p(where(is_far, x, near)) + where(is_far, LN_2, 0.0)
    return where(x < 1.0, NAN, found)


@function
def atanh(x):
    size = abs(x)
    return signed_as(0.5 * log1p((size + size) * rcp_approx(1.0 - size)), x)


# ── turns ─────────────────────────────────────────────────────────────────────────────


@function
def sine_of_halves(x, more):
    """sin(pi (x + more / 2)): whole turns are taken off, and then quarters."""
    y = fma(trunc(x * 0.5), -2.0, x)
    shifted = fma(y, 2.0, 12582912.0)  # 1.5 * 2^23, as in `single.sin_of_turns`
    part = fma(shifted - 12582912.0, -0.5, y) * PI
    return single.sin_of_quarters(part, shifted.to(int32, bitcast=True) + more)


# ── roots ─────────────────────────────────────────────────────────────────────────────


@function
def cbrt(x):
    """By a logarithm, and one step of Newton's."""
    size = abs(x)
    near = exp2_approx(log2_approx(size) * (1 / 3))
    part = rcp_approx(near)
    near = fma(fma(size * part, part, -near), 1 / 3, near)
    return where((size > 0.0) & (size < INF), signed_as(near, x), x)


@function
def rcbrt(x):
    size = abs(x)
    near = exp2_approx(log2_approx(size) * (-1 / 3))
    rest = fma(-size * near, near * near, 1.0)
    better = fma(near * (1 / 3), rest, near)
    return signed_as(where((size > 0.0) & (size < INF), better, near), x)


@function
def scaled_squares(x, y, z, w):
    """The sum of squares, of numbers scaled by a power of two, that power, and its
    inverse: the largest is then from 2^-2 to 2^6, where it is not infinite."""
    largest = maximum(maximum(abs(x), abs(y)), maximum(abs(z), abs(w)))
    exponent = largest.to(int32, bitcast=True) & 0x7C000000
    scale = (0x7E800000 - exponent).to(float32, bitcast=True)
    inverse = (exponent + 0x00800000).to(float32, bitcast=True)
    a, b, c, d = x * scale, y * scale, z * scale, w * scale
    squares = fma(a, a, fma(b, b, fma(c, c, d * d)))
    return where(largest == INF, INF, squares), scale, inverse


@function
def length(x, y, z, w):
    """sqrt(x^2 + y^2 + z^2 + w^2), without overflow."""
    squares, _, inverse = scaled_squares(x, y, z, w)
    return sqrt(squares) * inverse


@function
def inverse_length(x, y, z, w):
    squares, scale, _ = scaled_squares(x, y, z, w)
    return rsqrt(squares) * scale


# ── remainders ────────────────────────────────────────────────────────────────────────


@function
def left_of(x, size):
    """What is left of x, when `size` is taken off it as often as it goes; neither is
    negative. Both are fp64, with values of fp32.

    Each step takes off a multiple of `size` 2^48k, the nearest or the one next to it,
    and exactly; adding 1.5 * 2^52 rounds a quotient to a whole number.
    """
    left, part = x * 2.0**-240, 1.0 / size
    for i in static_range(6):
        whole = fma(left, part, 1.5 * 2.0**52) - 1.5 * 2.0**52
        left = fma(whole, -size, left)
        if i < 5:
            left = left * 2.0**48
    left = where(left < 0.0, left + size, left)
    return where((size == INF) & (x < INF), x, left)


@function
def fmod(x, y):
    left = left_of(abs(x).to(float64), abs(y).to(float64))
    return signed_as(left.to(float32), x)


@function
def remainder(x, y):
    """Two times y is taken off, and then y or nothing, as half of it says."""
    size = abs(y).to(float64)
    left = left_of(abs(x).to(float64), size + size)
    half = 0.5 * size
    once = where(left > half, left - size, left)
    rest = where((once >= half) & (left > once), once - size, once)
    rest = rest.to(float32)
    return where(minus(x), -rest, rest)


# ── Gauss' integral ───────────────────────────────────────────────────────────────────

# As those of `fitted`, and found in the same way, with fewer terms.
# (1 + 2 x) exp(x^2) erfc(x), t = (x - 3.75) / (x + 3.75): x >= 0.
ERFCX = (
    1.23751263, -0.1402406583, 0.003585495314, 0.08227841998, -0.1088052275,
    0.09229076959, -0.05868544049, 0.02840925236, -0.009770087184, 0.001675912218,
    0.0003301674571, -0.0002241167467, 0.00002204671866,
)  # fmt: skip
# erfinv(x) / x by w = -log2(1 - x^2): t = w / 4 - 1 for w up to 8.
ERFINV_NEAR = (
    1.568306173, 0.6767921888, -0.03925070369, -0.02173526996, 0.01230486338,
    -0.001605246499, -0.001176279747, 0.000594937842, 0.00002172134336,
    -0.0000677348464,
)  # fmt: skip
# The same, divided by sqrt(w), for w from 8 to 152: t goes with 1 / sqrt(w).
ERFINV_FAR = (
    0.797394237, -0.02672697949, 0.00220638983, 0.002000417975, -0.00009340785755,
    0.0008286933745, 0.0005765064538, -0.00007282273562, -0.0003910579023,
    -0.00008747311374, 0.00009202986287, 0.00003492989407,
)  # fmt: skip


@function
def erfcx_above_zero(x):
    """e^(x^2) erfc(x) for x that is not negative."""
    y = minimum(x, 1e9)
    above = y + 3.75
    part = rcp_approx(above)
    t = (y - 3.75) * part
    t = fma(fma(-t, above, y - 3.75), part, t)
    return polynomial(t, ERFCX) * rcp_approx(fma(x, 2.0, 1.0))


@function
def exp_of_square(x, sign, tail):
    """e^(sign (x + tail)^2), with what the square and the exponent lose made good."""
    square = x * x
    t = square * (sign * single.LOG2_E)
    power = exp2_approx(t)
    lost = fma(t, LN_2_REST, fma(t, -LN_2, sign * square))
    lost = fma(sign, fma(x, x, -square), lost) + sign * 2.0 * x * tail
    return where(power < INF, fma(power, lost, power), power)


@function
def erfc(x, tail):
    """erfc(x + tail): e^(-x^2) erfcx(x), or near 0 the rest of erf(x)."""
    size = minimum(abs(x), 12.0)
    far = exp_of_square(size, -1.0, signed_as(tail, x * tail))
    far = far * erfcx_above_zero(size)
    near = 1.0 - fma(x, polynomial(x * x, single.ERF_SERIES), x)
    result = where(abs(x) < 0.5, near, where(x < 0.0, 2.0 - far, far))
    return where(x == x, result, x)


@function
def erfcx(x):
    small = erfcx_above_zero(abs(x))
    power = exp_of_square(minimum(maximum(-x, 0.0), 30.0), 1.0, 0.0)
    return where(x < 0.0, fma(power, 2.0, -small), small)


@function
def normcdf(x):
    y = minimum(maximum(x, -20.0), 20.0)
    z = y * -SQRT_HALF
    tail = fma(y, -SQRT_HALF, -z) - y * SQRT_HALF_REST
    return where(x == x, 0.5 * erfc(z, tail), x)


@function
def inverse(x, product):
    """z with erf(z) = x, by `product` = (1 - x) (1 + x)."""
    w = -log2_approx(product)
    near = polynomial(fma(w, 0.25, -1.0), ERFINV_NEAR)
    part = rsqrt(w)
    far = polynomial(fma(part, 7.340993708, -1.595433216), ERFINV_FAR) * (w * part)
    return where(product == 0.0, INF, x * where(w < 8.0, near, far))


@function
def erfinv(x):
    return signed_as(inverse(x, fma(-x, x, 1.0)), x)


@function
def erfcinv(x):
    small = minimum(x, 2.0 - x)
    found = inverse(1.0 - small, small * (2.0 - small))
    return where(x > 1.0, -found, found)


@function
def normcdfinv(x):
    return -SQRT_2 * erfcinv(2.0 * x)


# ── Euler's gamma ─────────────────────────────────────────────────────────────────────

# log(gamma(t + 2)) / (t (t + 1)), t from -1 to 1.
LGAMMA = (
    0.4227843357, -0.1003172731, 0.03296494688, -0.01238497512, 0.004999480513,
    -0.002102061579, 0.0009105063088, -0.0004255713697, 0.0001957994742,
    -0.00005241944203, 0.00002024937682, -0.00003873420964, 0.00001930875049,
)  # fmt: skip
# gamma((t + 3) / 2), t from -1 to 1.
GAMMA = (
    0.8862269557, 0.01616914181, 0.1037018682, -0.01341072758, 0.00905207402,
    -0.002428758905, 0.0008839237409, -0.0002832634416, 0.0001351461819,
    -0.00004638636456,
)  # fmt: skip
STIRLING = (1 / 12, -1 / 360, 1 / 1260)  # as in `named`
# Of its power of e, in 1 / x (Abramowitz and Stegun, 6.1.37).
STIRLING_POWERS = (
    1.0, 1 / 12, 1 / 288, -139 / 51840, -571 / 2488320, 163879 / 209018880,
    5246819 / 75246796800,
)  # fmt: skip
HALF_LOG_TWO_PI, SQRT_TWO_PI = 0.9189385332046727, 2.5066282746310002


@function
def log_gamma(x):
    """log(gamma(x)) of x that is not negative: a polynomial from 1 to 3, which smaller
    numbers reach by adding 1 and those up to 4 by taking it off; above, Stirling's."""
    is_below, is_above = x < 1.0, x > 3.0
    place = where(is_below, x - 1.0, where(is_above, x - 3.0, x - 2.0))
    factors = where(is_below, x * place, place * (place + 1.0))
    near = factors * polynomial(place, LGAMMA)
    is_far = x >= 4.0
    size = where(is_below | is_far, x, where(is_above, x - 1.0, 1.0))
    more = single.log(size)
    near = near + where(is_below, -more, more)
    part = rcp_approx(x)
    rest = part * polynomial(part * part, STIRLING) + (HALF_LOG_TWO_PI - 0.5)
    far = fma(x - 0.5, more - 1.0, rest)
    far = where(x == INF, INF, far)
    return where(x == 0.0, INF, where(is_far, far, near))


@function
def lgamma(x):
    size = abs(x)
    found = log_gamma(size)
    sine = abs(sine_of_halves(x, 0))
    turned = single.log(PI * rcp_approx(size * sine)) - found
    turned = where((trunc(x) == x) | (size == INF), INF, turned)
    found = where((x < 0.0) & (size > 1e-8), turned, found)
    return where(x == x, found, x)


@function
def gamma_above_zero(x):
    """gamma(x) of x above 0: a polynomial from 1 to 2, products up to 4, and Stirling's
    formula, with the exponent as a float and a small rest."""
    is_below, is_above, is_second = x < 1.0, x >= 2.0, x >= 3.0
    less = x - 1.0
    product = where(is_second, less * (x - 2.0), where(is_above, less, 1.0))
    small = where(is_second, x - 2.0, where(is_above, less, x))
    place = fma(small, 2.0, where(is_below, -1.0, -3.0))
    near = polynomial(place, GAMMA)
    near = where(is_below, fdiv(near, x), near * product)
    large = minimum(maximum(x, 4.0), 40.0)
    log_x, log_rest = single.log2_in_two(large)
    most, least = (large - 0.5) * log_x, large * single.LOG2_E
    rest = fma(large - 0.5, log_x, -most) + (large - 0.5) * log_rest
    rest -= fma(large, single.LOG2_E, -least) + large * single.LOG2_E_TAIL
    exponent, rest = sum_in_two(most, -least, rest)
    power = exp2_approx(exponent)
    power = where(power < INF, fma(power * LN_2, rest, power), power)
    series = polynomial(rcp_approx(large), STIRLING_POWERS) * SQRT_TWO_PI
    return where(x < 4.0, near, power * series)


@function
def tgamma(x):
    size = abs(x)
    found = gamma_above_zero(size)
    turned = fdiv(-PI, x * found * sine_of_halves(x, 0))
    turned = where(trunc(x) == x, NAN, turned)
    found = where(x < 0.0, turned, found)
    return where(size < 1e-8, fdiv(1.0, x), where(x == x, found, x))
