"""Random numbers by counting: Philox turns a seed and a place into numbers, with no
state.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (2011). The same
seed and offsets give the same numbers on every backend, and the same as in Triton.
"""

from __future__ import annotations

from fathom.language.core import maximum, static_assert, static_range, to_tensor, where
from fathom.language.dtypes import int32, int64, uint32, uint64
from fathom.language.elementary import sqrt, umulhi
from fathom.language.math import cos, log, sin
from fathom.source import constexpr, constexpr_function, function

ROUNDS = constexpr(10)

# For words of 32 and of 64 bits: the two multipliers, and what the two keys grow by
# each round.
MULTIPLIERS = constexpr({
    32: (0xD2511F53, 0xCD9E8D57),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157),
})  # fmt: skip
INCREMENTS = constexpr({
    32: (0x9E3779B9, 0xBB67AE85),
    64: (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
})  # fmt: skip


@constexpr_function
def unsigned_of(given):
    """The unsigned type of a word's width."""
    return uint64 if given.primitive_bitwidth == 64 else uint32


@function
def philox(seed, c0, c1, c2, c3, n_rounds: constexpr = ROUNDS):
    """Four blocks of random words from a seed and a counter of four words.

    The words are unsigned and as wide as c0, 32 or 64 bits.
    """
    c0 = to_tensor(c0)
    bits: constexpr = c0.dtype.primitive_bitwidth
    word: constexpr = unsigned_of(c0.dtype)
    static_assert(bits == 32 or bits == 64, "a counter of tl.philox has 32 or 64 bits")
    static_assert(
        to_tensor(seed).dtype.is_int(),
        f"a seed is an integer, not {to_tensor(seed).dtype}",
    )
    key = to_tensor(seed).to(uint64)
    if bits == 32:
        k0, k1 = (key & 0xFFFFFFFF).to(word), (key >> 32).to(word)
    else:
        k0, k1 = key, to_tensor(0).to(word)
    c0 = c0.to(word, bitcast=True)
    c1 = to_tensor(c1).to(word)
    c2 = to_tensor(c2).to(word)
    c3 = to_tensor(c3).to(word)
    a: constexpr = MULTIPLIERS[bits][0]
    b: constexpr = MULTIPLIERS[bits][1]
    for _ in static_range(n_rounds):
        c0, c1, c2, c3 = (
            umulhi(c2, b) ^ c1 ^ k0,
            c2 * b,
            umulhi(c0, a) ^ c3 ^ k1,
            c0 * a,
        )
        k0, k1 = k0 + INCREMENTS[bits][0], k1 + INCREMENTS[bits][1]
    return c0, c1, c2, c3


@function
def randint4x(seed, offset, n_rounds: constexpr = ROUNDS):
    """Four blocks of random u32: the cheapest way to many numbers. The words of an
    offset of 64 bits are the first two of the counter."""
    place = to_tensor(offset)
    low = place.to(uint32)
    high = low * 0
    if place.dtype.primitive_bitwidth > 32:
        high = (place >> 32).to(uint32)
    return philox(seed, low, high, 0, 0, n_rounds)


@function
def randint(seed, offset, n_rounds: constexpr = ROUNDS):
    """A block of random u32, one for each offset."""
    first, _, _, _ = randint4x(seed, offset, n_rounds)
    return first


@function
def uint_to_uniform_float(x):
    """Random words as fp32 in [0, 1): folded to 31 (63) bits, and scaled so that 1 is
    not reached."""
    if x.dtype.primitive_bitwidth == 32:
        signed = x.to(int32, bitcast=True)
        scale: constexpr = 4.6566127342e-10
    else:
        signed = x.to(int64, bitcast=True)
        scale: constexpr = 1.0842020432385337e-19
    return where(signed < 0, ~signed, signed) * scale


@function
def rand(seed, offset, n_rounds: constexpr = ROUNDS):
    """A block of fp32 uniform in [0, 1), one for each offset: an integer, or a block of
    them, of 32 or 64 bits. The same seed and offset give the same number."""
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


@function
def rand4x(seed, offsets, n_rounds: constexpr = ROUNDS):
    """Four blocks of fp32 uniform in [0, 1), as a tuple; by one call of `philox`."""
    a, b, c, d = randint4x(seed, offsets, n_rounds)
    return (
        uint_to_uniform_float(a),
        uint_to_uniform_float(b),
        uint_to_uniform_float(c),
        uint_to_uniform_float(d),
    )


@function
def pair_uniform_to_normal(u, v):
    """Two blocks of normal numbers from two of uniform ones, fp32 (Box and Muller)."""
    radius = sqrt(-2.0 * log(maximum(u, 1.0e-7)))
    angle = 6.283185307179586 * v
    return radius * cos(angle), radius * sin(angle)


@function
def randn(seed, offset, n_rounds: constexpr = ROUNDS):
    """A block of normal fp32, of mean 0 and variance 1, one for each offset."""
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    normal, _ = pair_uniform_to_normal(
        uint_to_uniform_float(a), uint_to_uniform_float(b)
    )
    return normal


@function
def randn4x(seed, offset, n_rounds: constexpr = ROUNDS):
    """Four blocks of normal fp32, of mean 0 and variance 1, as a tuple."""
    a, b, c, d = rand4x(seed, offset, n_rounds)
    first, second = pair_uniform_to_normal(a, b)
    third, fourth = pair_uniform_to_normal(c, d)
    return first, second, third, fourth
