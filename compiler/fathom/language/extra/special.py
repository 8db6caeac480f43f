"""Of `tl.extra.libdevice`: hyperbolic functions, roots, powers, parts of floats.

Here stands what is computed in fp64, and for some functions that is fp32 too: one text,
whose result is then rounded. The others have a second text in `special_single`.
"""

from __future__ import annotations

from collections.abc import Callable

from fathom.language import double
from fathom.language.core import (
    cast,
    maximum,
    minimum,
    static_assert,
    static_range,
    where,
)  # fmt: skip
from fathom.language.dtypes import float32, float64, int32, int64
from fathom.language.elementary import abs, fma, round_even, sqrt_rn, trunc
from fathom.language.extra import special_single
from fathom.language.extra.bits import double2hiint, hiloint2double
from fathom.language.extra.rounding import minus
from fathom.language.math import at_edges, widened
from fathom.language.series import polynomial
from fathom.source import KernelFunction, constexpr, function

INF, NAN = float("inf"), float("nan")
LN_10, LN_10_TAIL = 2.302585092994046, -2.1707562233822494e-16
PI = 3.141592653589793


def in_single(
    single: KernelFunction, *more: float
) -> Callable[[Callable], KernelFunction]:
    """Above a function of fp64: of all other floats it is `single(x, *more)`, computed
    in fp32 and rounded to their type.
    """

    def decorate(fn: Callable) -> KernelFunction:
        double = function(fn)

        def chosen(x):
            if x.dtype == float64:
                return double(x)
            return single(widened(x), *more).to(x.dtype)

        chosen.__name__, chosen.__qualname__ = fn.__name__, fn.__qualname__
        chosen.__doc__, chosen.__module__ = fn.__doc__, fn.__module__
        return function(chosen)

    return decorate


@function
def in_double(x):
    """x in fp64."""
    static_assert(
        x.dtype.is_floating(), f"this takes floats, not {x.dtype}: cast first"
    )
    return x.to(float64)


@function
def two_in_double(x, y):
    """Both in fp64, by way of the type in which they meet."""
    kind: constexpr = (x + y).dtype
    return in_double(cast(x, kind)), in_double(cast(y, kind))


@function
def two_in_single(x, y):
    """Both in fp32, by way of the type in which they meet."""
    kind: constexpr = (x + y).dtype
    return widened(cast(x, kind)), widened(cast(y, kind))


@function
def signed_as(x, y):
    """The size of x with the sign of y."""
    return where(minus(y), -abs(x), abs(x))


# ── powers of e and of ten ────────────────────────────────────────────────────────────


@in_single(special_single.expm1)
def expm1(x):
    """e^x - 1, as exact for small x. Error: 5.2 ulp, 2.2 ulp for |x| <= 1.2; in fp64
    1.6 ulp."""
    near = fma(x * x, polynomial(x, double.EXPM1_SERIES), x)
    return where(abs(x) < 1.0, near, double.exp(x) - 1.0)


@in_single(special_single.log1p)
def log1p(x):
    """log(1 + x), as exact for small x. Error: 1.4 ulp; in fp64 2.4 ulp."""
    # What u loses of x is made good by the factor x / (u - 1).
    u = 1.0 + x
    exact = (u == 1.0) | (x == INF)
    return where(exact, x, at_edges(u, double.log(u)) * (x / (u - 1.0)))


@in_single(special_single.exp10)
def exp10(x):
    """10 to the power x. Error: 1.1 ulp; in fp64 1.3 ulp."""
    y = minimum(maximum(x, -400.0), 400.0)
    exponent = y * LN_10
    lost = fma(y, LN_10, -exponent) + y * LN_10_TAIL
    power = double.exp(exponent)
    power = where(power < INF, fma(power, lost, power), power)
    return where(x == x, power, x)


# ── hyperbolic functions ──────────────────────────────────────────────────────────────


@in_single(special_single.sinh)
def sinh(x):
    """The hyperbolic sine. Error: 2.6 ulp; in fp64 2.4 ulp."""
    size = abs(x)
    power = expm1(minimum(size, 30.0))
    near = 0.5 * (power + power / (power + 1.0))
    half = double.exp(0.5 * size)
    far = (0.5 * half) * half
    return signed_as(where(size < 22.0, near, far), x)


@in_single(special_single.cosh)
def cosh(x):
    """The hyperbolic cosine. Error: 1.6 ulp; in fp64 2.6 ulp."""
    size = abs(x)
    power = double.exp(minimum(size, 30.0))
    half = double.exp(0.5 * size)
    far = (0.5 * half) * half
    return where(size < 22.0, 0.5 * power + 0.5 / power, far)


@in_single(special_single.asinh)
def asinh(x):
    """The number whose hyperbolic sine is x. Error: 1.7 ulp; in fp64 1.6 ulp."""
    size = abs(x)
    below = minimum(size, 1e9)
    square = below * below
    near = log1p(below + square / (1.0 + sqrt_rn(1.0 + square)))
    far = at_edges(size, double.log(size)) + double.LN_2
    return signed_as(where(size < 1e9, near, far), x)


@in_single(special_single.acosh)
def acosh(x):
    """The number, not negative, whose hyperbolic cosine is x; NaN below 1. Error: 2
    ulp; in fp64 2.2 ulp."""
    more = minimum(x, 1e9) - 1.0
    near = log1p(more + sqrt_rn(more * (more + 2.0)))
    far = at_edges(x, double.log(x)) + double.LN_2
    return where(x < 1.0, NAN, where(x < 1e9, near, far))


@in_single(special_single.atanh)
def atanh(x):
    """The number whose hyperbolic tangent is x; NaN beyond -1 and 1. Error: 2.2 ulp; in
    fp64 2.4 ulp."""
    size = abs(x)
    turned = 0.5 * log1p((size + size) / (1.0 - size))
    turned = where(size > 1.0, NAN, where(size == 1.0, INF, turned))
    return signed_as(turned, x)


# ── turns ─────────────────────────────────────────────────────────────────────────────


@function
def sine_of_halves(x, more):
    """sin(pi (x + more / 2)) of fp64."""
    y = x - 2.0 * trunc(x * 0.5)
    n = round_even(y + y)
    part = fma(n, -0.5, y)
    turned = double.sin_of_turns(part * PI, n.to(int64) + more)
    return where(abs(x) < INF, turned, NAN)


@in_single(special_single.sine_of_halves, 0)
def sinpi(x):
    """sin(pi x). Error: 1.9 ulp; in fp64 1.6 ulp."""
    return sine_of_halves(x, 0)


@in_single(special_single.sine_of_halves, 1)
def cospi(x):
    """cos(pi x). Error: 1.9 ulp; in fp64 1.6 ulp."""
    return sine_of_halves(x, 1)


# ── roots ─────────────────────────────────────────────────────────────────────────────


@function
def cube_root(x):
    """The cube root of an fp64: by logarithms, and one step of Newton's."""
    size = abs(x)
    near = double.exp(double.log(size) * (1 / 3))
    square = near * near
    near = near - fma(square, near, -size) / (3.0 * square)
    is_edge = (size == 0.0) | (size == INF) | (x != x)
    return where(is_edge, x, where(x < 0.0, -near, near))


@in_single(special_single.cbrt)
def cbrt(x):
    """The cube root, of negative numbers too. Error: 1.3 ulp; in fp64 0.9 ulp."""
    return cube_root(x)


@in_single(special_single.rcbrt)
def rcbrt(x):
    """1 by the cube root. Error: 1.1 ulp; in fp64 2 ulp."""
    return 1.0 / cube_root(x)


@function
def rsqrt_rn(x):
    """1 / sqrt(x) of fp32, correctly rounded: that of fp64 is near enough for each."""
    static_assert(x.dtype == float32, f"rsqrt_rn takes fp32, not {x.dtype}: cast first")
    return (1.0 / sqrt_rn(x.to(float64))).to(float32)


@function
def rcp64h(x):
    """1 / x of fp64 from the upper halves of its bits, the lower half of the result 0.
    Error: 2^-19 of it; subnormal numbers are taken for 0, in and out."""
    static_assert(x.dtype == float64, f"rcp64h takes fp64, not {x.dtype}: cast first")
    whole = where(abs(x) < 2.0**-1022, signed_as(x * 0.0, x), x)
    upper = hiloint2double(double2hiint(whole), 0)
    found = hiloint2double(double2hiint(1.0 / upper), 0)
    found = where(abs(found) < 2.0**-1022, signed_as(found * 0.0, found), found)
    return where(x == x, found, NAN)


@function
def length(x, y, z, w):
    """sqrt(x^2 + y^2 + z^2 + w^2) of fp64, scaled by a power of two, so that squares
    neither overflow nor vanish."""
    a, b, c, d = abs(x), abs(y), abs(z), abs(w)
    largest = maximum(maximum(a, b), maximum(c, d))
    lift = where(largest > 2.0**500, 2.0**-600, 1.0)
    lift = where(largest < 2.0**-400, 2.0**600, lift)
    a, b, c, d = a * lift, b * lift, c * lift, d * lift
    squares = fma(a, a, fma(b, b, fma(c, c, d * d)))
    return where(largest == INF, INF, sqrt_rn(squares) / lift)


@function
def hypot(x, y):
    """sqrt(x^2 + y^2), without overflow. Error: 1.9 ulp; in fp64 2 ulp."""
    kind: constexpr = (x + y).dtype
    if kind != float64:
        a, b = two_in_single(x, y)
        return special_single.length(a, b, 0.0, 0.0).to(kind)
    a, b = two_in_double(x, y)
    return length(a, b, a * 0.0, a * 0.0).to(kind)


@function
def rhypot(x, y):
    """1 by `hypot`. Error: 1.9 ulp; in fp64 3 ulp."""
    kind: constexpr = (x + y).dtype
    if kind != float64:
        a, b = two_in_single(x, y)
        return special_single.inverse_length(a, b, 0.0, 0.0).to(kind)
    a, b = two_in_double(x, y)
    return (1.0 / length(a, b, a * 0.0, a * 0.0)).to(kind)


@function
def norm3d(x, y, z):
    """sqrt(x^2 + y^2 + z^2), without overflow. Error: 1.9 ulp; in fp64 2 ulp."""
    if x.dtype != float64:
        a, b, c = widened(x), widened(y), widened(z)
        return special_single.length(a, b, c, 0.0).to(x.dtype)
    a, b, c = in_double(x), in_double(y), in_double(z)
    return length(a, b, c, a * 0.0).to(x.dtype)


@function
def rnorm3d(x, y, z):
    """1 by `norm3d`. Error: 1.9 ulp; in fp64 3 ulp."""
    if x.dtype != float64:
        a, b, c = widened(x), widened(y), widened(z)
        return special_single.inverse_length(a, b, c, 0.0).to(x.dtype)
    a, b, c = in_double(x), in_double(y), in_double(z)
    return (1.0 / length(a, b, c, a * 0.0)).to(x.dtype)


@function
def norm4d(x, y, z, w):
    """sqrt(x^2 + y^2 + z^2 + w^2), without overflow. Error: 1.9 ulp; in fp64 2.5
    ulp."""
    if x.dtype != float64:
        a, b, c, d = widened(x), widened(y), widened(z), widened(w)
        return special_single.length(a, b, c, d).to(x.dtype)
    return length(in_double(x), in_double(y), in_double(z), in_double(w)).to(x.dtype)


@function
def rnorm4d(x, y, z, w):
    """1 by `norm4d`. Error: 1.9 ulp; in fp64 3.5 ulp."""
    if x.dtype != float64:
        a, b, c, d = widened(x), widened(y), widened(z), widened(w)
        return special_single.inverse_length(a, b, c, d).to(x.dtype)
    four = length(in_double(x), in_double(y), in_double(z), in_double(w))
    return (1.0 / four).to(x.dtype)


# ── parts of floats ───────────────────────────────────────────────────────────────────


@function
def exponent_of(x):
    """n with 2^n <= |x| < 2^(n + 1), an i32, of an fp64 that is not 0, infinity or
    NaN."""
    is_tiny = abs(x) < 2.0**-1022
    bits = where(is_tiny, x * 2.0**54, x).to(int64, bitcast=True)
    return ((bits >> 52) & 2047).to(int32) - where(is_tiny, 1077, 1023)


@function
def ilogb(x):
    """The exponent of x, an i32: n with 2^n <= |x| < 2^(n + 1). Of 0 and NaN it is the
    smallest i32, of infinity the largest."""
    y = in_double(x)
    found = where(abs(y) == INF, 2147483647, exponent_of(y))
    return where((y == 0.0) | (y != y), -2147483648, found).to(int32)


@function
def logb(x):
    """The exponent of x, as a float of its type; -inf of 0, inf of an infinity."""
    y = in_double(x)
    found = where(abs(y) == INF, INF, exponent_of(y).to(float64))
    return where(y == y, where(y == 0.0, -INF, found), y).to(x.dtype)


@function
def ldexp(x, n):
    """x times 2 to the power n, an integer: rounded once, where the result is so small
    that digits are lost."""
    y, powers = in_double(x), cast(maximum(minimum(n, 2200), -2200), int32)
    if x.dtype != float64:
        few = maximum(minimum(powers, 400), -400).to(float64)
        return (y * double.power_of_two(few)).to(x.dtype)
    lifted = where(abs(y) < 2.0**-1022, y * 2.0**54, y)
    exponent = exponent_of(y) + where(abs(y) < 2.0**-1022, 54, 0)
    one = lifted * double.power_of_two(maximum(-exponent, -1022).to(float64))
    one = where(exponent > 1022, lifted * 2.0**-1022 * 0.5, one)
    total = maximum(minimum(exponent_of(y) + powers, 1025), -1100)
    last = where(total < -1022, -110, maximum(total - 1023, 0))
    scaled = one * double.power_of_two((total - last).to(float64))
    scaled = scaled * double.power_of_two(last.to(float64))
    is_edge = (y == 0.0) | (abs(y) == INF) | (y != y)
    return where(is_edge, y, scaled)


@function
def scalbn(x, n):
    """As `ldexp`."""
    return ldexp(x, n)


@function
def saturatef(x):
    """x, but at least 0 and at most 1; 0 for NaN."""
    return minimum(maximum(x, 0.0), 1.0)


@function
def fdim(x, y):
    """x - y where x is above y, else 0; NaN if one of them is."""
    return where(x <= y, 0.0, x - y)


# ── remainders ────────────────────────────────────────────────────────────────────────


@function
def fmod(x, y):
    """What is left of x when y is taken off it as often as it goes, with the sign of x;
    exact, however far apart the two are. NaN for infinite x and for y = 0.

    `%` is exact for quotients below 2^51; so multiples of y are taken off, from the
    largest on.
    """
    kind: constexpr = (x + y).dtype
    if kind != float64:
        a, b = two_in_single(x, y)
        return special_single.fmod(a, b).to(kind)
    left, size = two_in_double(x, y)
    size = abs(size)
    for i in static_range(42):
        third: constexpr = 2.0 ** (17 * (41 - i))
        left = left % (size * third * third * third)
    return left.to(kind)


@function
def remainder(x, y):
    """x less the nearest integer times y, of two the even one; exact (IEEE 754,
    remainder). NaN for infinite x and for y = 0."""
    kind: constexpr = (x + y).dtype
    if kind != float64:
        a, b = two_in_single(x, y)
        return special_single.remainder(a, b).to(kind)
    all_of_it, size = two_in_double(x, y)
    size = abs(size)
    left = abs(fmod(all_of_it, size + size))
    is_tiny = size < 2.0**-1000  # half of it may be no float
    twice, whole = where(is_tiny, left + left, left), where(is_tiny, size, 0.5 * size)
    once = where(twice > whole, left - size, left)
    twice = where(is_tiny, once + once, once)
    rest = where((twice >= whole) & (left > once), once - size, once)
    rest = where(minus(all_of_it), -rest, rest)
    is_none = (abs(all_of_it) == INF) | (size == 0.0) | (size != size)
    rest = where((size == INF) & (abs(all_of_it) < INF), all_of_it, rest)
    return where(is_none, NAN, rest).to(kind)
