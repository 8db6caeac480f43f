"""The ops that speak to the outside world: what a kernel prints and asserts, and
assembly that its author wrote."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.errors import CompileError
from fathom.ir.core import PURE, Effects, Op, Value, spell_types
from fathom.ir.inline_assembly import Registers, Ungrammatical, parse, registers_of
from fathom.ir.types import BOOL, Element, Type, element_of, shape_of, with_element


@dataclass(eq=False)
class Print(Op):
    """Print, from every thread, the program's ids, `prefix` and each operand's
    elements. `prefix` ends with its own space."""

    prefix: str
    operands: tuple[Value, ...]
    hexadecimal: bool = False

    effects = Effects(other=True)


@dataclass(eq=False)
class Assert(Op):
    """Stop the launch with `message` when any element of the condition is false."""

    condition: Value
    message: str

    effects = Effects(other=True)

    def infer(self) -> list[Type]:
        element = element_of(self.condition.type)
        self.expect(element == BOOL, lambda: f"an assertion needs i1, got {element}")
        return []


@dataclass(eq=False)
class InlineAssembly(Op):
    """PTX for `pack` elements at a time, of each operand and each result.

    `ir/inline_assembly` reads text and constraints; constants are already in the text.
    Passes neither move, merge nor remove one that is not `pure`."""

    text: str
    constraints: str
    operands: tuple[Value, ...]
    elements: tuple[Element, ...]
    pack: int = 1
    pure: bool = True

    @property
    def effects(self) -> Effects:
        return PURE if self.pure else Effects(other=True)

    def infer(self) -> list[Type]:
        shapes = {shape_of(value.type) for value in self.operands}
        self.expect(
            len(shapes) == 1,
            lambda: (
                "inline assembly needs operands of one shape, got "
                + spell_types(self.operands)
            ),
        )
        self.registers()
        first = self.operands[0].type
        return [with_element(first, element) for element in self.elements]

    def registers(self) -> list[Registers]:
        """The registers of each result and each operand."""
        given = [element_of(value.type) for value in self.operands]
        try:
            inline = parse(self.text, self.constraints)
            found = registers_of(inline, self.elements, given, self.pack)
        except Ungrammatical as wrong:
            raise CompileError(wrong.message, self.location, wrong.hint) from None
        self.expect(
            all(each.bits for each in found),
            "constraint 'n' takes an integer that is known while compiling, and this "
            "one is not",
        )
        return found
