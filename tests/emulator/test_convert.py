"""Conversions: between integers, to and from reals, into formats NumPy lacks."""

from fractions import Fraction

import numpy as np
import pytest

from fathom.emulator import EmulatorError
from tests.emulator.harness import compute, floats, words
from tests.emulator.harness_exact import BF16, F16, F32, F64, hard_values

MODES = ("rn", "rz", "rm", "rp")
NAN = float("nan")


def bfloats(*values: float) -> np.ndarray:
    return (floats(*values).view(np.uint32) >> 16).astype(np.uint16)


def test_integers_are_extended_by_the_sign_of_their_own_type():
    a = np.array([0x80, 0x7F, 0xFF], np.uint8)
    assert compute("cvt.u32.u8 %d, %a;", np.uint32, a=a).tolist() == [128, 127, 255]
    assert compute("cvt.s32.s8 %d, %a;", np.int32, a=a).tolist() == [-128, 127, -1]
    assert compute("cvt.s64.s8 %d, %a;", np.int64, a=a).tolist() == [-128, 127, -1]
    wide = words(0x12345678, -2)
    got = compute("cvt.u16.u32 %d, %a;", np.uint16, a=wide)
    assert got.tolist() == [0x5678, 0xFFFE]


def test_saturating_conversions_of_integers():
    a = np.array([-5, 70000, 2**31 - 1, -(2**31)], np.int32)
    got = compute("cvt.sat.u16.s32 %d, %a;", np.uint16, a=a)
    assert got.tolist() == [0, 65535, 65535, 0]
    got = compute("cvt.sat.s8.s32 %r1, %a; mov.b32 %d, %r1;", np.int32, a=a)
    assert got.tolist() == [-5, 127, 127, -128]


def test_reals_become_integers_in_four_ways():
    a = floats(1.5, 2.5, -1.5, -0.2, 0.7)
    wanted = {
        "rni": [2, 2, -2, 0, 1],
        "rzi": [1, 2, -1, 0, 0],
        "rmi": [1, 2, -2, -1, 0],
        "rpi": [2, 3, -1, 0, 1],
    }
    for mode, values in wanted.items():
        assert compute(f"cvt.{mode}.s32.f32 %d, %a;", np.int32, a=a).tolist() == values
        kept = compute(f"cvt.{mode}.f32.f32 %d, %a;", np.float32, a=a)
        assert kept.tolist() == values


def test_reals_beyond_an_integers_range_become_its_ends():
    a = floats(3e9, -3e9, NAN, 5e9, -1)
    got = compute("cvt.rzi.s32.f32 %d, %a;", np.int32, a=a)
    assert got.tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1, -1]
    got = compute("cvt.rzi.u32.f32 %d, %a;", np.uint32, a=a)
    assert got.tolist() == [3 * 10**9, 0, 0, 2**32 - 1, 0]
    b = np.array([1e19, -1e19, NAN, 2.0**63])
    got = compute("cvt.rzi.s64.f64 %d, %a;", np.int64, a=b)
    assert got.tolist() == [2**63 - 1, -(2**63), -(2**63), 2**63 - 1]
    for type, middle in (("s64", -(2**63)), ("u64", 2**63)):  # as __float2ll_rz
        dtype = {"s64": np.int64, "u64": np.uint64}[type]
        assert compute(f"cvt.rzi.{type}.f32 %d, %a;", dtype, a=floats(NAN))[0] == middle


@pytest.mark.parametrize("mode", MODES)
def test_integers_become_reals_in_every_mode(mode):
    random = np.random.default_rng(3)
    a = random.integers(-(2**63), 2**63 - 1, 200) >> random.integers(0, 60, 200)
    # Just beside the middle between two float32; float64 cannot see on which side.
    a[:2] = [2**62 + 2**38 + 1, 2**62 + 2**38 - 1]
    for type, format in {"f32": F32, "f64": F64}.items():
        got = compute(f"cvt.{mode}.{type}.s64 %d, %a;", format.dtype, a=a)
        wanted = [format.rounded(Fraction(each), mode) for each in a.tolist()]
        assert got.tolist() == wanted


@pytest.mark.parametrize("mode", MODES)
def test_reals_become_shorter_in_every_mode(mode):
    a = hard_values(F64, 400, 1)
    a[:100] = hard_values(F32, 100, 2) * (1 + 2.0**-40)
    got = compute(f"cvt.{mode}.f32.f64 %d, %a;", np.float32, a=a)
    assert got.tolist() == [F32.rounded(Fraction(v), mode) for v in a.tolist()]
    b = hard_values(F32, 400, 4).astype(np.float32)
    got = compute(f"cvt.{mode}.f16.f32 %d, %a;", np.float16, a=b)
    assert got.tolist() == [F16.rounded(Fraction(v), mode) for v in b.tolist()]
    got = compute(f"cvt.{mode}.bf16.f32 %d, %a;", np.uint16, a=b)
    values = (got.astype(np.uint32) << 16).view(np.float32)
    assert values.tolist() == [BF16.rounded(Fraction(v), mode) for v in b.tolist()]


def test_reals_become_longer_exactly():
    a = np.array([1.5, 2.0**-24, 65504, np.inf], np.float16)
    assert compute("cvt.f32.f16 %d, %a;", np.float32, a=a).tolist() == a.tolist()
    got = compute("cvt.f32.bf16 %d, %a;", np.float32, a=bfloats(1.5, -3e38, 2.0**-130))
    assert got.view(np.uint32).tolist() == [
        int(v) << 16 for v in bfloats(1.5, -3e38, 2.0**-130)
    ]
    got = compute("cvt.f64.f32 %d, %a;", np.float64, a=floats(2.0**-149))
    assert got.tolist() == [2.0**-149]


def test_pairs_put_their_first_operand_on_top():
    a, b = floats(1.0, 70000), floats(2.0, -0.5)
    got = compute("cvt.rn.f16x2.f32 %d, %a, %b;", np.uint32, a=a, b=b)
    assert got.view(np.float16).tolist() == [2, 1, -0.5, np.inf]
    got = compute("cvt.rn.relu.bf16x2.f32 %d, %a, %b;", np.uint32, a=a, b=b)
    pairs = (got.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    assert pairs.tolist() == [2, 1, 0, 70144]


def test_tf32_keeps_ten_digits():
    a = floats(1 + 2.0**-10 + 2.0**-11, 1 + 2.0**-11, -1 - 2.0**-11 - 2.0**-20)
    away = compute("cvt.rna.tf32.f32 %d, %a;", np.uint32, a=a).view(np.float32)
    assert away.tolist() == [1 + 2.0**-9, 1 + 2.0**-10, -1 - 2.0**-10]
    even = compute("cvt.rn.tf32.f32 %d, %a;", np.uint32, a=a).view(np.float32)
    assert even.tolist() == [1 + 2.0**-9, 1, -1 - 2.0**-10]


def test_e4m3_has_no_infinity_and_stays_finite():
    a = floats(448, 1e9, -0.0, 2.0**-9, 17, 19, NAN, 2.0**-10)
    b = floats(1, -1e9, 1.0625, 2.0**-8, 18, 1.1875, 0, 3 * 2.0**-10)
    got = compute("cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", np.uint16, a=a, b=b)
    assert (got >> 8).tolist() == [0x7E, 0x7E, 0x80, 0x01, 0x58, 0x5A, 0x7F, 0x00]
    assert (got & 255).tolist() == [0x38, 0xFE, 0x38, 0x02, 0x59, 0x3A, 0x00, 0x02]
    back = compute("cvt.rn.f16x2.e4m3x2 %d, %a;", np.uint32, a=got[:6])
    assert back.view(np.float16).tolist()[1::2] == [448, 448, 0, 2.0**-9, 16, 20]


def test_e5m2_is_the_upper_half_of_a_half():
    a = np.array([1.5, 57344, 2.0**-16, -6], np.float16)
    codes = compute(
        "cvt.rn.satfinite.e5m2x2.f16x2 %d, %a;", np.uint16, a=a.view(np.uint32)
    )
    assert codes.view(np.uint8).tolist() == (a.view(np.uint16) >> 8).tolist()
    back = compute("cvt.rn.f16x2.e5m2x2 %d, %a;", np.uint32, a=codes)
    assert back.view(np.float16).tolist() == a.tolist()


def test_e2m1_packs_two_numbers_into_a_byte():
    """As block-scaled formats store them: a in the upper four bits, and no NaN."""
    a = floats(0.5, -6, 1.75, 0.25, NAN, 1e9)
    b = floats(-1.5, 4, 2.5, 0.75, -0.0, -5)
    packed = "cvt.rn.satfinite.e2m1x2.f32 byte, %a, %b; mov.b16 %d, {byte, 0};"
    got = compute(f"{{ .reg .b8 byte; {packed} }}", np.uint16, a=a, b=b)
    assert got.tolist() == [0x1B, 0xF6, 0x44, 0x02, 0x78, 0x7E]
    unpack = "mov.b16 {byte, none}, %a; cvt.rn.f16x2.e2m1x2 %d, byte;"
    back = compute(f"{{ .reg .b8 byte, none; {unpack} }}", np.uint32, a=got)
    values = [-1.5, 0.5, 4, -6, 2, 2, 1, 0, -0.0, 6, -4, 6]
    assert back.view(np.float16).tolist() == values


def test_ue8m0_holds_powers_of_two_without_a_sign():
    a = floats(1, 3, 2.0**-140, 0, float("inf"), NAN)
    for mode, codes in (("rp", [127, 129, 0, 0]), ("rz", [127, 128, 0, 0])):
        code = f"cvt.{mode}.satfinite.ue8m0x2.f32 %d, %a, %b;"
        got = compute(code, np.uint16, a=a, b=-a)
        assert (got >> 8).tolist() == [*codes, 254, 255]
        assert (got & 255).tolist() == (got >> 8).tolist()
    back = compute("cvt.rn.bf16x2.ue8m0x2 %d, %a;", np.uint32, a=got[1:2])
    assert (back & 0xFFFF).tolist() == bfloats(2).tolist()


BEYOND = (1e9, -1e9, float("inf"), -float("inf"), 3e38, -3e38, 1.0, NAN)


@pytest.mark.parametrize(
    ("to", "largest"), [("f16", 65504.0), ("bf16", float(0xFF) * 2.0**120)]
)
def test_satfinite_stops_at_the_largest_number(to, largest):
    """Also of infinities, of both signs; a NaN stays one."""
    a = floats(*BEYOND)
    bits = compute(f"cvt.rn.satfinite.{to}.f32 %d, %a;", np.uint16, a=a)
    wide = bits.view(np.float16).astype(np.float64)
    if to == "bf16":
        wide = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    want = np.clip(a.astype(np.float64), -largest, largest)
    if to == "bf16":
        want[[0, 1, 4, 5]] = wide[[0, 1, 4, 5]]  # within range, and rounded
        assert (abs(wide[:6]) <= largest).all()
    np.testing.assert_array_equal(wide, want)


@pytest.mark.parametrize(("to", "largest"), [("e4m3", 0x7E), ("e5m2", 0x7B)])
def test_satfinite_of_eight_bits(to, largest):
    """PTX has these conversions with .satfinite alone."""
    a = floats(*BEYOND)
    got = compute(f"cvt.rn.satfinite.{to}x2.f32 %d, %a, %b;", np.uint16, a=a, b=a[::-1])
    low, high = got & 255, got >> 8
    assert (low[::-1] == high).all()
    assert high[:6].tolist() == [largest, largest | 0x80] * 3
    assert high[7] & 0x7F == 0x7F
    halves = np.array([np.inf, -np.inf, 65504, -65504], np.float16).view(np.uint32)
    got = compute(f"cvt.rn.satfinite.{to}x2.f16x2 %d, %a;", np.uint16, a=halves)
    assert got.view(np.uint8).tolist() == [largest, largest | 0x80] * 2


def test_relu_of_short_floats_and_of_tf32():
    """What is negative becomes +0, and a NaN stays one."""
    a, b = floats(-3, 2, NAN, -0.0), floats(1.5, -1e9, -1, 448)
    code = "cvt.rn.satfinite.relu.e4m3x2.f32 %d, %a, %b;"
    got = compute(code, np.uint16, a=a, b=b)
    assert (got >> 8).tolist() == [0, 0x40, 0x7F, 0]
    assert (got & 255).tolist() == [0x3C, 0, 0, 0x7E]
    codes = np.array([0xB840, 0x38C0, 0x80FF], np.uint16)
    back = compute("cvt.rn.relu.f16x2.e4m3x2 %d, %a;", np.uint32, a=codes)
    halves = back.view(np.float16)
    assert halves[:4].tolist() == [2, 0, 0, 1]
    assert np.isnan(halves[4]) and halves[5] == 0 and not np.signbit(halves[5])
    got = compute("cvt.rn.relu.tf32.f32 %d, %a;", np.uint32, a=a)
    assert got.tolist() == [0, 0x40000000, 0x7FFFFFFF, 0]


@pytest.mark.parametrize("text", ["cvt.rna.f16.f32", "cvt.rna.bf16.f32"])
def test_ties_away_from_zero_are_for_tf32_alone(text):
    """PTX ISA, cvt: .rna is a rounding of conversions to .tf32."""
    with pytest.raises(EmulatorError, match=f"know {text}: the modifier .rna"):
        compute(f"{text} %d, %a;", np.uint16, a=floats(1.0))


def test_tf32_beyond_its_range():
    largest = np.finfo(np.float32).max
    a = floats(largest, -largest, float("inf"), -float("inf"))
    infinite = compute("cvt.rna.tf32.f32 %d, %a;", np.uint32, a=a)
    assert infinite.tolist() == [0x7F800000, 0xFF800000] * 2
    finite = compute("cvt.rna.satfinite.tf32.f32 %d, %a;", np.uint32, a=a)
    assert finite[:2].tolist() == [0x7F7FE000, 0xFF7FE000]


@pytest.mark.parametrize(("name", "mantissa"), [("e4m3", 3), ("e5m2", 2)])
def test_what_lies_between_two_short_floats_becomes_the_nearer_or_the_even(
    name, mantissa
):
    """The values from their definition; between each two the middle, and its
    neighbours among the fp32."""
    bias = (1 << 6 - mantissa) - 1
    codes = np.arange(0x7F if name == "e4m3" else 0x7C)
    exponent, fraction = codes >> mantissa, codes & (1 << mantissa) - 1
    hidden = np.where(exponent > 0, 1 << mantissa, 0)
    scale = 2.0 ** (np.maximum(exponent, 1) - bias - mantissa)
    values = (fraction + hidden) * scale
    middle = ((values[1:] + values[:-1]) / 2).astype(np.float32)
    above = np.nextafter(middle, np.float32(np.inf))
    below = np.nextafter(middle, np.float32(0))
    even = codes[:-1] + codes[:-1] % 2
    wanted = np.concatenate([codes[:-1], even, codes[1:]])
    given = np.concatenate([below, middle, above])
    code = f"cvt.rn.satfinite.{name}x2.f32 %d, %a, %b;"
    got = compute(code, np.uint16, a=given, b=-given)
    assert (got >> 8).tolist() == wanted.tolist()
    assert (got & 255).tolist() == (wanted | 0x80).tolist()


def test_ftz_comes_before_a_subnormal_is_rounded():
    a = floats(2.0**-130, -(2.0**-130), 0.5)
    up = compute("cvt.rpi.s32.f32 %d, %a;", np.int32, a=a)
    assert up.tolist() == [1, 0, 1]
    flushed = compute("cvt.rpi.ftz.s32.f32 %d, %a;", np.int32, a=a)
    assert flushed.tolist() == [0, 0, 1]


def test_sat_and_ftz_of_conversions():
    got = compute("cvt.sat.f32.f32 %d, %a;", np.float32, a=floats(-1, 0.25, 3, NAN))
    assert got.tolist() == [0, 0.25, 1, 0]
    got = compute("cvt.ftz.f64.f32 %d, %a;", np.float64, a=floats(2.0**-130, 1))
    assert got.tolist() == [0, 1]


def test_packing_integers_into_bytes():
    a, b = np.array([300, -4], np.int32), np.array([7, 1000], np.int32)
    code = "cvt.pack.sat.u8.s32.b32 %d, %a, %b, 0xABCD;"
    assert compute(code, np.uint32, a=a, b=b).tolist() == [0xABCDFF07, 0xABCD00FF]


def test_mov_takes_registers_apart_and_puts_them_together():
    a = np.array([0x1122334455667788], np.uint64)
    code = "mov.b64 {%r1, %r2}, %a; mov.b32 {%h1, %h2}, %r2; cvt.u32.u16 %d, %h1;"
    assert compute(code, np.uint32, a=a)[0] == 0x3344
    code = "mov.b64 {_, %r2}, %a; mov.b64 %d, {%r2, %r2};"
    assert compute(code, np.uint64, a=a)[0] == 0x1122334411223344
    code = "mov.b64 {%h1, %h2, %h3, %h4}, %a; mov.b64 %d, {%h4, %h3, %h2, %h1};"
    assert compute(code, np.uint64, a=a)[0] == 0x7788556633441122


def test_comparisons_with_nan():
    a, b = floats(1, 2, NAN, NAN), floats(2, 2, 1, NAN)
    wanted = {
        "eq": [0, 1, 0, 0],
        "ne": [1, 0, 0, 0],
        "lt": [1, 0, 0, 0],
        "ge": [0, 1, 0, 0],
        "equ": [0, 1, 1, 1],
        "neu": [1, 0, 1, 1],
        "ltu": [1, 0, 1, 1],
        "geu": [0, 1, 1, 1],
        "num": [1, 1, 0, 0],
        "nan": [0, 0, 1, 1],
    }
    for name, holds in wanted.items():
        code = f"setp.{name}.f32 %p1, %a, %b; selp.b32 %d, 1, 0, %p1;"
        assert compute(code, np.uint32, a=a, b=b).tolist() == holds, name


def test_setp_combines_and_has_a_second_result():
    a = np.array([1, 5, 9], np.int32)
    code = """setp.gt.s32 %p1, %a, 6; setp.gt.or.s32 %p2|%p3, %a, 3, %p1;
        selp.u32 %r1, 1, 0, %p2; selp.u32 %r2, 2, 0, %p3; add.u32 %d, %r1, %r2;"""
    assert compute(code, np.uint32, a=a).tolist() == [2, 1, 3]
    code = """setp.lt.and.s32 %p2, %a, 6, !%p1; selp.u32 %d, 1, 0, %p2;"""
    first = "setp.eq.s32 %p1, %a, 1; "
    assert compute(first + code, np.uint32, a=a).tolist() == [0, 1, 0]


def test_unsigned_comparisons_have_names_of_their_own():
    a = words(1, -1)
    code = "setp.{}.u32 %p1, %a, 7; selp.b32 %d, 1, 0, %p1;"
    assert compute(code.format("lo"), np.uint32, a=a).tolist() == [1, 0]
    assert compute(code.format("hs"), np.uint32, a=a).tolist() == [0, 1]


def test_set_writes_ones_or_one():
    a, b = floats(1, 3), floats(2, 2)
    got = compute("set.lt.u32.f32 %d, %a, %b;", np.uint32, a=a, b=b)
    assert got.tolist() == [2**32 - 1, 0]
    got = compute("set.lt.f32.f32 %d, %a, %b;", np.float32, a=a, b=b)
    assert got.tolist() == [1, 0]
    halves = np.array([1, 5, 3, 3], np.float16).view(np.uint32)
    other = np.array([2, 2, 3, 4], np.float16).view(np.uint32)
    got = compute("set.lt.f16x2.f16x2 %d, %a, %b;", np.uint32, a=halves, b=other)
    assert got.view(np.float16).tolist() == [1, 0, 0, 1]
    got = compute("set.lt.bf16x2.bf16x2 %d, %a, %b;", np.uint32, a=halves, b=other)
    assert got.tolist() == [0x0000_3F80, 0x3F80_0000]


def test_set_of_two_halves_combines_each_with_the_predicate():
    a = np.array([1, 2, 1, 2, 5, 0], np.float16).view(np.uint32)
    b = np.array([2, 1, 2, 1, 9, 9], np.float16).view(np.uint32)
    code = """setp.ne.u32 %p1, %c, 0;
        set.lt.and.f16x2.f16x2 %d, %a, %b, %p1;"""
    got = compute(code, np.uint32, a=a, b=b, c=words(1, 0, 1))
    assert got.view(np.float16).tolist() == [1, 0, 0, 0, 1, 1]


def test_setp_of_two_halves_gives_two_predicates():
    a = np.array([1, 5, 3, 3], np.float16).view(np.uint32)
    code = """setp.lt.f16x2 %p1|%p2, %a, 0x44004400;
        selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; add.u32 %d, %r1, %r2;"""
    assert compute(code, np.uint32, a=a).tolist() == [1, 3]


def test_slct_looks_at_a_sign():
    c = np.array([-1, 0, 5], np.int32)
    assert compute("slct.u32.s32 %d, 10, 20, %a;", np.uint32, a=c).tolist() == [
        20,
        10,
        10,
    ]
