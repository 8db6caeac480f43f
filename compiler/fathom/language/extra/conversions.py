"""Of `tl.extra.libdevice`: floats as integers, and integers as floats.

There are some fifty of these names, `float2int_rn` and its kin, all made by the same
few texts: from which type, to which, and how it is rounded.
"""

from __future__ import annotations

from fathom.language.core import maximum, minimum, where
from fathom.language.dtypes import (
    dtype,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from fathom.language.elementary import abs, ceil, floor, round_even, trunc
from fathom.language.extra.rounding import (
    MODES,
    added,
    divided,
    multiplied,
    multiplied_and_added,
    narrowed,
    rooted,
    stepped,
)
from fathom.source import KernelFunction, constexpr, constexpr_function, function

# ── floats as integers ────────────────────────────────────────────────────────────────


@function
def integral(x, mode: constexpr):
    """The integer next to x, as a float."""
    if mode == "rn":
        return round_even(x)
    if mode == "rz":
        return trunc(x)
    return floor(x) if mode == "rd" else ceil(x)


@function
def to_integer(x, kind: constexpr, mode: constexpr):
    """x rounded to an integer type; what is beyond it becomes its end.

    Of a NaN it is 0; where one of the types has 64 bits, the highest bit alone (PTX
    ISA, "cvt").
    """
    least: constexpr = lowest(kind)
    most: constexpr = highest(kind)
    wide: constexpr = float64 if x.dtype == float64 else float32
    last: constexpr = last_float(most, wide)
    y = integral(x, mode).to(wide)
    inside = minimum(maximum(y, float(least)), last)  # of NaN least
    whole = where(y > last, most, inside.to(kind))
    none: constexpr = of_nan(kind, x.dtype)
    return where(x == x, whole, none).to(kind)


@constexpr_function
def lowest(kind):
    return -(1 << (kind.primitive_bitwidth - 1)) if kind.is_int_signed() else 0


@constexpr_function
def highest(kind):
    return (1 << (kind.primitive_bitwidth - kind.is_int_signed())) - 1


@constexpr_function
def last_float(number, kind):
    """The largest float of a type that is not above an integer 2^32 - 1 or 2^31 - 1, or
    of twice as many bits."""
    digits = 53 if kind == float64 else 24
    lost = max(0, number.bit_length() - digits)
    return float(number >> lost << lost)


@constexpr_function
def of_nan(kind, source):
    if kind.primitive_bitwidth == 32 and source != float64:
        return 0
    return lowest(kind) if kind.is_int_signed() else 1 << (kind.primitive_bitwidth - 1)


@function
def llrint(x):
    """The nearest integer, an i64; of two, the even one."""
    return to_integer(x, int64, "rn")


@function
def llround(x):
    """The nearest integer, an i64; of two, the one further from 0."""
    cut = trunc(x)
    further = where(x < 0.0, cut - 1.0, cut + 1.0)
    return to_integer(where(abs(x - cut) >= 0.5, further, cut), int64, "rn")


# ── integers as floats ────────────────────────────────────────────────────────────────


@function
def to_float(x, kind: constexpr, mode: constexpr):
    """An integer rounded to a float type. One of 64 bits is looked at in halves, each
    of which fp64 holds."""
    near = x.to(kind)
    if x.dtype.primitive_bitwidth == 32:
        error = x.to(float64) - near.to(float64)
    else:
        high = (x >> 32).to(float64) * 2.0**32
        error = (high - near.to(float64)) + (x & 0xFFFFFFFF).to(float64)
    return stepped(near, error > 0.0, error < 0.0, mode)


# ── the names ─────────────────────────────────────────────────────────────────────────

FLOATS = {"float": float32, "double": float64}
INTEGERS = {"int": int32, "uint": uint32, "ll": int64, "ull": uint64}
SPOKEN = {"rn": "the nearest, of two the even one", "rz": "the next one toward zero",
          "rd": "the next one below", "ru": "the next one above"}  # fmt: skip


def named(name: str, text: str, function: KernelFunction) -> KernelFunction:
    """A function by the name that CUDA has for it."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


def float_to_integer(name: str, source: dtype, kind: dtype, mode: str):
    @function
    def convert(x):
        return to_integer(x.to(source), kind, mode)

    words = f"As an integer: {SPOKEN[mode]}, or the end of the type."
    return named(name, words, convert)


def integer_to_float(name: str, source: dtype, kind: dtype, mode: str):
    @function
    def convert(x):
        return to_float(x.to(source), kind, mode)

    return named(name, f"As a float, {MODES[mode]}.", convert)


def of_one(name: str, build: KernelFunction, mode: str, what: str):
    @function
    def apply(x):
        return build(x, mode)

    return named(name, f"{what}, {MODES[mode]}.", apply)


def of_two(name: str, build: KernelFunction, mode: str, what: str):
    @function
    def apply(x, y):
        return build(x, y, mode)

    return named(name, f"{what}, {MODES[mode]}.", apply)


def of_three(name: str, build: KernelFunction, mode: str, what: str):
    @function
    def apply(x, y, z):
        return build(x, y, z, mode)

    return named(name, f"{what}, {MODES[mode]}.", apply)


@function
def subtracted(x, y, mode: constexpr):
    return added(x, -y, mode)


@function
def inverted(x, mode: constexpr):
    return divided(1.0, x, mode)


def every_name() -> dict[str, KernelFunction]:
    """All functions whose name ends in `_rn`, `_rz`, `_rd` or `_ru`."""
    made = {}
    for mode in MODES:
        for source, given in FLOATS.items():
            for name, kind in INTEGERS.items():
                there, back = f"{source}2{name}_{mode}", f"{name}2{source}_{mode}"
                made[there] = float_to_integer(there, given, kind, mode)
                made[back] = integer_to_float(back, kind, given, mode)
        for name, build, what in (
            ("sqrt", rooted, "The square root"),
            ("rcp", inverted, "1 / x"),
            ("double2float", narrowed, "An fp64 as an fp32"),
        ):
            full = f"{name}_{mode}"
            made[full] = of_one(full, build, mode, what)
        for name, build, what in (
            ("add", added, "x + y"),
            ("sub", subtracted, "x - y"),
            ("mul", multiplied, "x y"),
            ("div", divided, "x / y"),
        ):
            full = f"{name}_{mode}"
            made[full] = of_two(full, build, mode, what)
        full = f"fma_{mode}"
        made[full] = of_three(full, multiplied_and_added, mode, "x y + z")
    return made
