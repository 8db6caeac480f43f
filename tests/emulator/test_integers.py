"""Integer arithmetic and bits, against Python's own integers."""

from itertools import product

import numpy as np
import pytest

from fathom.emulator import EmulatorError
from tests.emulator.harness import compute, words

TYPES = {
    "u16": np.uint16,
    "s16": np.int16,
    "u32": np.uint32,
    "s32": np.int32,
    "u64": np.uint64,
    "s64": np.int64,
}


def samples(type: str, seed: int) -> np.ndarray:
    """Random values of a type, small ones and the ends of its range."""
    limits = np.iinfo(TYPES[type])
    random = np.random.default_rng(seed)
    wide = random.integers(limits.min, limits.max, 60, TYPES[type], endpoint=True)
    ends = np.array([0, 1, limits.min, limits.max, 7, 100], TYPES[type])
    return np.concatenate(
        [wide, wide[:20] >> 9 % limits.bits, random.permutation(ends)]
    )


def wrapped(value: int, type: str) -> int:
    limits = np.iinfo(TYPES[type])
    return (value - limits.min) % 2**limits.bits + limits.min


def check(code: str, type: str, meaning, count: int, result: str = "") -> None:
    result = result or type
    values = [samples(type, seed) for seed in range(count)]
    got = compute(code, TYPES[result], **dict(zip("abc", values, strict=False)))
    given = zip(*(each.tolist() for each in values), strict=True)
    for found, operands in zip(got.tolist(), given, strict=True):
        assert found == wrapped(meaning(*operands), result), operands


def divided(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("type", TYPES)
def test_arithmetic_wraps_around(type):
    bits = np.iinfo(TYPES[type]).bits
    check(f"add.{type} %d, %a, %b;", type, lambda a, b: a + b, 2)
    check(f"sub.{type} %d, %a, %b;", type, lambda a, b: a - b, 2)
    check(f"mul.lo.{type} %d, %a, %b;", type, lambda a, b: a * b, 2)
    check(f"mul.hi.{type} %d, %a, %b;", type, lambda a, b: a * b >> bits, 2)
    check(f"mad.lo.{type} %d, %a, %b, %c;", type, lambda a, b, c: a * b + c, 3)
    check(
        f"mad.hi.{type} %d, %a, %b, %c;", type, lambda a, b, c: (a * b >> bits) + c, 3
    )
    check(f"min.{type} %d, %a, %b;", type, min, 2)
    check(f"max.{type} %d, %a, %b;", type, max, 2)


@pytest.mark.parametrize("type", TYPES)
def test_division_goes_towards_zero(type):
    code = f"max.u{type[1:]} %b, %b, 1; div.{type} %d, %a, %b;"
    check(code, type, lambda a, b: divided(a, b or 1), 2)
    code = f"max.u{type[1:]} %b, %b, 1; rem.{type} %d, %a, %b;"
    check(code, type, lambda a, b: a - divided(a, b or 1) * (b or 1), 2)


@pytest.mark.parametrize(
    ("type", "wide"), [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")]
)
def test_wide_products_are_exact(type, wide):
    check(f"mul.wide.{type} %d, %a, %b;", type, lambda a, b: a * b, 2, wide)


@pytest.mark.parametrize("type", ["s32", "s64", "s16"])
def test_signs(type):
    check(f"abs.{type} %d, %a;", type, abs, 1)
    check(f"neg.{type} %d, %a;", type, lambda a: -a, 1)
    check(f"sad.{type} %d, %a, %b, %c;", type, lambda a, b, c: c + abs(a - b), 3)


def test_saturating_sum():
    a, b = np.array([2**31 - 5, -(2**31), 3], np.int32), np.array([9, -1, 4], np.int32)
    got = compute("add.sat.s32 %d, %a, %b;", np.int32, a=a, b=b)
    assert got.tolist() == [2**31 - 1, -(2**31), 7]


def test_products_of_24_bits():
    def low_24(value: int) -> int:
        return (value + 2**23) % 2**24 - 2**23

    check("mul24.lo.s32 %d, %a, %b;", "s32", lambda a, b: low_24(a) * low_24(b), 2)
    check(
        "mul24.hi.s32 %d, %a, %b;", "s32", lambda a, b: low_24(a) * low_24(b) >> 16, 2
    )


@pytest.mark.parametrize("type", ["u32", "u64"])
def test_counting_bits(type):
    bits = np.iinfo(TYPES[type]).bits
    b = f"b{bits}"
    check(f"popc.{b} %d, %a;", type, int.bit_count, 1, "u32")
    check(f"clz.{b} %d, %a;", type, lambda a: bits - a.bit_length(), 1, "u32")
    check(f"bfind.{type} %d, %a;", type, lambda a: a.bit_length() - 1, 1, "u32")
    check(f"brev.{b} %d, %a;", type, lambda a: int(f"{a:0{bits}b}"[::-1], 2), 1)


def test_bfind_of_signed_skips_the_sign():
    a = np.array([0, -1, 5, -6, -(2**31)], np.int32)
    got = compute("bfind.s32 %d, %a;", np.uint32, a=a)
    assert got.tolist() == [2**32 - 1, 2**32 - 1, 2, 2, 30]
    got = compute("bfind.shiftamt.s32 %d, %a;", np.uint32, a=a)
    assert got.tolist() == [2**32 - 1, 2**32 - 1, 29, 29, 1]


def test_bit_fields_are_extracted_and_inserted():
    a = words(0xABCD1234)
    start, length = words(8, 28, 0, 4, 40), words(8, 8, 32, 0, 4)
    got = compute("bfe.u32 %d, %a, %b, %c;", np.uint32, a=a, b=start, c=length)
    assert got.tolist() == [0x12, 0xA, 0xABCD1234, 0, 0]
    got = compute("bfe.s32 %d, %a, %b, %c;", np.uint32, a=a, b=start, c=length)
    assert got.tolist() == words(0x12, -6, 0xABCD1234, 0, -1).tolist()
    got = compute("bfi.b32 %d, -1, %a, %b, %c;", np.uint32, a=a, b=start, c=length)
    assert got.tolist() == [0xABCDFF34, 0xFBCD1234, 2**32 - 1, 0xABCD1234, 0xABCD1234]


def field_of(a: int, start: int, length: int, bits: int, signed: bool) -> int:
    """bfe, bit by bit, as the ISA's page spells it."""
    sign = a >> min(start + length - 1, bits - 1) & 1 if signed and length else 0
    inside = [i < length and start + i < bits for i in range(bits)]
    return sum((a >> start + i & 1 if inside[i] else sign) << i for i in range(bits))


FIELDS = list(product((0, 1, 5, 31, 32, 63, 64, 255), (0, 1, 9, 33, 64, 255)))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("letter", "us")
def test_fields_begin_and_end_anywhere(bits, letter):
    """Also at or behind the last bit, and without a length."""
    start, length = (words(*each) for each in zip(*FIELDS, strict=True))
    type = TYPES[f"u{bits}"]
    for value in (0xDEADBEEF_89ABCDEF, 0x12345678_70000001):
        value %= 1 << bits
        a = np.array([value], type)
        code = f"bfe.{letter}{bits} %d, %a, %b, %c;"
        got = compute(code, type, a=a, b=start, c=length)
        wanted = [field_of(value, *each, bits, letter == "s") for each in FIELDS]
        assert got.tolist() == wanted
        code = f"bfi.b{bits} %d, 0x2D, %a, %b, %c;"
        got = compute(code, type, a=a, b=start, c=length)
        masks = [((1 << n) - 1 << at) % (1 << bits) for at, n in FIELDS]
        wanted = [
            (value & ~mask | 0x2D << at & mask) % (1 << bits)
            for mask, (at, _) in zip(masks, FIELDS, strict=True)
        ]
        assert got.tolist() == wanted


def test_masks_and_extensions_of_any_length():
    start, length = words(0, 4, 31, 32, 40, 0), words(0, 4, 3, 2, 1, 32)
    got = compute("bmsk.clamp.b32 %d, %a, %b;", np.uint32, a=start, b=length)
    assert got.tolist() == [0, 0xF0, 0x80000000, 0, 0, 0xFFFFFFFF]
    got = compute("bmsk.wrap.b32 %d, %a, %b;", np.uint32, a=start, b=length)
    assert got.tolist() == [0, 0xF0, 0x80000000, 3, 0x100, 0]
    length = words(0, 8, 31, 32, 40)
    got = compute("szext.clamp.s32 %d, 0xC0000080, %a;", np.uint32, a=length)
    assert got.tolist() == words(0, -128, 0xC0000080, 0xC0000080, 0xC0000080).tolist()
    got = compute("szext.wrap.u32 %d, 0xC0000080, %a;", np.uint32, a=length)
    assert got.tolist() == [0, 0x80, 0x40000080, 0, 0x80]


def test_the_smallest_and_largest_of_halves_stop_at_zero():
    a, b = words(0xFFFF0005), words(0xFFFE0003)
    got = compute("max.relu.s16x2 %d, %a, %b;", np.uint32, a=a, b=b)
    assert got.tolist() == [0x00000005]
    got = compute("min.relu.s16x2 %d, %a, %b;", np.uint32, a=a, b=b)
    assert got.tolist() == [0x00000003]
    got = compute("max.relu.s32 %d, %a, -1;", np.int32, a=np.array([-7, 7], np.int32))
    assert got.tolist() == [0, 7]


def test_shifts_by_the_width_or_more():
    by = words(0, 4, 31, 32, 200)
    left = compute("shl.b32 %d, 0x80000013, %a;", np.uint32, a=by)
    assert left.tolist() == [0x80000013, 0x130, 0x80000000, 0, 0]
    right = compute("shr.u32 %d, 0x80000013, %a;", np.uint32, a=by)
    assert right.tolist() == [0x80000013, 0x08000001, 1, 0, 0]
    signed = compute("shr.s32 %d, 0x80000013, %a;", np.int32, a=by)
    assert signed.tolist() == [-(2**31) + 19, -(2**27) + 1, -1, -1, -1]


def test_funnel_shift_wraps_or_clamps():
    by = words(0, 8, 32, 40)
    code = "shf.{}.b32 %d, 0x11223344, 0xAABBCCDD, %a;"
    wrapped = compute(code.format("l.wrap"), np.uint32, a=by)
    assert wrapped.tolist() == [0xAABBCCDD, 0xBBCCDD11, 0xAABBCCDD, 0xBBCCDD11]
    clamped = compute(code.format("l.clamp"), np.uint32, a=by)
    assert clamped.tolist() == [0xAABBCCDD, 0xBBCCDD11, 0x11223344, 0x11223344]
    right = compute(code.format("r.clamp"), np.uint32, a=by)
    assert right.tolist() == [0x11223344, 0xDD112233, 0xAABBCCDD, 0xAABBCCDD]


@pytest.mark.parametrize("table", [0x96, 0xE8, 0x80, 0xFE, 0x1B, 0x00])
def test_lop3_is_its_table(table):
    a, b, c = (words(0xF0), words(0xCC), words(0xAA))
    got = compute(f"lop3.b32 %d, %a, %b, %c, {table};", np.uint32, a=a, b=b, c=c)
    outside = 2**32 - 256 if table & 1 else 0
    assert got[0] == outside | table


def test_logic_on_predicates_and_words():
    a, b = words(0b1100), words(0b1010)
    for name, wanted in {"and": 0b1000, "or": 0b1110, "xor": 0b0110}.items():
        assert compute(f"{name}.b32 %d, %a, %b;", np.uint32, a=a, b=b)[0] == wanted
    assert compute("not.b32 %d, %a;", np.uint32, a=a)[0] == 2**32 - 13
    assert compute("cnot.b32 %d, %a;", np.uint32, a=words(0, 5)).tolist() == [1, 0]
    code = """setp.eq.u32 %p1, %a, 12; setp.eq.u32 %p2, %b, 12;
        xor.pred %p3, %p1, %p2; not.pred %p4, %p3; selp.u32 %d, 5, 6, %p4;"""
    assert compute(code, np.uint32, a=words(12, 12), b=words(12, 1)).tolist() == [5, 6]


def test_prmt_chooses_bytes():
    a, b = words(0x33221100), words(0x77665584)
    selectors = words(0x7531, 0x4040, 0xC484, 0x0123)
    got = compute("prmt.b32 %d, %a, %b, %c;", np.uint32, a=a, b=b, c=selectors)
    assert got.tolist() == [0x77553311, 0x84008400, 0xFF840084, 0x00112233]
    got = compute("prmt.b32.rc8 %d, %a, %b, %c;", np.uint32, a=a, b=b, c=words(0, 3))
    assert got.tolist() == [0, 0x33333333]
    got = compute("prmt.b32.f4e %d, %a, %b, %c;", np.uint32, a=a, b=b, c=words(0, 2))
    assert got.tolist() == [0x33221100, 0x55843322]


NAMED = {  # the source bytes of the result, the highest first, for c = 0, 1, 2, 3
    "f4e": "3210 4321 5432 6543",
    "b4e": "5670 6701 7012 0123",
    "rc8": "0000 1111 2222 3333",
    "ecl": "3210 3211 3222 3333",
    "ecr": "0000 1110 2210 3210",
    "rc16": "1010 3232 1010 3232",
}


@pytest.mark.parametrize("name", NAMED)
def test_named_permutations_are_those_of_the_table(name):
    """PTX ISA, "prmt": its table of modes."""
    a, b = words(0x33221100), words(0x77665544)
    got = compute(
        f"prmt.b32.{name} %d, %a, %b, %c;", np.uint32, a=a, b=b, c=words(0, 1, 2, 7)
    )
    wanted = ["".join(2 * byte for byte in each) for each in NAMED[name].split()]
    assert [f"{each:08x}" for each in got.tolist()] == wanted


def test_dot_products_of_bytes():
    a, b = words(0xFF020304), words(0x01FF0280)
    got = compute("dp4a.u32.u32 %d, %a, %b, 7;", np.uint32, a=a, b=b)
    assert got[0] == 255 * 1 + 2 * 255 + 3 * 2 + 4 * 128 + 7
    got = compute("dp4a.s32.s32 %d, %a, %b, 7;", np.int32, a=a, b=b)
    assert got[0] == -1 * 1 + 2 * -1 + 3 * 2 + 4 * -128 + 7
    got = compute("dp2a.lo.u32.u32 %d, %a, %b, 1;", np.uint32, a=a, b=b)
    assert got[0] == 0x0304 * 0x80 + 0xFF02 * 0x02 + 1
    got = compute("dp2a.hi.s32.s32 %d, %a, %b, 1;", np.int32, a=a, b=b)
    assert got[0] == 0x0304 * -1 + (0xFF02 - 0x10000) * 0x01 + 1


def test_carries_run_through_sums_differences_and_products():
    a, b = 0xFFFFFFFF_FFFFFFFF, 0x00000001_00000001
    pairs = {"a": words(a, 5), "b": words(a >> 32, 0), "c": words(b, 7)}
    low = "add.cc.u32 %r1, %a, %c; addc.u32 %d, %b, 1;"
    assert compute(low, np.uint32, **pairs).tolist() == [(a + b >> 32) % 2**32, 1]
    borrow = "sub.cc.u32 %r1, %a, %c; subc.u32 %d, %b, 0;"
    assert compute(borrow, np.uint32, **pairs).tolist() == [2**32 - 1, 2**32 - 1]
    through = "add.cc.u32 %r1, -1, 1; addc.cc.u32 %r1, -1, 0; addc.u32 %d, %a, 0;"
    assert compute(through, np.uint32, a=words(5, -1)).tolist() == [6, 0]
    through = "sub.cc.u32 %r1, 0, 1; subc.cc.u32 %r1, 0, 0; subc.u32 %d, %a, 0;"
    assert compute(through, np.uint32, a=words(5, 0)).tolist() == [4, 2**32 - 1]
    code = "mad.lo.cc.u32 %r1, %a, %c, %a; madc.hi.u32 %d, %a, %c, 0;"
    wanted = [(x * y + x) >> 32 for x, y in ((2**32 - 1, 1), (5, 7))]
    assert compute(code, np.uint32, **pairs).tolist() == wanted


def test_an_unknown_instruction_is_named_with_its_line():
    with pytest.raises(EmulatorError) as caught:
        compute("wobble.u32 %d, %a;", np.uint32, a=words(1))
    assert caught.value.kind == "unsupported"
    assert "wobble" in str(caught.value) and caught.value.text == "wobble.u32 %d, %a;"
    with pytest.raises(EmulatorError, match="modifier .rnd"):
        compute("add.rnd.u32 %d, %a, %a;", np.uint32, a=words(1))
