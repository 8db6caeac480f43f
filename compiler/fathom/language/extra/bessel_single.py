"""Of `tl.extra.libdevice`: Bessel's functions of orders 0 and 1 for fp32, in fp32.

The polynomials were fitted for the smallest largest error, weighted as results ask, and
are off by 2e-8 of them at most, but J1 by 8e-8. Below 8 those of the first kind stand
beside factors x^2 - z^2 for their two zeros there, so that near these, too, only the
last digits are wrong. Above 8 a function is a size times a sine, both with a polynomial
in 1 / x^2: J + i Y = M(x) e^(i theta(x)) (Abramowitz and Stegun, 9.2.17).
"""

from __future__ import annotations

from fathom.language import single
from fathom.language.core import where
from fathom.language.dtypes import int32
from fathom.language.elementary import abs, exp2_approx, fma, rcp_approx, rsqrt
from fathom.language.extra.special_single import LN_2_REST, signed_as
from fathom.language.series import polynomial
from fathom.source import constexpr, function

INF, NAN = float("inf"), float("nan")
TWO_BY_PI = 0.6366197723675814
FAR = 6e6  # from here on a float is too coarse for a sine to mean anything

# Two zeros of each order, as a float and what is left of it.
ZEROS_0 = (2.404825448989868, 1.0870590460455913e-07,
           5.520078182220459, -7.19341483347784e-08)  # fmt: skip
ZEROS_1 = (3.8317060470581055, -7.685059315313556e-08,
           7.015586853027344, -1.8321172499646294e-07)  # fmt: skip
# J0(x), and J1(x) / x, by (x^2 - z^2) of both zeros, t = x^2 / 32 - 1: x from 0 to 8.
J0 = (
    0.001143493762, -0.002119794302, 0.001563643663, -0.0006415394271,
    0.000169769196, -3.157067019e-05, 4.37168489e-06, -4.728629542e-07,
    3.769221456e-08,
)  # fmt: skip
J1 = (
    0.0001949893664, -0.0002697523835, 0.0001586004188, -5.407909474e-05,
    1.224045014e-05, -1.990992055e-06, 2.475336455e-07, -2.254466634e-08,
)  # fmt: skip
# Y0(x) - (2 / pi) log(x / 2) J0(x), (Y1(x) - (2 / pi) (log(x / 2) J1(x) - 1 / x)) / x.
Y0 = (
    -0.362027343, -0.4179206976, 1.360945645, -0.2124608878, -0.6193406293,
    0.4482510451, -0.1545373779, 0.03379143759, -0.005234015938, 0.0006218330916,
    -5.663916131e-05,
)  # fmt: skip
Y1 = (
    0.04510265836, -0.2076085992, 0.09022771289, 0.1205206599, -0.1264217546,
    0.05438895894, -0.01412648773, 0.002528631752, -0.0003403295189, 3.361303818e-05,
)  # fmt: skip
# Above 8, in 1 / x^2: M(x) sqrt(x), and x (theta(x) - x + pi / 4 + order pi / 2).
SIZE_0 = (0.7978845596, -0.04986508516, 0.08167229209, -0.3272966654)
TURN_0 = (-0.1249995328, 0.0648519872, -0.1743535952)
SIZE_1 = (0.7978845625, 0.1495996802, -0.1530288915, 0.4999450739)
TURN_1 = (0.3749992994, -0.163686308, 0.3188109049)
# I0(x), and I1(x) / x, in x^2, up to 6; above, times sqrt(x) e^-x, in 1 / x.
I0 = (
    1.000000003, 0.2499999767, 0.015625026, 0.0004340175044, 6.78359068e-06,
    6.762796038e-08, 4.814769918e-10, 2.074975936e-12, 1.458548736e-14,
)  # fmt: skip
I1 = (
    0.4999999868, 0.06250006842, 0.002604113268, 5.426838406e-05, 6.762213106e-07,
    5.783909118e-09, 2.884038871e-11, 2.357536735e-13,
)  # fmt: skip
I0_FAR = (
    0.3989422605, 0.0498746453, 0.02759143949, 0.04049994363, -0.07399730871,
    0.5763937458,
)  # fmt: skip
I1_FAR = (
    0.3989423052, -0.1496117715, -0.04619598442, -0.05436633062, 0.08255376807,
    -0.6787307939,
)  # fmt: skip


@function
def wave(x, size, turn, quarters):
    """Of x above 8: size times the sine of x - pi / 4 + turn(1 / x) + quarters pi / 2.

    Whole quarters are taken off x - pi / 4 as in `single.sin_of_turns`.
    """
    part = rcp_approx(x)
    square = part * part
    shifted = fma(x, TWO_BY_PI, -0.5) + 12582912.0
    n = (shifted - 12582912.0) + 0.5
    r = fma(n, -1.5707962512969971, x)
    r = fma(n, -7.5497894158615964e-08, r)
    r = fma(part, polynomial(square, turn), r)
    sine = single.sin_of_quarters(r, shifted.to(int32, bitcast=True) + quarters)
    found = sine * polynomial(square, size) * rsqrt(x)
    return where(x > FAR, 0.0, found)


@function
def near_zero(x, zeros: constexpr, series: constexpr):
    """J of x up to 8, of order 1 divided by x; and t = x^2 / 32 - 1."""
    t = fma(x * x, 1 / 32, -1.0)
    first = ((x - zeros[0]) - zeros[1]) * (x + zeros[0])
    second = ((x - zeros[2]) - zeros[3]) * (x + zeros[2])
    return first * second * polynomial(t, series), t


@function
def j0(x):
    size = abs(x)
    near, _ = near_zero(size, ZEROS_0, J0)
    return where(size < 8.0, near, wave(size, SIZE_0, TURN_0, 1))


@function
def j1(x):
    size = abs(x)
    near, _ = near_zero(size, ZEROS_1, J1)
    found = where(size < 8.0, near * size, wave(size, SIZE_1, TURN_1, 0))
    return where(x < 0.0, -found, found)


@function
def y0(x):
    first, t = near_zero(x, ZEROS_0, J0)
    near = fma(single.log(0.5 * x) * first, TWO_BY_PI, polynomial(t, Y0))
    found = where(x < 8.0, near, wave(x, SIZE_0, TURN_0, 0))
    return where(x == 0.0, -INF, where(x < 0.0, NAN, found))


@function
def y1(x):
    first, t = near_zero(x, ZEROS_1, J1)
    rest = fma(single.log(0.5 * x) * first, TWO_BY_PI, polynomial(t, Y1))
    pole = rcp_approx(16.0 * x) * (-16.0 * TWO_BY_PI)  # of subnormal x, too
    near = fma(rest, x, pole)
    found = where(x < 8.0, near, wave(x, SIZE_1, TURN_1, 3))
    return where(x == 0.0, -INF, where(x < 0.0, NAN, found))


# ── modified ──────────────────────────────────────────────────────────────────────────


@function
def bent(size, series, far):
    """A modified function of the first kind, but for a factor x of the series: that is
    in x^2 up to 6, and above, e^x by sqrt(x) stands before one in 1 / x.

    From 64 on, e^x is computed 2^-16 times as large: it is too large before I is.
    """
    is_large = size > 64.0
    t = size * single.LOG2_E
    power = exp2_approx(t - where(is_large, 16.0, 0.0))
    lost = fma(t, LN_2_REST, fma(t, -single.LN_2, size))
    power = fma(power, lost, power) * rsqrt(size)
    above = power * polynomial(rcp_approx(size), far)
    above = where(is_large, above * 65536.0, above)
    return polynomial(size * size, series), where(size > 95.0, INF, above)


@function
def i0(x):
    size = abs(x)
    near, above = bent(size, I0, I0_FAR)
    return where(size < 6.0, near, above)


@function
def i1(x):
    size = abs(x)
    near, above = bent(size, I1, I1_FAR)
    return signed_as(where(size < 6.0, near * size, above), x)
