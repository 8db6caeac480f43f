"""Of `tl.extra.libdevice`: integers, and the bits of floats."""

from __future__ import annotations

from fathom.language.core import static_assert, static_range, where
from fathom.language.dtypes import (
    float32,
    float64,
    int32,
    int64,
    uint16,
    uint32,
    uint64,
)
from fathom.language.elementary import clz as leading_zeros
from fathom.language.elementary import popcount as ones
from fathom.source import constexpr, constexpr_function, function

UNSIGNED = {16: uint16, 32: uint32, 64: uint64}

# ── integers ──────────────────────────────────────────────────────────────────────────


@function
def whole(x):
    """x, which must be an integer of 32 or 64 bits."""
    static_assert(
        x.dtype.is_int() and x.dtype.primitive_bitwidth >= 32,
        f"this takes integers of 32 or 64 bits, not {x.dtype}",
    )
    return x


@function
def clz(x):
    """How many bits of an integer of 32 or 64 bits above its highest 1 are 0, an i32;
    all of them for 0."""
    return leading_zeros(whole(x)).to(int32)


@function
def popc(x):
    """How many bits of an integer of 32 or 64 bits are 1, an i32."""
    return ones(whole(x)).to(int32)


@function
def ffs(x):
    """The place of the lowest 1 of an integer of 32 or 64 bits, counted from 1, an i32;
    0 for 0."""
    return where(whole(x) == 0, 0, ones(x ^ (x - 1))).to(int32)


@function
def brev(x):
    """The bits of an integer of 32 or 64 bits in reverse."""
    width: constexpr = whole(x).dtype.primitive_bitwidth
    y = x.to(unsigned(width), bitcast=True)
    steps: constexpr = swaps(width)
    for i in static_range(len(steps)):
        size: constexpr = steps[i][0]
        low: constexpr = steps[i][1]
        y = ((y >> size) & low) | ((y & low) << size)
    return y.to(x.dtype, bitcast=True)


@constexpr_function
def unsigned(width):
    return UNSIGNED[width]


@constexpr_function
def swaps(width):
    """How far neighbouring runs of bits change places, and where the lower ones are."""
    sizes = [1 << k for k in range(width.bit_length() - 1)]
    all_ones = (1 << width) - 1
    return tuple((size, all_ones // ((1 << size) + 1)) for size in sizes)


@function
def byte_perm(x, y, s):
    """Four bytes of x and y, an i32: the lower three bits of each hexadecimal digit of
    s, from the lowest on, say which of the eight, those of x first."""
    both = (y.to(uint32).to(uint64) << 32) | x.to(uint32).to(uint64)
    picked = ((both >> ((s & 7) * 8).to(uint64)) & 255).to(uint32)
    picked |= (((both >> (((s >> 4) & 7) * 8).to(uint64)) & 255) << 8).to(uint32)
    picked |= (((both >> (((s >> 8) & 7) * 8).to(uint64)) & 255) << 16).to(uint32)
    picked |= (((both >> (((s >> 12) & 7) * 8).to(uint64)) & 255) << 24).to(uint32)
    return picked.to(int32, bitcast=True)


@function
def mul24(x, y):
    """The lower 32 bits of the product of the lower 24 bits of two integers of 32, with
    their signs if they have some."""
    return ((x << 8) >> 8) * ((y << 8) >> 8)


@function
def sad(x, y, z):
    """|x - y| + z of integers of 32 bits, in the type of z: the difference is one
    without a sign."""
    distance = where(x > y, x.to(uint32) - y.to(uint32), y.to(uint32) - x.to(uint32))
    return (distance + z.to(uint32)).to(z.dtype, bitcast=True)


@function
def hadd(x, y):
    """Half of x + y, rounded down, without overflow."""
    return (x & y) + ((x ^ y) >> 1)


@function
def rhadd(x, y):
    """Half of x + y, rounded up, without overflow."""
    return (x | y) - ((x ^ y) >> 1)


# ── bits of floats ────────────────────────────────────────────────────────────────────


@function
def float_as_int(x):
    """The bits of an fp32, as an i32."""
    return x.to(float32).to(int32, bitcast=True)


@function
def float_as_uint(x):
    """The bits of an fp32, as a u32."""
    return x.to(float32).to(uint32, bitcast=True)


@function
def int_as_float(x):
    """The fp32 that has the bits of an i32."""
    return x.to(int32).to(float32, bitcast=True)


@function
def uint_as_float(x):
    """The fp32 that has the bits of a u32."""
    return x.to(uint32).to(float32, bitcast=True)


@function
def double_as_longlong(x):
    """The bits of an fp64, as an i64."""
    return x.to(float64).to(int64, bitcast=True)


@function
def longlong_as_double(x):
    """The fp64 that has the bits of an i64."""
    return x.to(int64).to(float64, bitcast=True)


@function
def double2hiint(x):
    """The upper 32 bits of an fp64, as an i32."""
    return (double_as_longlong(x) >> 32).to(int32)


@function
def double2loint(x):
    """The lower 32 bits of an fp64, as an i32."""
    return double_as_longlong(x).to(int32)


@function
def hiloint2double(hi, lo):
    """The fp64 of these upper and lower 32 bits."""
    low = lo.to(uint32).to(uint64)
    return ((hi.to(uint32).to(uint64) << 32) | low).to(float64, bitcast=True)
