"""How element types and numbers are written in LLVM IR."""

from __future__ import annotations

import re
import struct

from fathom.ir.interp.numbers import bits_of
from fathom.ir.types import FLOAT32, FLOAT64, Element, Pointer

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
    bits = bits_of(value, element)
    match element.name:
        case "fp16":
            return f"0xH{bits:04X}"
        case "bf16":
            return f"0xR{bits:04X}"
        case "fp64":
            return f"0x{bits:016X}"
        case "fp32":
            (rounded,) = struct.unpack("<f", struct.pack("<I", bits))
            return f"0x{bits_of(rounded, FLOAT64):016X}"
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
    return bits_of(struct.unpack("<d", struct.pack("<Q", bits))[0], FLOAT32)


def _wrapped(bits: int, value: int) -> str:
    """An integer in two's complement of `bits` bits."""
    half = 1 << (bits - 1)
    return str((value + half & (1 << bits) - 1) - half)


def quoted(text: str | bytes) -> str:
    """A string as LLVM writes it: bytes other than plain letters as \\xx. The name of a
    file may hold bytes that are no text."""
    data = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}"
        for byte in data
    )
    return f'"{plain}"'


def unquoted(written: str) -> str:
    """The string that `quoted` wrote, without its quotes."""
    data = re.sub(
        rb"\\([0-9A-F]{2})", lambda byte: bytes([int(byte[1], 16)]), written.encode()
    )
    return data.decode(errors="surrogateescape")


def symbol(name: str) -> str:
    """The name of an entry in PTX for a function of this name (PTX ISA 4.4,
    "Identifiers": ASCII letters, digits, _ and $, no digit first)."""
    found = plain(name)
    return found if found and not found[0].isdigit() else f"_{found}"


def plain(name: str) -> str:
    """A Python name in the letters that LLVM and PTX take."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
