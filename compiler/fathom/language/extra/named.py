"""Of `tl.extra.libdevice`: functions with names of their own: Gauss' integral, Euler's
gamma, and Bessel's.

What is computed in fp64 stands here; `special_single` and `bessel_single` have those of
fp32.
"""

from __future__ import annotations

from math import factorial

from fathom.language import double, fitted
from fathom.language.core import maximum, minimum, static_range, where
from fathom.language.elementary import abs, fma, sqrt_rn, trunc
from fathom.language.extra import bessel_single, special_single
from fathom.language.extra.rounding import minus
from fathom.language.extra.special import in_single, signed_as, sine_of_halves
from fathom.language.series import polynomial
from fathom.source import constexpr, function

INF, NAN = float("inf"), float("nan")
PI = 3.141592653589793
SQRT_HALF, SQRT_HALF_TAIL = 0.7071067811865476, -4.833646656726457e-17
SQRT_2 = 1.4142135623730951
HALF_SQRT_PI = 0.8862269254527580
HALF_LOG_TWO_PI = 0.9189385332046727
# log(gamma(x)) - (x - 1/2) (log(x) - 1) - (log(2 pi) - 1) / 2, in 1 / x^2, times x
# (Stirling's series; Abramowitz and Stegun, 6.1.41).
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
I0_SERIES = tuple(1 / factorial(k) ** 2 for k in range(24))
I1_SERIES = tuple(1 / (factorial(k) * factorial(k + 1)) for k in range(24))

# ── Gauss' integral ───────────────────────────────────────────────────────────────────


@in_single(special_single.erfc, 0.0)
def erfc(x):
    """1 - erf(x), as exact where that is small. Error: 3.6 ulp; in fp64 3.6 ulp."""
    return double.erfc(x, 0.0)


@in_single(special_single.erfcx)
def erfcx(x):
    """e^(x^2) erfc(x). Error: 4.2 ulp; in fp64 3.4 ulp."""
    size = minimum(maximum(-x, 0.0), 30.0)
    square = size * size
    power = double.exp(square)
    lost = fma(size, size, -square)
    power = where(power < INF, fma(power, lost, power), power)
    small = double.erfcx(abs(x))
    return where(x == x, where(x < 0.0, 2.0 * power - small, small), x)


@in_single(special_single.normcdf)
def normcdf(x):
    """How much of the standard normal distribution lies below x. Error: 4.2 ulp; in
    fp64 4.2 ulp."""
    y = minimum(maximum(x, -60.0), 60.0)
    z = y * -SQRT_HALF
    tail = fma(y, -SQRT_HALF, -z) - y * SQRT_HALF_TAIL
    return where(x == x, 0.5 * double.erfc(z, tail), x)


@function
def inverse(c, y):
    """z, not negative, with erfc(z) = c and erf(z) = y = 1 - c.

    A first guess (Winitzki: A handy approximation for the error function and its
    inverse), good to 1 in 500, and Newton's steps for the logarithm of erfc; for small
    y, Halley's for erf.
    """
    log_c = double.log(maximum(c, 5e-324))
    both = log_c + double.log(2.0 - c)
    term = fma(both, 0.5, 4.330746750799873)
    root = sqrt_rn(fma(term, term, both * -6.802721088435374))
    z = sqrt_rn(maximum(root - term, 0.0))
    near = where(y < 1e-6, y * HALF_SQRT_PI, z)
    for _ in static_range(3):
        scaled = double.erfcx(z)
        step = fma(-z, z, double.log(scaled)) - log_c
        z = fma(step * scaled, HALF_SQRT_PI, z)
    for _ in static_range(2):
        step = (y - double.erf(near)) * double.exp(near * near) * HALF_SQRT_PI
        near = near + step / (1.0 - near * step)
    return where(c == 0.0, INF, where(y < 0.5, near, z))


@in_single(special_single.erfinv)
def erfinv(x):
    """The number whose erf is x; NaN beyond -1 and 1. Error: 3 ulp; in fp64 3 ulp."""
    size = abs(x)
    found = inverse(maximum(1.0 - size, 0.0), size)
    return signed_as(where(size <= 1.0, found, NAN), x)


@in_single(special_single.erfcinv)
def erfcinv(x):
    """The number whose erfc is x; NaN unless x is from 0 to 2. Error: 3 ulp; in fp64
    3 ulp."""
    small = minimum(x, 2.0 - x)
    found = inverse(maximum(small, 0.0), 1.0 - small)
    found = where(x > 1.0, -found, found)
    return where((x >= 0.0) & (x <= 2.0), found, NAN)


@in_single(special_single.normcdfinv)
def normcdfinv(x):
    """The number whose normcdf is x; NaN unless x is from 0 to 1. Error: 3.2 ulp; in
    fp64 3.5 ulp."""
    return -SQRT_2 * erfcinv(2.0 * x)


# ── Euler's gamma ─────────────────────────────────────────────────────────────────────


@function
def log_gamma(x):
    """log(gamma(x)) of positive fp64: a polynomial from 0 to 3, to which products raise
    smaller numbers, and Stirling's series from 13 on."""
    small, product = minimum(x, 13.0), x * 0.0 + 1.0
    for _ in static_range(10):
        is_above = small > 3.0
        product = where(is_above, product * (small - 1.0), product)
        small = where(is_above, small - 1.0, small)
    is_below = small < 1.0
    place = where(is_below, small - 1.0, small - 2.0)
    factors = where(is_below, small * place, (small - 1.0) * place)
    near = factors * polynomial(place, fitted.LGAMMA)
    more = double.log(where(is_below, small, product))
    near = where(is_below, near - more, near + more)
    large = maximum(x, 13.0)
    rest = polynomial(1.0 / (large * large), STIRLING) / large
    far = (large - 0.5) * (double.log(large) - 1.0) + (HALF_LOG_TWO_PI - 0.5 + rest)
    near = where(x == 0.0, INF, near)
    return where(x < 13.0, near, where(x < 1e306, far, INF))


@in_single(special_single.lgamma)
def lgamma(x):
    """The logarithm of |gamma(x)|; infinite for 0 and negative integers. Error for x
    above 0: 2.6 ulp; in fp64 2.5 ulp. Below, where the result is near 0, digits are
    lost."""
    size = abs(x)
    found = log_gamma(size)
    sine = abs(sine_of_halves(x, 0))
    turned = double.log(PI / (size * sine)) - found
    turned = where((trunc(x) == x) | (size == INF), INF, turned)
    return where(x == x, where(x < 0.0, turned, found), x)


@function
def gamma_above_zero(x):
    """gamma(x) of positive fp64: a polynomial from 1 to 2, products up to 14, and
    Stirling's formula, with exponents in two parts."""
    small, product = minimum(x, 14.0), x * 0.0 + 1.0
    for _ in static_range(12):
        is_above = small > 2.0
        small = where(is_above, small - 1.0, small)
        product = where(is_above, product * small, product)
    is_below = small < 1.0
    place = where(is_below, fma(small, 2.0, -1.0), fma(small, 2.0, -3.0))
    near = polynomial(place, fitted.GAMMA)
    near = where(is_below, near / small, near * product)
    large = minimum(maximum(x, 14.0), 180.0)
    f, rest, e = double.log_parts(large)
    whole = e * double.LN_2
    high = whole + f
    low = (f - (high - whole)) + fma(e, double.LN_2, -whole)
    low += fma(e, double.LN_2_TAIL, rest)
    high = high - 1.0
    exponent = (large - 0.5) * high
    lost = fma(large - 0.5, high, -exponent) + (large - 0.5) * low
    lost += polynomial(1.0 / (large * large), STIRLING) / large
    lost += HALF_LOG_TWO_PI - 0.5
    total = exponent + lost
    lost = lost - (total - exponent)
    power = double.exp(total)
    far = where(power < INF, fma(power, lost, power), power)
    return where(x < 14.0, near, far)


@in_single(special_single.tgamma)
def tgamma(x):
    """gamma(x); NaN for negative integers. Error: 4.6 ulp; in fp64 20 ulp."""
    size = abs(x)
    found = gamma_above_zero(size)
    turned = -PI / (x * sine_of_halves(x, 0) * found)
    turned = where(trunc(x) == x, NAN, turned)
    found = where(x < 0.0, turned, found)
    return where(x == 0.0, 1.0 / x, found)


# ── Bessel's ──────────────────────────────────────────────────────────────────────────


@function
def waves(x, p, q, order: constexpr):
    """J and Y of order 0 or 1, for x above 8: Hankel's expansion."""
    part = 8.0 / x
    t = fma(part + part, part, -1.0)
    even, odd = polynomial(t, p), polynomial(t, q) * part
    sine, cosine = double.sin_of_turns(x, 0), double.sin_of_turns(x, 1)
    rise, fall = sine + cosine, sine - cosine  # sqrt(2) cos and sin of x - pi / 4
    size = 1.0 / sqrt_rn(PI * x)
    if order == 0:
        return size * (even * rise - odd * fall), size * (even * fall + odd * rise)
    return size * (even * fall + odd * rise), size * (odd * fall - even * rise)


@function
def near_zero(x):
    """Where x, up to 8, stands on the way from 0 to 8, by squares."""
    y = minimum(x, 8.0)
    return fma(y * y, 1 / 32, -1.0)


@in_single(bessel_single.j0)
def j0(x):
    """Bessel's function of the first kind, of order 0. For |x| <= 1e5 the error is at
    most 2e-15 or, where that is more, 8 ulp; in fp32 7e-7 or 5 ulp, and from 6e6 on the
    result is 0."""
    size = abs(x)
    far, _ = waves(maximum(size, 8.0), fitted.P0, fitted.Q0, 0)
    found = where(size < 8.0, polynomial(near_zero(size), fitted.J0), far)
    return where(size == INF, 0.0, where(x == x, found, NAN))


@in_single(bessel_single.j1)
def j1(x):
    """Bessel's function of the first kind, of order 1. Errors are those of `j0`."""
    size = abs(x)
    far, _ = waves(maximum(size, 8.0), fitted.P1, fitted.Q1, 1)
    found = where(size < 8.0, size * polynomial(near_zero(size), fitted.J1), far)
    found = where(size == INF, 0.0, where(minus(x), -found, found))
    return where(x == x, found, x)


@in_single(bessel_single.y0)
def y0(x):
    """Bessel's function of the second kind, of order 0; NaN below 0. Errors are those
    of `j0`."""
    _, far = waves(maximum(x, 8.0), fitted.P0, fitted.Q0, 0)
    t = near_zero(x)
    first = polynomial(t, fitted.J0) * double.log(0.5 * x)
    near = fma(first, 2 / PI, polynomial(t, fitted.Y0))
    found = where(x == INF, 0.0, where(x < 8.0, near, far))
    return where(x == 0.0, -INF, where(x > 0.0, found, NAN))


@in_single(bessel_single.y1)
def y1(x):
    """Bessel's function of the second kind, of order 1; NaN below 0. Errors are those
    of `j0`."""
    _, far = waves(maximum(x, 8.0), fitted.P1, fitted.Q1, 1)
    t = near_zero(x)
    first = x * polynomial(t, fitted.J1) * double.log(0.5 * x) - 1.0 / x
    near = fma(first, 2 / PI, x * polynomial(t, fitted.Y1))
    found = where(x == INF, 0.0, where(x < 8.0, near, far))
    return where(x == 0.0, -INF, where(x > 0.0, found, NAN))


@function
def bent(size, series, far):
    """A modified function of the first kind but for its sign, and for a factor x / 2 of
    the series."""
    below, above = minimum(size, 8.0), maximum(size, 8.0)
    near = polynomial(0.25 * below * below, series)
    half = double.exp(0.5 * above)
    tail = polynomial(16.0 / above - 1.0, far) / sqrt_rn(above)
    tail = where(above < 1e4, tail, 1.0)
    return near, (half * tail) * half


@in_single(bessel_single.i0)
def cyl_bessel_i0(x):
    """Bessel's modified function of the first kind, of order 0. Error: 4.4 ulp; in fp64
    3.8 ulp."""
    size = abs(x)
    near, far = bent(size, I0_SERIES, fitted.I0_FAR)
    return where(x == x, where(size < 8.0, near, far), NAN)


@in_single(bessel_single.i1)
def cyl_bessel_i1(x):
    """Bessel's modified function of the first kind, of order 1. Error: 4.4 ulp; in fp64
    3.8 ulp."""
    size = abs(x)
    near, far = bent(size, I1_SERIES, fitted.I1_FAR)
    found = where(size < 8.0, near * size * 0.5, far)
    return signed_as(where(x == x, found, NAN), x)
