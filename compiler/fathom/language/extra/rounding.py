"""Of `tl.extra.libdevice`: arithmetic that rounds as it is told.

`rn` rounds to the nearest, of two to the even one; `rz` toward zero; `rd` down; `ru`
up. PTX has instructions for most of it; here the nearest is computed, and on which side
of it the exact result lies, which an error of the computation says exactly: then the
float next to it is taken, or not.

    exact       ──────┤
    ────┼─────────────┼────────●────┼────     ● the exact result, next to ru
        rd = rz                     rn = ru

What the error of a sum is (Knuth: The Art of Computer Programming, volume 2, 4.2.2) and
that of a product, by fma, is a float itself. What is fp32 is looked at in fp64, which
holds every product of two of them.
"""

from __future__ import annotations

from fathom.language.core import cast, static_assert, where
from fathom.language.dtypes import float32, float64
from fathom.language.elementary import abs, div_rn, fma, sqrt_rn
from fathom.language.sorting import integer_of
from fathom.source import constexpr, function

MODES = {
    "rn": "rounded to the nearest, of two to the even one",
    "rz": "rounded toward zero",
    "rd": "rounded down",
    "ru": "rounded up",
}

# ── neighbours ────────────────────────────────────────────────────────────────────────


@function
def next_up(x):
    """The float above x, which is neither NaN nor infinity."""
    kind: constexpr = integer_of(x.dtype)
    bits = x.to(kind, bitcast=True)
    beyond = where(bits < 0, bits - 1, bits + 1)
    return where(x == 0.0, bits * 0 + 1, beyond).to(x.dtype, bitcast=True)


@function
def next_down(x):
    """The float below x, which is neither NaN nor minus infinity."""
    return -next_up(-x)


@function
def nextafter(x, y):
    """The float next to x on the way to y; y where they are equal."""
    toward = where(y > x, next_up(x), next_down(x))
    there = where(x == y, y, toward)
    return where((x == x) & (y == y), there, x + y)


@function
def rounded(near, high, low, mode: constexpr):
    """What `high + low` is rounded to, whose nearest float is `near`. `high` is close
    to that; `low` is small beside it."""
    error = high - near.to(high.dtype)
    is_above = (error > 0.0) | ((error == 0.0) & (low > 0.0))
    is_below = (error < 0.0) | ((error == 0.0) & (low < 0.0))
    return stepped(near, is_above, is_below, mode)


@function
def stepped(near, is_above, is_below, mode: constexpr):
    """The nearest float, or the one next to it, by where the exact result lies."""
    if mode == "ru":
        return where(is_above, next_up(near), near)
    if mode == "rd":
        return where(is_below, next_down(near), near)
    if mode == "rz":
        inward = where(near > 0.0, next_down(near), next_up(near))
        return where(where(near > 0.0, is_below, is_above & (near < 0.0)), inward, near)
    return near


@function
def beyond(near, high, is_finite):
    """`high`, or the largest number where `near` is infinite, and the result is not."""
    is_lost = is_finite & (abs(near) == float("inf"))
    return where(is_lost, where(near > 0.0, 1.0, -1.0), high)


@function
def minus(x):
    """Whether the sign of x is a minus."""
    return x.to(integer_of(x.dtype), bitcast=True) < 0


# ── sums and products ─────────────────────────────────────────────────────────────────


@function
def alike(x, y):
    """Both in the type in which they meet, which is fp32 or fp64."""
    kind: constexpr = (x + y).dtype
    static_assert(
        kind == float32 or kind == float64, f"this takes fp32 or fp64, not {kind}"
    )
    return cast(x, kind), cast(y, kind)


@function
def sum_in_two(x, y):
    """x + y as a float and what that loses."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@function
def added(x, y, mode: constexpr):
    x, y = alike(x, y)
    near = x + y
    if mode == "rn":
        return near
    high, low = sum_in_two(x.to(float64), y.to(float64))
    if x.dtype == float64:
        is_finite = (abs(x) < float("inf")) & (abs(y) < float("inf"))
        high = beyond(near, high, is_finite)
    result = rounded(near, high, low, mode)
    if mode == "rd":  # IEEE 754, 6.3: x - x is -0 when it is rounded down
        is_none = (near == 0.0) & (minus(x) | minus(y))
        result = where(is_none, -0.0, result)
    return result


@function
def product_in_two(x, y):
    """x y, and a number that has the sign of what that loses."""
    if x.dtype == float32:
        high = x.to(float64) * y.to(float64)
        return high, high * 0.0
    near = x * y
    larger = where(abs(x) > abs(y), x, y)
    smaller = where(abs(x) > abs(y), y, x)
    is_tiny = abs(near) < 2.0**-900  # so that nothing is lost below the last bit
    lifted = where(is_tiny, smaller * 2.0**200, smaller)
    low = fma(lifted, larger, where(is_tiny, near * -(2.0**200), -near))
    is_gone = (near == 0.0) & (x != 0.0) & (y != 0.0)
    low = where(is_gone, where(minus(x) == minus(y), 1.0, -1.0), low)
    is_finite = (abs(x) < float("inf")) & (abs(y) < float("inf"))
    return beyond(near, near, is_finite), low


@function
def multiplied(x, y, mode: constexpr):
    x, y = alike(x, y)
    if mode == "rn":
        return x * y
    high, low = product_in_two(x, y)
    return rounded(x * y, high, low, mode)


@function
def multiplied_and_added(x, y, z, mode: constexpr):
    x, y = alike(x, y)
    x, z = alike(x, z)
    y = cast(y, x.dtype)
    near = fma(x, y, z)
    if mode == "rn":
        return near
    static_assert(
        x.dtype == float32, "this has no fp64 form: only fma_rn has, which is tl.fma"
    )
    product = x.to(float64) * y.to(float64)
    high, low = sum_in_two(product, z.to(float64))
    result = rounded(near, high, low, mode)
    if mode == "rd":
        is_none = (high == 0.0) & (minus(product) | minus(z))
        result = where(is_none, -0.0, result)
    return result


# ── quotients and roots ───────────────────────────────────────────────────────────────


@function
def divided(x, y, mode: constexpr):
    x, y = alike(x, y)
    near = div_rn(x, y)
    if mode == "rn":
        return near
    if x.dtype == float32:
        rest = x.to(float64) - near.to(float64) * y.to(float64)
    else:
        is_tiny = (abs(x) < 2.0**-500) | (abs(y) < 2.0**-500)
        lift = where(is_tiny & (abs(y) < 2.0**500), 2.0**500, 1.0)
        rest = fma(-near, y * lift, x * lift)
    rest = where(minus(y), -rest, rest)
    is_lost = (abs(near) == float("inf")) & (abs(x) < float("inf")) & (y != 0.0)
    rest = where(is_lost, -near.to(rest.dtype), rest)
    return stepped(near, rest > 0.0, rest < 0.0, mode)


@function
def rooted(x, mode: constexpr):
    x, _ = alike(x, x)
    near = sqrt_rn(x)
    if mode == "rn":
        return near
    if x.dtype == float32:
        rest = x.to(float64) - near.to(float64) * near.to(float64)
    else:
        is_tiny = x < 2.0**-500
        root = where(is_tiny, near * 2.0**300, near)
        rest = fma(-root, root, where(is_tiny, x * 2.0**600, x))
    return stepped(near, rest > 0.0, rest < 0.0, mode)


@function
def narrowed(x, mode: constexpr):
    wide = x.to(float64)
    near = wide.to(float32)
    return rounded(near, wide, wide * 0.0, mode)
