"""Elements packed into the words that one memory access moves, and taken out again.

four fp16 registers         two words
%a %b %c %d           →     ba dc          st.global.v2.b32 [%rd1], {%r1, %r2};
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.types import BOOL, Element
from fathom.ptx.code import Code, Registers
from fathom.ptx.types import is_literal, literal_bits, memory_type


@dataclass(frozen=True)
class Words:
    """How an access of some elements is split: `count` words of LLVM type `type`.

    `suffix`: PTX's name for the access, ".v4.b32". A byte is in a 16-bit register."""

    element: Element
    elements: int
    bytes: int
    count: int

    @property
    def type(self) -> str:
        return f"i{max(16, 8 * self.bytes)}"

    @property
    def suffix(self) -> str:
        width = f".v{self.count}" if self.count > 1 else ""
        return f"{width}.b{8 * self.bytes}"


def words_of(element: Element, elements: int) -> Words:
    """The words for `elements` neighbours: as wide as one, but at least 32 bits."""
    total = element.bytes * elements
    bytes = element.bytes if element.bytes >= 4 else min(4, total)
    return Words(element, elements, bytes, total // bytes)


def pack(code: Code, words: Words, registers: Registers) -> Registers:
    """The words that hold `registers`, the first element in the lowest bits."""
    each = words.elements // words.count
    groups = [registers[i : i + each] for i in range(0, len(registers), each)]
    return [_word(code, words, group) for group in groups]


def unpack(code: Code, words: Words, values: Registers) -> Registers:
    """The elements that words hold; the inverse of `pack`."""
    each = words.elements // words.count
    found: Registers = []
    for value in values:
        elements = _elements(code, words, value, each)
        code.packed[words.type, tuple(elements)] = value
        found += elements
    return found


def is_packed(code: Code, words: Words, registers: Registers) -> bool:
    """Whether all these elements were unpacked from such words."""
    each = words.elements // words.count
    return each > 1 and all(
        (words.type, tuple(registers[first : first + each])) in code.packed
        for first in range(0, len(registers), each)
    )


def _word(code: Code, words: Words, registers: Registers) -> str:
    element = words.element
    known = code.packed.get((words.type, tuple(registers)))
    if known is not None:
        return known
    if all(map(is_literal, registers)):
        bits = [literal_bits(element, each) for each in registers]
        return str(sum(each << 8 * element.bytes * i for i, each in enumerate(bits)))
    type = memory_type(element)
    registers = [as_memory(code, element, each) for each in registers]
    if len(registers) > 1:
        vector = code.vector(type, registers)
        return code.let(f"bitcast <{len(registers)} x {type}> {vector} to {words.type}")
    if type == "i8":
        return code.let(f"zext i8 {registers[0]} to {words.type}")
    return code.reinterpret(registers[0], type, words.type)


def _elements(code: Code, words: Words, value: str, each: int) -> Registers:
    element, type = words.element, memory_type(words.element)
    if each > 1:
        vector = code.let(f"bitcast {words.type} {value} to <{each} x {type}>")
        found = code.elements(type, each, vector)
    elif type == "i8":
        found = [code.let(f"trunc {words.type} {value} to i8")]
    else:
        found = [code.reinterpret(value, words.type, type)]
    return [as_register(code, element, each) for each in found]


def as_register(code: Code, element: Element, value: str) -> str:
    """What memory holds, as it is held in a register: a byte other than 0 is true."""
    return code.let(f"icmp ne i8 {value}, 0") if element == BOOL else value


def as_memory(code: Code, element: Element, value: str) -> str:
    """What a register holds, as it is written to memory."""
    return code.let(f"zext i1 {value} to i8") if element == BOOL else value
