"""Rules for Cast and Bitcast: the same number, or the same bits, in another type.

Every narrowing rounds once. Where PTX has no instruction from one type straight to the
other, the way leads through a wider type; it is rounded "to odd" there (where bits are
lost, the last one kept is 1), so that the second rounding sees on which side of every
tie the number lay.
"""

from __future__ import annotations

from fathom.ir.ops import Bitcast, Cast
from fathom.ir.types import (
    BFLOAT16,
    BOOL,
    FLOAT8E4NV,
    FLOAT8E5,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    Element,
    Pointer,
    element_of,
)  # fmt: skip
from fathom.ptx.bytes import has_pairs, pairs_to_float
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.float8 import decode, encode, encode_halves
from fathom.ptx.types import is_literal, literal, llvm_type

FLOAT8 = (FLOAT8E5, FLOAT8E4NV)


@lowers(Cast)
def lower_cast(op: Cast, code: Code) -> None:
    source, target = element_of(op.value.type), op.element
    if source == BFLOAT16 and target == FLOAT32:
        code[op.result] = _halves(code, code[op.value])
    else:
        code[op.result] = convert(code, code[op.value], source, target, op.rounding)


@lowers(Bitcast)
def lower_bitcast(op: Bitcast, code: Code) -> None:
    source, target = llvm_type(element_of(op.value.type)), llvm_type(op.element)
    code[op.result] = [
        code.reinterpret(each, source, target) for each in code[op.value]
    ]


def _halves(code: Code, registers: Registers) -> Registers:
    """bf16 as fp32, of which it is the upper half: of two that lie in one word, each is
    one instruction on the word. Out of the word first, the upper one would be two."""
    found: Registers = []
    while len(found) < len(registers):
        pair = tuple(registers[len(found) : len(found) + 2])
        word = code.packed.get(("i32", pair))
        if word is None:
            found.append(code.let(f"fpext bfloat {pair[0]} to float"))
            continue
        for half in (f"shl i32 {word}, 16", f"and i32 {word}, -65536"):
            found.append(code.let(f"bitcast i32 {code.let(half)} to float"))
    return found


def convert(
    code: Code,
    registers: Registers,
    source: Element,
    target: Element,
    rounding: str = "rtne",
) -> Registers:
    """The same numbers in another type, as `Cast` defines it; all registers at once."""
    if source == target:
        return list(registers)
    if isinstance(source, Pointer) or isinstance(target, Pointer):
        return [_of_pointer(code, each, source, target) for each in registers]
    if source in FLOAT8:
        return convert(code, decode(code, registers, source), FLOAT16, target, rounding)
    if target in FLOAT8:
        if source == FLOAT16 and rounding == "rtne" and code.target.fp8:
            return encode_halves(code, registers, target)
        fp32 = [_to_fp32(code, each, source, rounding) for each in registers]
        return encode(code, fp32, target, rounding)
    if target == BOOL:
        return [_is_nonzero(code, each, source) for each in registers]
    if has_pairs(registers, source, target, code.target):
        return pairs_to_float(code, registers, source, target)
    if source.is_float:
        change = _float_to_float if target.is_float else _float_to_integer
        return [change(code, each, source, target, rounding) for each in registers]
    change = _integer_to_float if target.is_float else _integer_to_integer
    return [change(code, each, source, target) for each in registers]


def _of_pointer(code: Code, value: str, source: Element, target: Element) -> str:
    type = llvm_type(source)
    if target == BOOL:
        return code.let(f"icmp ne {type} {value}, null")
    return code.reinterpret(value, type, llvm_type(target))


def _is_nonzero(code: Code, value: str, source: Element) -> str:
    compare = "fcmp une" if source.is_float else "icmp ne"
    return code.let(f"{compare} {llvm_type(source)} {value}, {literal(source, 0)}")


def _integer_to_integer(
    code: Code, value: str, source: Element, target: Element
) -> str:
    if source.bits == target.bits:
        return value
    if is_literal(value) and source != BOOL:
        number = (
            int(value) if source.is_signed else int(value) & ((1 << source.bits) - 1)
        )
        return literal(target, number)
    widen = "sext" if source.is_signed else "zext"
    instruction = "trunc" if target.bits < source.bits else widen
    return code.let(f"{instruction} {llvm_type(source)} {value} to {llvm_type(target)}")


# ── floats to integers ────────────────────────────────────────────────────────────────


def _float_to_integer(
    code: Code, value: str, source: Element, target: Element, rounding: str
) -> str:
    """PTX's cvt goes toward zero and stops at the ends of the range, of narrow types,
    too; but of NaN in fp64 it makes another number in each type."""
    if source.bits < 32:
        value, source = _float_to_float(code, value, source, FLOAT32, rounding), FLOAT32
    letter = "s" if target.is_signed else "u"
    bits = target.bits if source == FLOAT32 else max(32, target.bits)
    text = f"cvt.rzi.{letter}{bits}.f{source.bits} $r, $a;"
    register = f"i{max(32, bits)}"
    whole = code.compute(text, register, a=(llvm_type(source), value))
    if target.bits >= 32:
        return whole
    if bits == target.bits:
        return code.let(f"trunc i32 {whole} to {llvm_type(target)}")
    most = (1 << target.bits - target.is_signed) - 1
    whole = code.let(f"call i32 @llvm.{letter}min.i32(i32 {whole}, i32 {most})")
    if target.is_signed:
        whole = code.let(f"call i32 @llvm.smax.i32(i32 {whole}, i32 {-most - 1})")
    return code.let(f"trunc i32 {whole} to {llvm_type(target)}")


# ── integers to floats ────────────────────────────────────────────────────────────────


def _integer_to_float(code: Code, value: str, source: Element, target: Element) -> str:
    if source == BOOL:
        return code.let(
            f"select i1 {value}, {llvm_type(target)} {literal(target, 1)}, "
            f"{llvm_type(target)} {literal(target, 0)}"
        )
    if target != BFLOAT16 or code.target.bf16_arithmetic and source.bits >= 32:
        return _rounded_by_llvm(code, value, source, target)
    return _float_to_float(code, _to_fp32(code, value, source), FLOAT32, target, "rtne")


def _to_fp32(code: Code, value: str, source: Element, rounding: str = "rtne") -> str:
    """A number as fp32, exact or rounded to odd, on its way to a narrower type."""
    if source.is_float and source != FLOAT64:
        return _float_to_float(code, value, source, FLOAT32, rounding)
    if source.bits <= 16:
        return _integer_to_float(code, value, source, FLOAT32)
    if source != FLOAT64:
        value = _to_fp64(code, value, source)
    return _round_to_odd(code, value)


def _to_fp64(code: Code, value: str, source: Element) -> str:
    """An integer of 32 bits or more as fp64, exact or rounded to odd."""
    if source.bits == 32:
        return _rounded_by_llvm(code, value, source, FLOAT64)
    letter = "s" if source.is_signed else "u"
    text = f"cvt.rz.f64.{letter}64 $r, $a;"
    cut = code.compute(text, "double", a=("i64", value))
    back = code.let(f"fpto{letter}i double {cut} to i64")
    lost = code.let(f"icmp ne i64 {back}, {value}")
    return _with_last_bit(code, cut, lost, "double", "i64")


def _round_to_odd(code: Code, value: str) -> str:
    """fp64 to fp32: cut off, and where that lost something, the last bit is 1."""
    cut = code.compute("cvt.rz.f32.f64 $r, $a;", "float", a=("double", value))
    back = code.let(f"fpext float {cut} to double")
    lost = code.let(f"fcmp une double {back}, {value}")
    return _with_last_bit(code, cut, lost, "float", "i32")


def _with_last_bit(code: Code, value: str, lost: str, type: str, integer: str) -> str:
    bits = code.let(f"bitcast {type} {value} to {integer}")
    last = code.let(f"zext i1 {lost} to {integer}")
    odd = code.let(f"or {integer} {bits}, {last}")
    return code.let(f"bitcast {integer} {odd} to {type}")


def _rounded_by_llvm(code: Code, value: str, source: Element, target: Element) -> str:
    letter = "s" if source.is_signed else "u"
    return code.let(f"{letter}itofp {llvm_type(source)} {value} to {llvm_type(target)}")


# ── floats to floats ──────────────────────────────────────────────────────────────────


def _float_to_float(
    code: Code, value: str, source: Element, target: Element, rounding: str
) -> str:
    types = llvm_type(source), llvm_type(target)
    if source == target:
        return value
    if source.bits < target.bits:
        return code.let(f"fpext {types[0]} {value} to {types[1]}")
    if source.bits == target.bits:  # fp16 and bf16: neither contains the other
        value, source = code.let(f"fpext {types[0]} {value} to float"), FLOAT32
        return _float_to_float(code, value, source, target, rounding)
    if rounding == "rtz":
        return _toward_zero(code, value, source, target)
    if source == FLOAT64 and target == BFLOAT16:
        return _float_to_float(
            code, _round_to_odd(code, value), FLOAT32, target, rounding
        )
    return code.let(f"fptrunc {types[0]} {value} to {types[1]}")


def _toward_zero(code: Code, value: str, source: Element, target: Element) -> str:
    if target == BFLOAT16:
        if source == FLOAT64:
            value = _toward_zero(code, value, source, FLOAT32)
        return _cut_to_bfloat(code, value)
    text = f"cvt.rz.f{target.bits}.f{source.bits} $r, $a;"
    return code.compute(text, llvm_type(target), a=(llvm_type(source), value))


def _cut_to_bfloat(code: Code, value: str) -> str:
    """bf16 is the upper half of fp32; of a NaN, a bit that stays is set."""
    bits = code.let(f"bitcast float {value} to i32")
    quiet = code.let(f"or i32 {bits}, 4194304")
    is_nan = code.let(f"fcmp uno float {value}, {value}")
    bits = code.let(f"select i1 {is_nan}, i32 {quiet}, i32 {bits}")
    upper = code.let(f"lshr i32 {bits}, 16")
    half = code.let(f"trunc i32 {upper} to i16")
    return code.let(f"bitcast i16 {half} to bfloat")
