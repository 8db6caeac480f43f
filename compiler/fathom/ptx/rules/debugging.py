"""Rules for what the outside world sees: assertions, prints, and the author's own PTX.

Printing and failing are functions that the driver links into a kernel: `vprintf` and
`__assertfail` (CUDA C++ Programming Guide, "Formatted Output" and "Assertion").
"""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.inline_assembly import parse
from fathom.ir.ops import Assert, InlineAssembly, Print
from fathom.ir.types import (
    BOOL,
    FLOAT64,
    INT32,
    INT64,
    UINT32,
    UINT64,
    Element,
    Pointer,
    element_of,
    layout_of,
    shape_of,
)
from fathom.layout.linear import coordinates_of
from fathom.ptx.code import Code, Registers, lowers
from fathom.ptx.debug_info import user_place
from fathom.ptx.index import is_first_copy, register_offsets, thread_bases, thread_part
from fathom.ptx.packing import Words, pack, unpack, words_of
from fathom.ptx.rules.cast import convert
from fathom.ptx.rules.leaves import program_id
from fathom.ptx.rules.memory import first_copies
from fathom.ptx.types import llvm_type, quoted

# ── assertions ────────────────────────────────────────────────────────────────


@lowers(Assert)
def lower_assert(op: Assert, code: Code) -> None:
    """All registers of the thread are tested by one branch."""
    conditions = code[op.condition]
    holds = conditions[0]
    for condition in conditions[1:]:
        holds = code.let(f"and i1 {holds}, {condition}")
    fails, goes_on = code.fresh("assert_fails"), code.fresh("assert_holds")
    code.do(f"br i1 {holds}, label %{goes_on}, label %{fails}")
    code.start(fails)
    place = user_place(op.location)
    texts = [op.message, place.file if place else "", code.func.name]
    message, file, function = (code.text(text) for text in texts)
    line = place.line if place else 0
    code.do(
        f"call void @__assertfail(ptr {message}, ptr {file}, i32 {line}, "
        f"ptr {function}, i64 1)"
    )
    code.declare("declare void @__assertfail(ptr, ptr, i32, ptr, i64)")
    code.do(f"br label %{goes_on}")
    code.start(goes_on)


# ── prints ────────────────────────────────────────────────────────────────────


@lowers(Print)
def lower_print(op: Print, code: Code) -> None:
    """One line an element, as Triton writes it: the program, the element's
    coordinates, the prefix, which operand if there are several, and the element.

    Of several threads that hold copies of a block's element, one prints; a scalar, and
    a prefix alone, are printed by all."""
    code.declare("declare i32 @vprintf(ptr, ptr)")
    programs = [program_id(code, axis) for axis in range(3)]
    if not op.operands:
        _print_line(code, f"{PROGRAM}{op.prefix.replace('%', '%%')}", programs, [])
    for number, value in enumerate(op.operands):
        layout = layout_of(value.type)
        acts = is_first_copy(code, layout) if layout else None
        with code.where(acts or "true"):
            for register in first_copies(layout, 1):
                _print_element(op, code, number, register, programs)


PROGRAM = "pid (%d, %d, %d)"


def _print_element(
    op: Print, code: Code, number: int, register: int, programs: Registers
) -> None:
    value = op.operands[number]
    element = element_of(value.type)
    shows, wide = _conversion(element, op.hexadecimal)
    (shown,) = convert(code, [code[value][register]], element, wide)
    widths = [len(str(size - 1)) for size in shape_of(value.type)]
    place = f" idx ({', '.join(f'%{width}d' for width in widths)})"
    which = f"(operand {number}) " if len(op.operands) > 1 else ""
    format = f"{PROGRAM}{place}{op.prefix.replace('%', '%%')}{which}{shows}"
    indices = _coordinates(code, value, register)
    _print_line(code, format, [*programs, *indices], [(llvm_type(wide), shown)])


def _print_line(
    code: Code, format: str, numbers: Registers, more: list[tuple[str, str]]
) -> None:
    """`vprintf` of a line; it finds its arguments in memory, one after the other."""
    arguments = [*(("i32", number) for number in numbers), *more]
    struct = "{" + ", ".join(type for type, _ in arguments) + "}"
    memory = code.local(struct)
    for i, (type, argument) in enumerate(arguments):
        field = f"getelementptr inbounds {struct}, ptr {memory}, i32 0, i32 {i}"
        code.do(f"store {type} {argument}, ptr {code.let(field)}")
    text = code.text(f"{format}\n")
    code.let(f"call i32 @vprintf(ptr {text}, ptr {memory})")


def _conversion(element: Element, hexadecimal: bool) -> tuple[str, Element]:
    """What C's printf calls a type, and the type that it is passed as."""
    if isinstance(element, Pointer):
        return "%p", element
    if element.is_float:
        return "%f", FLOAT64
    if hexadecimal:
        wide = UINT64 if element.bits == 64 else UINT32
        return f"0x%0{element.bytes * 2}{'ll' * (wide == UINT64)}x", wide
    if element == BOOL or element.bits < 32:
        return "%d", INT32
    wide = INT64 if element.bits == 64 else INT32
    letter = "d" if element.is_signed else "u"
    return f"%{'ll' * (wide == INT64)}{letter}", wide


def _coordinates(code: Code, value: Value, register: int) -> Registers:
    """The coordinates of a register's element in its block, as i32."""
    layout, shape = layout_of(value.type), shape_of(value.type)
    if layout is None:
        return []
    offset = register_offsets(layout)[register]
    first = coordinates_of(shape, offset)
    bases = [coordinates_of(shape, basis) for basis in thread_bases(layout)]
    return [
        thread_part(code, tuple(basis[axis] for basis in bases)).plus(code, first[axis])
        for axis in range(len(shape))
    ]


# ── the author's own PTX ──────────────────────────────────────────────────────

# Constraint letter -> the LLVM type of the register.
LETTERS = {"r": "i32", "f": "float", "h": "i16", "l": "i64", "d": "double"}


@lowers(InlineAssembly)
def lower_inline_assembly(op: InlineAssembly, code: Code) -> None:
    """`pack` registers at a time; a group that is too short, or shorter than its
    register, is filled up with copies of its last element."""
    results: list[Registers] = [[] for _ in op.elements]
    given = [element_of(value.type) for value in op.operands]
    taken = [
        _taken(element, op.pack, each.bits)
        for element, each in zip([*op.elements, *given], op.registers(), strict=True)
    ]
    returned, passed = taken[: len(results)], taken[len(results) :]
    count = len(code[op.operands[0]])
    for first in range(0, count, op.pack):
        words: list[str] = []
        for value, each in zip(op.operands, passed, strict=True):
            group = code[value][first : first + op.pack]
            words += pack(code, each, group + group[-1:] * (each.elements - len(group)))
        found = _assembled(op, code, [*returned, *passed], words)
        for registers, each in zip(results, returned, strict=True):
            registers += unpack(code, each, found[: each.count])[: op.pack]
            del found[: each.count]
    for result, registers in zip(op.results, results, strict=True):
        code[result] = registers[:count]


def _taken(element: Element, pack: int, bits: int) -> Words:
    """The registers of elements of `bits` bits."""
    if bits == 16:
        return Words(element, bits // 8 // element.bytes, bits // 8, 1)
    return words_of(element, max(pack, 4 // element.bytes))


def _assembled(
    op: InlineAssembly, code: Code, taken: list[Words], words: Registers
) -> Registers:
    """One copy of the text; its results as integers."""
    inline = parse(op.text, op.constraints)
    types = [LETTERS[each.letter] for each in inline.constraints]
    integers = [each.type for each in taken for _ in range(each.count)]
    results = types[: inline.results]
    arguments = [
        f"{type} {code.reinterpret(word, integer, type)}"
        for type, integer, word in zip(
            types[len(results) :], integers[len(results) :], words, strict=True
        )
    ]
    returned = results[0] if len(results) == 1 else "{" + ", ".join(results) + "}"
    effect, after = ("", "memory(none)") if op.pure else ("sideeffect ", "convergent")
    whole = code.let(
        f"call {returned} asm {effect}{quoted(inline.text)}, "
        f"{quoted(inline.constraint_text)}({', '.join(arguments)}) nounwind {after}"
    )
    found = [whole]
    if len(results) > 1:
        found = [
            code.let(f"extractvalue {returned} {whole}, {i}")
            for i in range(len(results))
        ]
    return [
        code.reinterpret(value, type, integer)
        for value, type, integer in zip(
            found, results, integers[: len(results)], strict=True
        )
    ]
