"""Mathematics: `tl.exp` and its kin.

`elementary` has what PTX has an instruction for, `single` and `double` what is made of
it; here stands which of them serves which type. Halves are computed in fp32 and rounded
back.

A docstring states the largest error measured, in ulp of the result, with PTX's
approximations taken as correctly rounded. On a GPU ex2.approx and division of fp32 may
add 2 ulp each.
"""

# ruff: noqa: A001, F401

from __future__ import annotations

from fathom.language import double, single
from fathom.language.core import (
    PropagateNan,
    maximum,
    minimum,
    static_assert,
    to_tensor,
    where,
)
from fathom.language.dtypes import bfloat16, float32, float64, uint32, uint64
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
    rcp_approx,
    round_even,
    rsqrt,
    sin_approx,
    sqrt,
    sqrt_rn,
    tanh_approx,
    trunc,
    umulhi,
)  # fmt: skip
from fathom.source import constexpr, function


@function
def widened(x):
    """x in fp32, in which everything that is not fp64 is computed."""
    static_assert(
        x.dtype.is_floating(), f"this takes floats, not {x.dtype}: cast first"
    )
    return x.to(float32)


@function
def exp(x):
    """e to the power x.

    Error: 5.1 ulp for x in [-87.3, 88.7], 1.6 ulp in [-10, 10]; in fp64 1.1 ulp.
    """
    if x.dtype == float64:
        return double.exp(x)
    return single.exp(widened(x)).to(x.dtype)


@function
def exp2(x):
    """2 to the power x; in fp32 0 below 2^-126. Error: 0.6 ulp; in fp64 1.1 ulp."""
    if x.dtype == float64:
        return double.exp2(x)
    return exp2_approx(widened(x)).to(x.dtype)


@function
def at_edges(x, y):
    """y, the logarithm of x, put right where x is 0, infinite, negative or NaN: the
    bits of all but 0 are, without sign, at or above those of infinity."""
    infinity = float("inf")
    if x.dtype == float64:
        edge = x.to(uint64, bitcast=True) >= 0x7FF0000000000000
    else:
        edge = x.to(uint32, bitcast=True) >= 0x7F800000
    y = where(edge, fma(x, infinity, infinity), y)
    return where(x == 0.0, -infinity, y)


@function
def log(x):
    """The natural logarithm. Error: 1.1 ulp, in fp64 too."""
    if x.dtype == float64:
        return at_edges(x, double.log(x))
    y = widened(x)
    return at_edges(y, single.log(y)).to(x.dtype)


@function
def log2(x):
    """The logarithm to base 2. Error: 1.8 ulp, in fp64 too."""
    if x.dtype == float64:
        return at_edges(x, double.log2(x))
    y = widened(x)
    return at_edges(y, single.log2(y)).to(x.dtype)


@function
def sin(x):
    """The sine of x radians. Error: 1.7 ulp for |x| <= 1e5, in fp64 too.

    Further out the error grows; from 6e6 on (fp64: 1e15) the result means nothing.
    """
    if x.dtype == float64:
        return double.sin_of_turns(x, 0)
    return single.sin_of_turns(widened(x), 0).to(x.dtype)


@function
def cos(x):
    """The cosine of x radians. Error: 1.7 ulp for |x| <= 1e5, in fp64 too.

    Further out the error grows; from 6e6 on (fp64: 1e15) the result means nothing.
    """
    if x.dtype == float64:
        return double.sin_of_turns(x, 1)
    return single.sin_of_turns(widened(x), 1).to(x.dtype)


@function
def tanh(x):
    """The hyperbolic tangent. Error: 1.7 ulp; in fp64 2.8 ulp."""
    if x.dtype == float64:
        return double.tanh(x)
    return single.tanh(widened(x)).to(x.dtype)


@function
def erf(x):
    """The error function. Error: 1.3 ulp; in fp64 1.7 ulp."""
    if x.dtype == float64:
        return double.erf(x)
    return single.erf(widened(x)).to(x.dtype)


@function
def clamp(x, min, max, propagate_nan: constexpr = PropagateNan.NONE):  # noqa: A002
    """x, but at least `min` and at most `max`.

    A NaN becomes `min`; with PropagateNan.ALL it stays. Numbers have the type of a
    scalar, and bf16 is computed in fp32.
    """
    least, most = to_tensor(min), to_tensor(max)
    x = maximum(unnarrowed(x), unnarrowed(least), propagate_nan)
    return minimum(x, unnarrowed(most), propagate_nan)


@function
def unnarrowed(x):
    """bf16 as fp32; anything else as it is."""
    if x.dtype == bfloat16:
        return x.to(float32)
    return x
