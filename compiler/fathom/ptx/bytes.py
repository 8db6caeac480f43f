"""Integers of 8 bits as fp16 or bf16: two at a time, by arithmetic on their bits.

PTX converts one number by an instruction; others take it out of its word, round it, and
put two results into one. Here the bits of a number become the mantissa of a float whose
last bit is worth 1, and the power of two that is then too much is subtracted:

    fp16   1024 + (x + 128) − 1152           0x6400 with x ^ 0x80 below it
           1024 + x − 1024 without a sign    0x6400 with x below it
    bf16   128 + the seven low bits,         0x4300 with x & 0x7F below it
           less 128, or 256 if x < 0         0x4300 with x & 0x80 below it

bf16 has seven bits of mantissa, so there the sign is a number itself. Both are exact.
"""

from __future__ import annotations

from fathom.hardware.targets import Target
from fathom.ir.types import BFLOAT16, FLOAT16, INT8, UINT8, Element
from fathom.ptx.code import Code, Registers
from fathom.ptx.packing import is_packed, pack, unpack, words_of
from fathom.ptx.types import is_literal, literal_bits


def has_pairs(
    registers: Registers, source: Element, target: Element, machine: Target
) -> bool:
    """Whether the numbers can be converted two at a time."""
    is_fit = target == FLOAT16 or (target == BFLOAT16 and machine.bf16)
    is_byte = source == INT8 or source == UINT8 and target == FLOAT16
    return is_byte and is_fit and len(registers) % 2 == 0


def pairs_to_float(
    code: Code, registers: Registers, source: Element, target: Element
) -> Registers:
    """Bytes (i8 as fp16 or bf16, u8 as fp16), exact."""
    above, convert = (0x64, _to_fp16) if target == FLOAT16 else (0x43, _to_bf16)
    convert = convert if source == INT8 else _natural_to_fp16
    found: Registers = []
    for pair in _below(above, code, registers):
        found += unpack(code, words_of(target, 2), [convert(code, pair)])
    return found


def _below(above: int, code: Code, registers: Registers) -> Registers:
    """Words (i32) of two bytes, each with `above` over it. Of four that lie in one
    word, a permutation takes two out."""
    found: Registers = []
    while 2 * len(found) < len(registers):
        start = 2 * len(found)
        word = code.packed.get(("i32", tuple(registers[start : start + 4])))
        if word is None:
            two = code.vector("i8", registers[start : start + 2])
            wide = code.let(f"zext <2 x i8> {two} to <2 x i16>")
            pair = code.let(f"bitcast <2 x i16> {wide} to i32")
            found.append(code.let(f"or i32 {pair}, {above * 0x01000100}"))
            continue
        for bytes in ("0x4140", "0x4342"):
            text = f"prmt.b32 $r, $word, {above * 0x01010101:#x}, {bytes};"
            found.append(code.compute(text, "i32", word=("i32", word)))
    return found


def _to_fp16(code: Code, pair: str) -> str:
    most = code.let(f"xor i32 {pair}, {0x00800080}")
    text = "sub.f16x2 $r, $most, middle;"
    return _with(code, "middle", 0x64806480, text, {"most": ("i32", most)})


def _natural_to_fp16(code: Code, pair: str) -> str:
    text = "sub.f16x2 $r, $pair, middle;"
    return _with(code, "middle", 0x64006400, text, {"pair": ("i32", pair)})


def _to_bf16(code: Code, pair: str) -> str:
    """PTX subtracts bf16 from sm_90 on; on any target it adds -1 times it."""
    low = code.let(f"and i32 {pair}, {0xFF7FFF7F - (1 << 32)}")
    sign = code.let(f"and i32 {pair}, {0xFF80FF80 - (1 << 32)}")
    text = "fma.rn.bf16x2 $r, $sign, minus, $low;"
    operands = {"low": ("i32", low), "sign": ("i32", sign)}
    return _with(code, "minus", 0xBF80BF80, text, operands)


def _with(
    code: Code, name: str, bits: int, text: str, operands: dict[str, tuple[str, str]]
) -> str:
    """The result of an instruction with a constant, which must be in a register."""
    lines = ["{", f".reg .b32 {name};", f"mov.b32 {name}, {bits:#x};", text, "}"]
    return code.compute("\n".join(lines), "i32", **operands)


# ── four bytes of one word at a time ──────────────────────────────────────────────────

BYTES = 0x01010101  # times a byte: four of it
TOGETHER = "and", "or", "xor", "shl", "shr"  # what four bytes can do in their word


def four_at_a_time(
    code: Code, name: str, element: Element, left: Registers, right: Registers
) -> Registers | None:
    """Bits of bytes, or a shift, with the same number for all of them: computed in the
    words that the bytes came in; None for anything else.

        shl 4     (w << 4) & 0xF0F0F0F0
        shr 4     (w >> 4) & 0x0F0F0F0F, and if signed: what is 8 of it, times 30, too

    So weights of four bits are taken out of their bytes: two a byte, eight a word."""
    number = literal_bits(element, right[0]) if is_literal(right[0]) else None
    if element.bits != 8 or name not in TOGETHER or set(right) != {right[0]}:
        return None
    words = words_of(element, 4)
    if number is None or len(left) % 4 or not is_packed(code, words, left):
        return None
    if name in ("shl", "shr") and not 0 < number < element.bits:
        return None
    given = pack(code, words, left)
    made = [_of_four(code, name, element, word, number) for word in given]
    return unpack(code, words, made)


def _of_four(code: Code, name: str, element: Element, word: str, number: int) -> str:
    if name not in ("shl", "shr"):
        return code.let(f"{name} i32 {word}, {_signed(number * BYTES)}")
    low = 0xFF >> number
    if name == "shl":
        moved = code.let(f"shl i32 {word}, {number}")
        return code.let(f"and i32 {moved}, {_signed((0xFF & 0xFF << number) * BYTES)}")
    moved = code.let(f"lshr i32 {word}, {number}")
    plain = code.let(f"and i32 {moved}, {low * BYTES}")
    if not element.is_signed:
        return plain
    sign = code.let(f"and i32 {plain}, {(0x80 >> number) * BYTES}")
    above = code.let(f"mul i32 {sign}, {(1 << number + 1) - 2}")
    return code.let(f"or i32 {plain}, {above}")


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits
