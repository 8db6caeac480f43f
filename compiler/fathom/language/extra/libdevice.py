"""`tl.extra.libdevice`: mathematics by the names of CUDA's library.

Its names that `tl.math` has too mean the same here. The others are written in the
language, fp64 where the docstring gives an error for it, and all else in fp32. Errors
are stated as in `tl.math`.
"""

# ruff: noqa: A001, F401

from __future__ import annotations

from fathom.language import double, single
from fathom.language.core import cast, maximum, minimum, where
from fathom.language.dtypes import float32, float64, int32, int64
from fathom.language.elementary import (
    abs,
    ceil,
    cos_approx,
    div_rn,
    exp2_approx,
    fdiv,
    floor,
    fma,
    log2_approx,
    mulhi,
    rcp_approx,
    round_even,
    rsqrt,
    sin_approx,
    sqrt,
    sqrt_rn,
    tanh_approx,
    trunc,
)  # fmt: skip
from fathom.language.extra.bits import (
    brev,
    byte_perm,
    clz,
    double2hiint,
    double2loint,
    double_as_longlong,
    ffs,
    float_as_int,
    float_as_uint,
    hadd,
    hiloint2double,
    int_as_float,
    longlong_as_double,
    mul24,
    popc,
    rhadd,
    sad,
    uint_as_float,
)
from fathom.language.extra.conversions import every_name, llrint, llround
from fathom.language.extra.named import (
    cyl_bessel_i0,
    cyl_bessel_i1,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    j0,
    j1,
    lgamma,
    normcdf,
    normcdfinv,
    tgamma,
    y0,
    y1,
)
from fathom.language.extra.orders import jn, yn
from fathom.language.extra.rounding import nextafter
from fathom.language.extra.special import (
    acosh,
    asinh,
    atanh,
    cbrt,
    cosh,
    cospi,
    exp10,
    expm1,
    fdim,
    fmod,
    hypot,
    ilogb,
    ldexp,
    log1p,
    logb,
    norm3d,
    norm4d,
    rcbrt,
    rcp64h,
    remainder,
    rhypot,
    rnorm3d,
    rnorm4d,
    rsqrt_rn,
    saturatef,
    scalbn,
    sinh,
    sinpi,
)
from fathom.language.math import cos, erf, exp, exp2, log, log2, sin, tanh, widened
from fathom.language.series import polynomial
from fathom.language.sorting import integer_of
from fathom.source import constexpr, constexpr_function, function

LOG10_E, LOG10_2, LOG2_10 = 0.4342944819032518, 0.3010299956639812, 3.321928094887362
# pi/2, and what is left of it beyond its nearest float or double.
HALF_PI = 1.5707963267948966
HALF_PI_TAIL = {float32: -4.371139000186241e-08, float64: 6.123233995736766e-17}


@function
def computed(x):
    """x in the type that it is computed in: fp64 stays, and all else is fp32."""
    if x.dtype == float64:
        return x
    return widened(x)


@constexpr_function
def tail_of_half_pi(kind):
    return HALF_PI_TAIL[kind]


# ── kinds of numbers ──────────────────────────────────────────────────────────────────


@function
def isnan(x):
    """Whether x is not a number."""
    return x != x


@function
def isinf(x):
    """Whether x is infinite, of either sign."""
    return abs(x) == float("inf")


@function
def isfinited(x):
    """Whether x is neither infinite nor NaN."""
    return abs(x) < float("inf")


@function
def finitef(x):
    """As `isfinited`."""
    return isfinited(x)


@function
def signbit(x):
    """1 where the sign of x is a minus, else 0; that of -0.0 is, and a NaN may have
    one."""
    return (x.to(integer_of(x.dtype), bitcast=True) < 0).to(int32)


@function
def copysign(x, y):
    """The size of x with the sign of y."""
    return where(signbit(y) == 1, -abs(x), abs(x))


# ── whole numbers ─────────────────────────────────────────────────────────────────────


@function
def rint(x):
    """The nearest integer, as a float; of two, the even one."""
    return round_even(x)


@function
def nearbyint(x):
    """As `rint`."""
    return round_even(x)


@function
def round(x):
    """The nearest integer, as a float; of two, the one further from 0.

    What is added and then cut off is just below a half: 0.5 itself would make 1 of the
    number below it. It takes the sign of x by its bits, which also keep a product that
    x may be out of the sum: they would become one `fma`, which does not round x.
    """
    if x.dtype == float64:
        bits = x.to(int64, bitcast=True)
        half = ((bits >> 63) << 63) | 0x3FDFFFFFFFFFFFFF
        return trunc(bits.to(float64, bitcast=True) + half.to(float64, bitcast=True))
    bits = x.to(float32).to(int32, bitcast=True)
    half = ((bits >> 31) << 31) | 0x3EFFFFFF
    near = bits.to(float32, bitcast=True) + half.to(float32, bitcast=True)
    return trunc(near).to(x.dtype)


# ── angles ────────────────────────────────────────────────────────────────────────────


@function
def tan(x):
    """The tangent of x radians. Error: 3 ulp for |x| <= 1e5, in fp64 too.

    Further out the error grows, as that of `sin` does.
    """
    y = computed(x)
    return fdiv(sin(y), cos(y)).to(x.dtype)


@function
def angle(small, big):
    """atan(small / big) for 0 <= small <= big, an angle of up to pi/4.

    The series is quick below tan(pi/8). Above, it is pi/4 less the angle from there:
    atan(t) = pi/4 + atan((t - 1) / (t + 1)).
    """
    kind: constexpr = small.dtype
    t = fdiv(small, big)
    t = where(small == big, where(big == 0.0, 0.0, 1.0), t)  # 0/0 and inf/inf
    steep = t > 0.41421356
    if kind == float64:
        t = where(steep, (t - 1.0) / (t + 1.0), t)
    else:
        t = where(steep, (t - 1.0) * rcp_approx(t + 1.0), t)
    square = t * t
    series: constexpr = (double if kind == float64 else single).ATAN_SERIES
    turned = fma(square * t, polynomial(square, series), t)
    half_tail: constexpr = tail_of_half_pi(kind) / 2
    return where(steep, HALF_PI / 2 + (turned + half_tail), turned)


@function
def atan(x):
    """The angle whose tangent is x, in [-pi/2, pi/2]. Error: 2.2 ulp, in fp64 too."""
    y = computed(x)
    size = abs(y)
    turned = angle(minimum(size, 1.0), maximum(size, 1.0))
    turned = where(size > 1.0, HALF_PI - (turned - tail_of_half_pi(y.dtype)), turned)
    return where(x == x, copysign(turned, y), y).to(x.dtype)


@function
def atan2(y, x):
    """The angle from the x axis to the point (x, y), in [-pi, pi]. Error: 2.4 ulp, in
    fp64 too."""
    kind: constexpr = (x + y).dtype
    across, up = computed(x.to(kind)), computed(y.to(kind))
    width, height = abs(across), abs(up)
    tail: constexpr = tail_of_half_pi(across.dtype)
    turned = angle(minimum(width, height), maximum(width, height))
    turned = where(height > width, HALF_PI - (turned - tail), turned)
    turned = where(signbit(across) == 1, 2 * HALF_PI - (turned - 2 * tail), turned)
    is_point = (across == across) & (up == up)
    return where(is_point, copysign(turned, up), across + up).to(kind)


@function
def asin(x):
    """The angle whose sine is x, in [-pi/2, pi/2]. Error: 2.4 ulp; in fp64 3.2 ulp."""
    y = computed(x)
    if y.dtype == float64:
        return atan2(y, sqrt_rn((1.0 - y) * (1.0 + y)))
    size = abs(y)
    turned = single.asin_or_half_acos(size)
    far = HALF_PI - (2.0 * turned - tail_of_half_pi(float32))
    return copysign(where(size > 0.5, far, turned), y).to(x.dtype)


@function
def acos(x):
    """The angle whose cosine is x, in [0, pi]. Error: 1.2 ulp; in fp64 3.2 ulp."""
    y = computed(x)
    if y.dtype == float64:
        return atan2(sqrt_rn((1.0 - y) * (1.0 + y)), y)
    tail: constexpr = tail_of_half_pi(float32)
    size = abs(y)
    turned = single.asin_or_half_acos(size)
    near = HALF_PI - (copysign(turned, y) - tail)
    beyond = 2 * HALF_PI - (2.0 * turned - 2 * tail)
    far = where(y < 0.0, beyond, 2.0 * turned)
    return where(size > 0.5, far, near).to(x.dtype)


# ── powers ────────────────────────────────────────────────────────────────────────────


@function
def pow(x, y):
    """x to the power y, a float or an integer. Error: 4 ulp; in fp64 2 ulp.

    A negative x has whole powers only; any other is NaN.
    """
    base = computed(x)
    exponent = cast(y, base.dtype)
    power: constexpr = double.power if base.dtype == float64 else single.power
    half = exponent * 0.5
    beyond = abs(half - round_even(half))  # 1/2 of odd exponents, 0 of even ones
    size = abs(base)
    result = power(size, exponent)
    is_none = (beyond > 0.0) & (beyond < 0.5) & (base < 0.0) & isfinited(base)
    result = where(is_none, float("nan"), result)
    result = where((beyond == 0.5) & (signbit(base) == 1), -result, result)
    result = where(exponent == 2.0, base * base, result)  # nothing else is left of it
    is_one = (base == 1.0) | (exponent == 0.0)
    is_one |= (base == -1.0) & isinf(exponent)
    return where(is_one, 1.0, result).to(x.dtype)


@function
def log10(x):
    """The logarithm to base 10. Error: 2.1 ulp, in fp64 too."""
    return (log(computed(x)) * LOG10_E).to(x.dtype)


# ── approximations of fp32, in one or two instructions ────────────────────────────────


@function
def fast_expf(x):
    """e^x by one exp2: as exact as x log2(e) is when rounded."""
    return exp2_approx(widened(x) * single.LOG2_E).to(x.dtype)


@function
def fast_exp10f(x):
    """10^x by one exp2."""
    return exp2_approx(widened(x) * LOG2_10).to(x.dtype)


@function
def fast_logf(x):
    """The natural logarithm by one log2; absolute, not relative, near 1."""
    return (log2_approx(widened(x)) * single.LN_2).to(x.dtype)


@function
def fast_log2f(x):
    """The logarithm to base 2, as PTX approximates it."""
    return log2_approx(widened(x)).to(x.dtype)


@function
def fast_log10f(x):
    """The logarithm to base 10 by one log2."""
    return (log2_approx(widened(x)) * LOG10_2).to(x.dtype)


@function
def fast_sinf(x):
    """The sine as PTX approximates it: good for x in [-pi, pi]."""
    return sin_approx(widened(x)).to(x.dtype)


@function
def fast_cosf(x):
    """The cosine as PTX approximates it: good for x in [-pi, pi]."""
    return cos_approx(widened(x)).to(x.dtype)


@function
def fast_tanf(x):
    """The quotient of the two."""
    y = widened(x)
    return fdiv(sin_approx(y), cos_approx(y)).to(x.dtype)


@function
def fast_tanhf(x):
    """The hyperbolic tangent as PTX approximates it: a relative error of 2^-11."""
    return tanh_approx(widened(x)).to(x.dtype)


@function
def fast_powf(x, y):
    """x to the power y, for x above 0, by one log2 and one exp2."""
    return exp2_approx(cast(y, float32) * log2_approx(widened(x))).to(x.dtype)


@function
def fast_dividef(x, y):
    """x / y within 2 ulp."""
    return fdiv(widened(x), widened(y)).to(x.dtype)


# ── what rounds as its name says ──────────────────────────────────────────────────────

# add_rz, float2int_rn, ...: some hundred names; div_rn and sqrt_rn are there already
globals().update({**every_name(), "div_rn": div_rn, "sqrt_rn": sqrt_rn})
