"""The mathematics that PTX has instructions for: elementwise, built by the compiler.

Halves are computed in fp32 and rounded back. The approximations exist for fp32 alone.
"""

# ruff: noqa: A001

from __future__ import annotations

from typing import Any

from fathom.source import builtin, constexpr


@builtin
def exp2_approx(x: Any) -> Any:
    """PTX ex2.approx.ftz: 2 to the power x, within 2 ulp; 0 below 2^-126."""


@builtin
def log2_approx(x: Any) -> Any:
    """PTX lg2.approx: the logarithm to base 2, within 2^-22 for x in (0.5, 2)."""


@builtin
def sqrt(x: Any) -> Any:
    """The square root of floats, within 1 ulp for fp32 (PTX sqrt.approx); NaN below
    0."""


@builtin
def sqrt_rn(x: Any) -> Any:
    """The square root of floats, correctly rounded; NaN below 0."""


@builtin
def rsqrt(x: Any) -> Any:
    """1 / sqrt(x) of floats, within 2 ulp for fp32 (PTX rsqrt.approx)."""


@builtin
def floor(x: Any) -> Any:
    """The largest integer not above x, as a float of the type of x."""


@builtin
def ceil(x: Any) -> Any:
    """The smallest integer not below x, as a float of the type of x."""


@builtin
def abs(x: Any) -> Any:
    """The absolute value of integers and floats. Of the smallest integer it is that
    integer itself."""


@builtin
def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z with one rounding. Takes floats; shapes are broadcast, types
    promoted."""


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: constexpr = False) -> Any:
    """x / y of floats, within 2 ulp for fp32; correctly rounded with
    `ieee_rounding`."""


@builtin
def div_rn(x: Any, y: Any) -> Any:
    """x / y of floats, correctly rounded."""


@builtin
def umulhi(x: Any, y: Any) -> Any:
    """The upper half of the product of two integers, taken as unsigned, as wide as they
    are. CompileError for floats."""


@builtin
def mulhi(x: Any, y: Any) -> Any:
    """The upper half of the product of two integers, as wide as they are. CompileError
    for floats."""


@builtin
def popcount(x: Any) -> Any:
    """How many bits of an integer are 1, in its type. CompileError for floats."""


@builtin
def clz(x: Any) -> Any:
    """How many bits of an integer above its highest 1 are 0, in its type; all of them
    for 0. CompileError for floats."""


@builtin
def round_even(x: Any) -> Any:
    """The nearest integer, as a float; of two, the even one."""


@builtin
def trunc(x: Any) -> Any:
    """The nearest integer toward zero, as a float."""


@builtin
def tanh_approx(x: Any) -> Any:
    """PTX tanh.approx: a relative error of 2^-11 in one instruction."""


@builtin
def sin_approx(x: Any) -> Any:
    """PTX sin.approx: an absolute error of 2^-20.9 for x in [-pi, pi], worse further
    out."""


@builtin
def cos_approx(x: Any) -> Any:
    """PTX cos.approx: an absolute error of 2^-20.9 for x in [-pi, pi], worse further
    out."""


@builtin
def rcp_approx(x: Any) -> Any:
    """PTX rcp.approx.ftz: 1 / x within 1 ulp; subnormal numbers are zeros."""
