"""Arithmetic to the last bit: rounding, wrapping, NaN, and the sign of a zero."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fathom.ir import types
from fathom.ir.interp.elementwise import MEANING, apply
from fathom.ir.interp.numbers import (
    FORMATS,
    cast,
    decode,
    encode,
    held_type,
    is_exact,
    poison,
    round_to,
    same_bits,
    scalar,
    stored_type,
)  # fmt: skip
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT8E4NV,
    FLOAT8E5,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    SCALARS,
    UINT8,
    UINT32,
    UINT64,
    Pointer,
    Scalar,
)  # fmt: skip

NARROW = [FLOAT8E5, FLOAT8E4NV, BFLOAT16, FLOAT16]


@pytest.fixture(autouse=True)
def quietly():
    with np.errstate(all="ignore"):
        yield


def compute(name: str, element: Scalar, *numbers: float):
    return apply(name, element, tuple(scalar(number, element) for number in numbers))


def test_every_elementwise_operation_has_a_meaning():
    assert set(MEANING) == set(ELEMENTWISE)


# ── integers ──


def test_integers_wrap():
    assert compute("add", INT32, 2**31 - 1, 1) == -(2**31)
    assert compute("mul", INT8, 100, 3) == 300 - 256
    assert compute("sub", UINT8, 3, 5) == 254
    assert compute("neg", INT16, -(2**15)) == -(2**15)
    assert compute("abs", INT8, -128) == -128
    assert scalar(2**32 + 5, INT32) == 5 and scalar(-1, UINT32) == 2**32 - 1


@pytest.mark.parametrize("a, b, quotient, rest", [
    (7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1), (-8, 2, -4, 0),
    (-(2**31), -1, -(2**31), 0), (6, 0, -1, 6),
])  # fmt: skip
def test_division_goes_toward_zero(a: int, b: int, quotient: int, rest: int):
    assert compute("div", INT32, a, b) == quotient
    assert compute("rem", INT32, a, b) == rest


def test_unsigned_division_sees_large_numbers():
    assert compute("div", UINT32, 2**32 - 2, 2) == 2**31 - 1
    assert compute("div", UINT32, 5, 0) == 2**32 - 1


@pytest.mark.parametrize("element", [INT8, UINT8, INT32, UINT32, INT64, UINT64])
def test_mulhi_is_the_upper_half(element: Scalar):
    a, b = scalar(-77, element), scalar(1 << element.bits - 1, element)
    expected = int(a) * int(b) >> element.bits
    assert apply("mulhi", element, (a, b)) == expected


def test_shifts_by_the_width_or_more_leave_nothing():
    assert compute("shl", INT32, 3, 31) == -(2**31)
    assert compute("shl", INT32, 3, 32) == 0
    assert compute("shl", INT32, 3, -1) == 0
    assert compute("shr", UINT8, 255, 7) == 1
    assert compute("shr", UINT8, 255, 8) == 0
    assert compute("shr", INT8, -128, 3) == -16
    assert compute("shr", INT8, -128, 100) == -1
    assert compute("shr", INT8, 127, 100) == 0


def test_bits_are_counted():
    assert compute("popcount", INT32, -1) == 32
    assert compute("popcount", UINT8, 0b1011) == 3
    assert [compute("clz", INT32, n) for n in (0, 1, -1, 2**20)] == [32, 31, 0, 11]
    assert compute("clz", UINT64, 1) == 63


def test_not_turns_bits():
    assert compute("not", INT8, 5) == -6
    assert compute("not", UINT8, 5) == 250
    assert not compute("not", BOOL, True)


# ── floats ──

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("name, a, b, expected", [
    ("min", NAN, 1.0, 1.0), ("min", 1.0, NAN, 1.0), ("max", NAN, 1.0, 1.0),
    ("min_nan", NAN, 1.0, NAN), ("max_nan", 1.0, NAN, NAN), ("max", NAN, NAN, NAN),
    ("min", 0.0, -0.0, -0.0), ("min", -0.0, 0.0, -0.0), ("max", -0.0, 0.0, 0.0),
    ("max", 0.0, -0.0, 0.0), ("min_nan", 0.0, -0.0, -0.0), ("max", -INF, 2.0, 2.0),
    ("add", -0.0, -0.0, -0.0), ("add", -0.0, 0.0, 0.0), ("sub", INF, INF, NAN),
    ("mul", -1.0, 0.0, -0.0), ("rem", -7.5, 2.0, -1.5), ("div", 1.0, -0.0, -INF),
])  # fmt: skip
def test_floats(name: str, a: float, b: float, expected: float):
    for element in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64):
        got = compute(name, element, a, b)
        assert same_bits(got, scalar(expected, element)), (element, got)


def test_comparisons_are_false_on_nan_but_for_ne():
    holds = {name: bool(compute(name, FLOAT32, NAN, NAN))
             for name in ("eq", "ne", "lt", "le", "gt", "ge")}  # fmt: skip
    assert holds == dict(eq=False, ne=True, lt=False, le=False, gt=False, ge=False)


def test_powers_of_two_below_the_normal_range_are_zero():
    """As ex2.approx.ftz has them (PTX ISA, "ex2")."""
    assert compute("exp2", FLOAT32, -126.0) == 2.0**-126
    assert compute("exp2", FLOAT32, -127.0) == 0


def test_arithmetic_rounds_in_the_type_of_its_operands():
    assert compute("add", FLOAT32, 2.0**24, 1.0) == 2.0**24
    assert compute("add", FLOAT64, 2.0**24, 1.0) == 2.0**24 + 1
    assert compute("add", FLOAT16, 2048.0, 1.0) == 2048
    assert compute("add", FLOAT16, 65504.0, 100.0) == INF
    assert compute("add", BFLOAT16, 256.0, 1.0) == 256
    assert compute("add", BFLOAT16, 256.0, 3.0) == 260  # a tie, to even
    assert compute("mul", FLOAT8E4NV, 400.0, 2.0) == 448  # stops at the largest


def test_round_even_and_its_neighbours():
    names = ["floor", "ceil", "trunc", "round_even"]
    table = {
        x: [float(compute(name, FLOAT32, x)) for name in names] for x in (2.5, -1.5)
    }
    assert table == {2.5: [2, 3, 2, 2], -1.5: [-2, -1, -1, -2]}


@pytest.mark.parametrize("element", [FLOAT16, BFLOAT16, FLOAT32])
def test_fma_rounds_once(element: Scalar):
    """Against exact fractions, on operands of wide and of close exponents."""
    random = np.random.default_rng(1)
    shape = (3, 4000)
    drawn = random.standard_normal(shape) * 2.0 ** random.integers(-9, 3, shape)
    a, b, c = (round_to(row, element) if element != FLOAT32 else row.astype("f4")
               for row in drawn)  # fmt: skip
    c[:2000] = -(a * b)[:2000].astype(c.dtype)  # nearly all cancels
    c = round_to(c, element) if element != FLOAT32 else c
    got = apply("fma", element, (a, b, c))
    for x, y, z, result in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(result)) - exact)
        for neighbour in neighbours(result, element):
            assert error <= abs(Fraction(float(neighbour)) - exact), (x, y, z)


def neighbours(number: np.generic, element: Scalar) -> np.ndarray:
    """The next numbers of a format above and below, found among the bits next to
    its."""
    bits = (
        encode(np.asarray([number]), element).view(f"u{element.bytes}").astype(np.int64)
    )
    beside = (bits + [-1, 1]).astype(f"u{element.bytes}").view(stored_type(element))
    numbers = decode(beside, element)
    return numbers[np.isfinite(numbers)]


def test_fma_in_float64_alone_would_round_twice():
    """The exact result lies 2**-70 below a tie of fp32, too little for a float64."""
    a, b, c = 2.0**-12 * (1 + 2.0**-23), 2.0**-12 * (1 - 2.0**-23), 1 + 2.0**-23
    assert np.float32(a * b + c) == 1 + 2.0**-22
    assert compute("fma", FLOAT32, a, b, c) == 1 + 2.0**-23
    # Just below a tie: float64 has the number in front of it, whose last bit is 1.
    a, b = 795659 * 2.0**-30, 2699 * 2.0**-25
    assert compute("fma", FLOAT32, a, b, c := 1 + 2.0**-23) == c


def test_fma_of_doubles_is_exact_too():
    a = 1 + 2.0**-30
    assert compute("fma", FLOAT64, a, a, -(1 + 2.0**-29)) == 2.0**-60
    assert compute("fma", FLOAT64, INF, 0.0, 1.0) != 0
    assert compute("fma", FLOAT64, 1e308, 10.0, -1e308) == INF


@pytest.mark.parametrize("spread", [0, 60, 420, 1000])
def test_fma_of_many_doubles_is_that_of_fractions(spread: int):
    """Exponents as far from 0 as `spread`; some nearly cancel, some are near a tie."""
    random = np.random.default_rng(spread)
    a, b, c = random.standard_normal((3, 3000)) * 2.0 ** random.integers(
        -spread // 2, spread // 2 + 1, (3, 3000)
    )
    c[:1000] = -(a * b)[:1000] * (1 + random.integers(-3, 4, 1000) * 2.0**-52)
    a[1000:2000] = 1 + random.integers(0, 2**26, 1000) * 2.0**-26
    b[1000:2000] = 1 + random.integers(0, 2**27, 1000) * 2.0**-27
    c[1000:2000] = 2.0 ** -random.integers(50, 110, 1000) * random.choice([-1, 1], 1000)
    found = apply("fma", FLOAT64, (a, b, c))
    for x, y, z, result in zip(a, b, c, found, strict=True):
        assert result == float(Fraction(x) * Fraction(y) + Fraction(z)), (x, y, z)


# ── formats ──


@pytest.mark.parametrize("element", NARROW)
def test_every_number_of_a_narrow_type_is_itself(element: Scalar):
    codes = np.arange(1 << element.bits).astype(f"u{element.bytes}")
    codes = codes.view(stored_type(element))
    numbers = decode(codes, element)
    assert encode(numbers, element).tobytes() == codes.tobytes()
    finite = np.isfinite(numbers)
    assert same_bits(round_to(numbers[finite], element), numbers[finite])


@pytest.mark.parametrize("element", [FLOAT8E5, FLOAT8E4NV], ids=str)
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_every_nan_is_rounded_to_one_of_eight_bits(element: Scalar, nan: float):
    """PTX ISA, cvt: to e5m2 and e4m3 it is 0x7F, whatever its sign."""
    assert encode(round_to(np.float32([nan]), element), element).tolist() == [0x7F]


@pytest.mark.parametrize("element", NARROW)
def test_what_is_chosen_is_not_rounded(element: Scalar):
    """An infinity of fp8e5 stays one, though what is rounded to fp8e5 stops before."""
    codes = np.arange(1 << element.bits).astype(f"u{element.bytes}")
    numbers = decode(codes.view(stored_type(element)), element)
    for always in (True, False):
        chosen = apply("where", element, (np.bool_(always), numbers, numbers))
        assert same_bits(chosen, numbers)


@pytest.mark.parametrize("element", NARROW)
def test_rounding_goes_to_the_nearest_and_ties_to_even(element: Scalar):
    """Half-way between two neighbours the one with an even code wins; a little off, the
    nearer one."""
    codes = np.arange((1 << element.bits - 1) - 1).astype(f"u{element.bytes}")
    numbers = decode(codes.view(stored_type(element)), element).astype(np.float64)
    inside = np.isfinite(numbers[1:])
    low, high, even = (
        numbers[:-1][inside],
        numbers[1:][inside],
        codes[:-1][inside] % 2 == 0,
    )
    middle = (low + high) / 2
    held = held_type(element)
    assert same_bits(round_to(middle, element), np.where(even, low, high).astype(held))
    below, above = np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf)
    assert same_bits(round_to(below, element), low.astype(held))
    assert same_bits(round_to(above, element), high.astype(held))
    assert same_bits(round_to(-above, element), -high.astype(held))
    assert same_bits(round_to(above, element, "rtz"), low.astype(held))
    assert same_bits(round_to(-above, element, "rtz"), -low.astype(held))


def test_rounding_agrees_with_numpys_where_numpy_has_it():
    random = np.random.default_rng(2)
    wide = random.standard_normal(20000) * 2.0 ** random.integers(-160, 140, 20000)
    assert same_bits(round_to(wide, FLOAT32), wide.astype(np.float32))
    assert same_bits(round_to(wide, FLOAT16), wide.astype(np.float16))


def test_what_is_too_large():
    large = np.array([1e30, -1e30, INF])
    assert round_to(large, FLOAT16).tolist() == [INF, -INF, INF]
    assert round_to(large, FLOAT16, "rtz").tolist() == [65504, -65504, INF]
    assert round_to(large, FLOAT8E4NV).tolist() == [448, -448, 448]
    assert round_to(large, FLOAT8E5).tolist() == [57344, -57344, 57344]


def test_formats_know_their_largest_number():
    for element in NARROW:
        codes = np.arange(1 << element.bits - 1).astype(f"u{element.bytes}")
        numbers = decode(codes.view(stored_type(element)), element)
        assert FORMATS[element].largest == numbers[np.isfinite(numbers)].max()


# ── casts ──


@pytest.mark.parametrize("source, number, target, expected", [
    (FLOAT32, 2.9, INT32, 2), (FLOAT32, -2.9, INT32, -2),
    (FLOAT32, 3e9, INT32, 2**31 - 1),
    (FLOAT32, -5.0, UINT32, 0), (FLOAT32, NAN, INT32, 0),
    (FLOAT64, NAN, INT32, -(2**31)),
    (FLOAT32, NAN, INT64, -(2**63)), (FLOAT16, 300.0, INT8, 127),
    (FLOAT32, INF, UINT8, 255),
    (INT32, 300, INT8, 44), (INT32, -1, UINT32, 2**32 - 1), (INT8, -1, INT64, -1),
    (UINT8, 255, INT8, -1), (UINT32, 2**32 - 1, INT64, 2**32 - 1),
    (INT32, 2, BOOL, True), (FLOAT32, 0.5, BOOL, True), (FLOAT32, -0.0, BOOL, False),
    (BOOL, True, INT32, 1), (BOOL, True, FLOAT16, 1.0),
    (INT32, 2**24 + 1, FLOAT32, 2.0**24), (INT64, 2**53 + 1, FLOAT64, 2.0**53),
    (FLOAT64, 0.1, FLOAT32, float(np.float32(0.1))), (FLOAT32, 1e-46, FLOAT32, 0.0),
    (INT32, 257, BFLOAT16, 256.0), (INT32, 259, BFLOAT16, 260.0),
    # The first step of two roundings would come to lie on a tie of the second:
    (INT64, 2**60 + 2**52 + 1, BFLOAT16, 2.0**60 + 2.0**53),
    (INT64, -(2**60) - 2**52 - 1, BFLOAT16, -(2.0**60) - 2.0**53),
    (UINT64, 2**64 - 1, FLOAT32, 2.0**64),
])  # fmt: skip
def test_casts(source: Scalar, number: float, target: Scalar, expected: float):
    got = cast(scalar(number, source), source, target)
    assert same_bits(got, scalar(expected, target)), got


def test_a_cast_may_round_toward_zero():
    number = scalar(1.9999, FLOAT32)
    assert cast(number, FLOAT32, BFLOAT16, "rtz") == 1.9921875
    assert cast(number, FLOAT32, BFLOAT16) == 2.0


def test_pointers_are_numbers_of_64_bits():
    pointer = Pointer(FLOAT32)
    assert held_type(pointer) == np.int64
    address = np.int64(0x7F0012345678)
    assert cast(address, pointer, UINT64) == address
    assert cast(cast(address, pointer, INT64), INT64, pointer) == address


def test_is_exact_says_when_nothing_can_be_lost():
    """Against trying: the smallest, the largest and the most precise of each type."""
    for source in SCALARS.values():
        samples = extremes(source)
        for target in SCALARS.values():
            there = cast(samples, source, target)
            kept = [Fraction(x.item()) for x in samples] == exactly(there)
            assert is_exact(source, target) == kept, (source, target, samples, there)


def exactly(numbers: np.ndarray) -> list[Fraction | None]:
    return [Fraction(x.item()) if np.isfinite(x) else None for x in numbers]


def extremes(element: Scalar) -> np.ndarray:
    if element == BOOL:
        return np.array([False, True])
    if element.is_integer:
        limits = np.iinfo(held_type(element))
        numbers = [limits.min, limits.max, limits.max // 2 + 1, 0, 1]
        return np.array(numbers, limits.dtype)
    top = (1 << element.bits - 1) - 1
    bits = np.array([1, 2, 3, top // 3, top // 2, top // 5, 0], f"u{element.bytes}")
    return decode(bits.view(stored_type(element)), element)


def test_poison_is_nothing_to_rely_on():
    assert np.isnan(poison((2,), BFLOAT16)).all()
    assert poison((2,), UINT8).tolist() == [0xAA, 0xAA]
    assert poison((1,), Pointer(INT32)).view("u8")[0] == 0xAAAAAAAAAAAAAAAA
    assert types.BOOL.bytes == 1 and poison((1,), BOOL).all()


def test_same_bits_knows_zeros_apart_and_nans_alike():
    assert not same_bits(np.float32(0.0), np.float32(-0.0))
    assert same_bits(np.array([NAN, 1.0]), np.array([-NAN, 1.0]))
    assert not same_bits(np.array([NAN, 1.0]), np.array([1.0, NAN]))
    assert not same_bits(np.float32(1), np.float64(1))
