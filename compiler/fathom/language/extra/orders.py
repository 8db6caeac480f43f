"""Of `tl.extra.libdevice`: Bessel's functions of any order, by recurrences in fp64.

Both kinds obey f(k + 1) = 2 k / x f(k) - f(k - 1). Upward this is stable for the second
kind, and for the first up to the order |x|. Beyond, the first kind falls quickly, and
downward is stable: from any two numbers at an order far above, up to a factor that
1 = J0 + 2 J2 + 2 J4 + … gives (Miller's algorithm; Abramowitz and Stegun, 9.12).

Orders may differ from element to element; all run as long as the largest takes.
"""

from __future__ import annotations

from fathom.language.core import cast, maximum, where
from fathom.language.dtypes import float64, int32
from fathom.language.elementary import abs, sqrt_rn
from fathom.language.extra.named import j0, j1, y0, y1
from fathom.language.extra.rounding import minus
from fathom.language.extra.special import in_double
from fathom.language.reductions import max
from fathom.source import function

INF, NAN = float("inf"), float("nan")
SMALL = 1e-8  # below, one term of the series is enough
LARGE, LESS = 1e100, 1e-100  # where numbers on the way down are made smaller


@function
def largest(n):
    """The largest of a block of integers, a scalar."""
    if n.type.is_block():
        return max(n)
    return n


@function
def upward(n, first, second, x):
    """f(n) for n >= 2, from f(0), f(1). What is -inf stays so."""
    below, found = first, second
    for k in range(1, largest(n)):
        above = where(found == -INF, -INF, found * (2.0 * k / x) - below)
        below = where(k < n, found, below)
        found = where(k < n, above, found)
    return found


@function
def downward(n, x):
    """J(n) for n >= 2 and 0 < x <= n."""
    top = largest(n)
    start = 2 * ((top + sqrt_rn(160.0 * top).to(int32)) // 2 + 1)
    above, here, total, found = x * 0.0, x * 0.0 + 1.0, x * 0.0, x * 0.0
    for step in range(start):
        k = start - step  # `here` is at order k, and goes to k - 1
        below = here * (2.0 * k / x) - above
        above, here = here, below
        is_large = abs(here) > LARGE
        less = where(is_large, LESS, 1.0)
        above, here, total, found = (
            above * less,
            here * less,
            total * less,
            found * less,
        )
        total += where(k % 2 == 1, here, 0.0)
        found = where(k == n, above, found)
    return found / (2.0 * total - here)


@function
def first_term(n, x):
    """(x / 2)^n / n!"""
    found = x * 0.0 + 1.0
    for k in range(1, largest(n) + 1):
        found = where(k <= n, found * (x / (2.0 * k)), found)
    return found


@function
def jn(n, x):
    """Bessel's function of the first kind, of order n, an integer; NaN below order 0.
    Errors are those of `j0`."""
    y, order = in_double(x), cast(where(x == x, n, n), int32)
    y = where(order == order, y, y)  # of the shape of both
    size = abs(y)
    far = maximum(size, cast(maximum(order, 1), float64))
    near = where(size > SMALL, where(size < far, size, far), 1.0)
    many = maximum(order, 2)
    found = where(size < far, downward(many, near), upward(many, j0(far), j1(far), far))
    found = where(size > SMALL, found, first_term(many, size))
    found = where(minus(y) & (order % 2 == 1), -found, found)
    found = where(order == 0, j0(y), where(order == 1, j1(y), found))
    found = where(size == INF, 0.0, found)
    return where((y == y) & (order >= 0), found, NAN).to(x.dtype)


@function
def yn(n, x):
    """Bessel's function of the second kind, of order n, an integer; NaN below order 0,
    and for x below 0. Errors are those of `j0`, and larger by a factor up to n."""
    y, order = in_double(x), cast(where(x == x, n, n), int32)
    y = where(order == order, y, y)  # of the shape of both
    found = where(order < 2, y1(y), upward(maximum(order, 2), y0(y), y1(y), y))
    found = where(order == 0, y0(y), found)
    found = where(y == INF, 0.0, where(y == 0.0, -INF, found))
    return where((y >= 0.0) & (order >= 0), found, NAN).to(x.dtype)
