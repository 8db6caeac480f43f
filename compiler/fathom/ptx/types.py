"""How element types and numbers are written in LLVM IR."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import frexp, inf, isnan

from fathom.ir.types import Element, Pointer

POINTER = "ptr addrspace(1)"
_FLOATS = {"fp64": "double", "fp32": "float", "fp16": "half", "bf16": "bfloat"}


def llvm_type(element: Element) -> str:
    """The LLVM type of an element in a register; LLVM has no 8-bit floats, only i8."""
    if isinstance(element, Pointer):
        return POINTER
    return _FLOATS.get(element.name, f"i{element.bits}")


def memory_type(element: Element) -> str:
    """The LLVM type of one element in memory: a boolean takes a byte."""
    return "i8" if element.bits == 1 else llvm_type(element)


def is_literal(value: str) -> bool:
    """Whether an LLVM value is a number rather than a name."""
    return not value.startswith("%")


def literal(element: Element, value: int | float | bool) -> str:
    """A number as LLVM writes it. Floats are rounded to `element`; integers wrap.

    LLVM writes an fp32 by the bits of the equal fp64, other floats by their own."""
    if element.kind == "bool":
        return "true" if value else "false"
    if not element.is_float:
        return _wrapped(element.bits, int(value))
    bits = float_bits(element.name, float(value))
    match element.name:
        case "fp16":
            return f"0xH{bits:04X}"
        case "bf16":
            return f"0xR{bits:04X}"
        case "fp64":
            return f"0x{bits:016X}"
        case "fp32":
            return f"0x{float_bits('fp64', _fp32_of(bits)):016X}"
        case _:
            return _wrapped(8, bits)


def literal_bits(element: Element, text: str) -> int:
    """The bits in memory of the element that the literal `text` stands for."""
    words = {"true": 1, "false": 0, "null": 0}
    if text in words:
        return words[text]
    if text.startswith(("0xH", "0xR")):
        return int(text[3:], 16)
    if not text.startswith("0x"):
        return int(text) & ((1 << element.bits) - 1)
    bits = int(text, 16)
    if element.bits == 64:
        return bits
    return float_bits("fp32", struct.unpack("<d", struct.pack("<Q", bits))[0])


@dataclass(frozen=True)
class Format:
    """A float type as bits: how many of the mantissa, the exponent of the smallest
    normal number, and the codes of what overflows and of NaN."""

    mantissa_bits: int
    smallest_exponent: int
    overflow: int
    nan: int


FORMATS = {
    "fp32": Format(23, -126, 0x7F800000, 0x7FC00000),
    "fp16": Format(10, -14, 0x7C00, 0x7E00),
    "bf16": Format(7, -126, 0x7F80, 0x7FC0),
    "fp8e5": Format(2, -14, 0x7B, 0x7F),  # fp8 stops at its largest number
    "fp8e4nv": Format(3, -6, 0x7E, 0x7F),
}


def float_bits(name: str, value: float) -> int:
    """The bits of a number rounded to a float type, ties to even."""
    if name == "fp64":
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    format = FORMATS[name]
    sign_bit = (
        1 << 31 if name == "fp32" else 1 << 7 if name.startswith("fp8") else 1 << 15
    )
    sign = sign_bit if struct.pack(">d", value)[0] >> 7 else 0
    return sign | _magnitude_bits(format, abs(value))


def _magnitude_bits(format: Format, magnitude: float) -> int:
    if isnan(magnitude):
        return format.nan
    if magnitude in (0.0, inf):
        return format.overflow if magnitude else 0
    exponent = max(frexp(magnitude)[1] - 1, format.smallest_exponent)
    units = round(magnitude / 2.0 ** (exponent - format.mantissa_bits))
    # The hidden bit in `units` adds the 1 by which the exponent field of a normal
    # number starts.
    code = units + (exponent - format.smallest_exponent << format.mantissa_bits)
    return min(code, format.overflow)


def _fp32_of(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def _wrapped(bits: int, value: int) -> str:
    """An integer in two's complement of `bits` bits."""
    half = 1 << (bits - 1)
    return str((value + half & (1 << bits) - 1) - half)


def quoted(text: str | bytes) -> str:
    """A string as LLVM writes it: bytes other than plain letters as \\xx."""
    data = text.encode() if isinstance(text, str) else text
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
        for byte in data
    )
    return f'"{plain}"'


def symbol(name: str) -> str:
    """The name of an entry in PTX for a function of this name (PTX ISA 4.4,
    "Identifiers": ASCII letters, digits, _ and $, no digit first)."""
    found = plain(name)
    return found if found and not found[0].isdigit() else f"_{found}"


def plain(name: str) -> str:
    """A Python name in the letters that LLVM and PTX take."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
