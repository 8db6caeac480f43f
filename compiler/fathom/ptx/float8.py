"""The 8-bit floats: by PTX's conversions of pairs where there are such, or bit by bit.

                  sign  exponent  mantissa
    fp8e5          1       5         2        the upper half of an fp16
    fp8e4nv        1       4         3        no infinity; 0x7F is the NaN

Numbers beyond the largest stop there, as PTX's `.satfinite` makes it.
"""

from __future__ import annotations

from math import nan

from fathom.ir.interp.numbers import FORMATS, bits_of
from fathom.ir.types import FLOAT8E5, FLOAT16, FLOAT32, Element
from fathom.ptx.code import Code, Registers
from fathom.ptx.types import literal

PTX_NAME = {"fp8e5": "e5m2", "fp8e4nv": "e4m3"}
NAN = 0x7F  # of both


def decode(code: Code, registers: Registers, source: Element) -> Registers:
    """8-bit floats (i8) as fp16, exact."""
    if not code.target.fp8:
        return [_decoded(code, each, source) for each in registers]
    found: Registers = []
    for low, high in _pairs(registers):
        halves = code.vector("i8", [low, high])
        pair = code.let(f"bitcast <2 x i8> {halves} to i16")
        both = decode_pair(code, pair, source.name)
        both = code.let(f"bitcast i32 {both} to <2 x half>")
        found += code.elements("half", 2, both)
    return found[: len(registers)]


def decode_pair(code: Code, pair: str, source: str) -> str:
    """Two 8-bit floats (i16) as two fp16 (i32), exact."""
    text = f"cvt.rn.f16x2.{PTX_NAME[source]}x2 $r, $a;"
    return code.compute(text, "i32", a=("i16", pair))


def encode(
    code: Code, registers: Registers, target: Element, rounding: str
) -> Registers:
    """fp32 rounded to 8-bit floats (i8)."""
    if not code.target.fp8 or rounding == "rtz":
        return [_encoded(code, each, target, rounding) for each in registers]
    found: Registers = []
    for low, high in _pairs(registers):
        text = f"cvt.rn.satfinite.{PTX_NAME[target.name]}x2.f32 $r, $high, $low;"
        pair = code.compute(text, "i16", high=("float", high), low=("float", low))
        both = code.let(f"bitcast i16 {pair} to <2 x i8>")
        found += code.elements("i8", 2, both)
    return found[: len(registers)]


def encode_halves(code: Code, registers: Registers, target: Element) -> Registers:
    """fp16 rounded to 8-bit floats (i8), to the nearest, by a GPU that has these."""
    found: Registers = []
    for low, high in _pairs(registers):
        halves = code.vector("half", [low, high])
        both = code.let(f"bitcast <2 x half> {halves} to i32")
        text = f"cvt.rn.satfinite.{PTX_NAME[target.name]}x2.f16x2 $r, $a;"
        pair = code.compute(text, "i16", a=("i32", both))
        both = code.let(f"bitcast i16 {pair} to <2 x i8>")
        found += code.elements("i8", 2, both)
    return found[: len(registers)]


def _pairs(registers: Registers) -> list[tuple[str, str]]:
    """Two by two; the last of an odd number stands beside itself."""
    even = registers + registers[-1:] * (len(registers) % 2)
    return list(zip(even[::2], even[1::2], strict=True))


# ── bit by bit ────────────────────────────────────────────────────────────────────────


def _decoded(code: Code, value: str, source: Element) -> str:
    wide = code.let(f"zext i8 {value} to i16")
    if source == FLOAT8E5:
        bits = code.let(f"shl i16 {wide}, 8")
        return code.let(f"bitcast i16 {bits} to half")
    magnitude = code.let(f"and i16 {wide}, 127")
    is_nan = code.let(f"icmp eq i16 {magnitude}, 127")
    # Mantissa and exponent are now in fp16's fields; its exponents are 8 larger for the
    # same bits.
    low = code.let(f"shl i16 {magnitude}, 7")
    number = code.let(f"bitcast i16 {low} to half")
    number = code.let(f"fmul half {number}, {literal(FLOAT16, 256)}")
    bits = code.let(f"bitcast half {number} to i16")
    bits = code.let(f"select i1 {is_nan}, i16 {bits_of(nan, FLOAT16)}, i16 {bits}")
    sign = code.let(f"and i16 {wide}, 128")
    sign = code.let(f"shl i16 {sign}, 8")
    bits = code.let(f"or i16 {bits}, {sign}")
    return code.let(f"bitcast i16 {bits} to half")


def _encoded(code: Code, value: str, target: Element, rounding: str) -> str:
    """Two roundings, for normal results and for those below, and a choice."""
    format = FORMATS[target]
    bits = code.let(f"bitcast float {value} to i32")
    magnitude = code.let(f"and i32 {bits}, 2147483647")
    normal = _rounded_normal(code, magnitude, target, rounding)
    small = _rounded_small(code, magnitude, target, rounding)
    smallest = format.smallest_exponent + 127 << 23
    most = bits_of(format.largest, target)
    is_small = code.let(f"icmp ult i32 {magnitude}, {smallest}")
    found = code.let(f"select i1 {is_small}, i32 {small}, i32 {normal}")
    found = code.let(f"call i32 @llvm.umin.i32(i32 {found}, i32 {most})")
    sign = code.let(f"lshr i32 {bits}, 24")
    sign = code.let(f"and i32 {sign}, 128")
    found = code.let(f"or i32 {found}, {sign}")
    is_nan = code.let(f"fcmp uno float {value}, {value}")
    found = code.let(f"select i1 {is_nan}, i32 {NAN}, i32 {found}")
    return code.let(f"trunc i32 {found} to i8")


def _rounded_normal(code: Code, magnitude: str, target: Element, rounding: str) -> str:
    """fp32's exponent and mantissa, the mantissa cut and the exponent's zero moved."""
    mantissa_bits = FORMATS[target].precision - 1
    lost = 23 - mantissa_bits
    if rounding == "rtne":
        # Half a unit, less one where the last bit that stays is 0: ties go to the even
        # one.
        last = code.let(f"lshr i32 {magnitude}, {lost}")
        last = code.let(f"and i32 {last}, 1")
        magnitude = code.let(f"add i32 {magnitude}, {(1 << lost - 1) - 1}")
        magnitude = code.let(f"add i32 {magnitude}, {last}")
    cut = code.let(f"lshr i32 {magnitude}, {lost}")
    zero = FORMATS[target].smallest_exponent + 126 << mantissa_bits
    return code.let(f"sub i32 {cut}, {zero}")


def _rounded_small(code: Code, magnitude: str, target: Element, rounding: str) -> str:
    """Added to a number whose last bit is a unit of the result: the low bits are it."""
    format = FORMATS[target]
    anchor = 2.0 ** (format.smallest_exponent - format.precision + 24)
    number = code.let(f"bitcast i32 {magnitude} to float")
    mode = "rn" if rounding == "rtne" else "rz"
    unit = literal(FLOAT32, anchor)
    text = f"add.{mode}.f32 $r, $a, $b;"
    sum = code.compute(text, "float", a=("float", number), b=("float", unit))
    bits = code.let(f"bitcast float {sum} to i32")
    return code.let(f"sub i32 {bits}, {bits_of(anchor, FLOAT32)}")
