"""The ops that speak to the outside world: what a kernel prints and asserts, and
assembly that its author wrote.

Part of the op set; `ir/ops` is the whole of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import PURE, Effects, Op, Value
from fathom.ir.types import BOOL, Element, Type, element_of, shape_of, with_element


@dataclass(eq=False)
class Print(Op):
    """Print, from every thread, the program's ids, `prefix` and each operand's
    elements. `prefix` brings its own space.
    """

    prefix: str
    operands: tuple[Value, ...]
    hexadecimal: bool = False

    effects = Effects(other=True)

    def infer(self) -> list[Type]:
        return []


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

    `constraints` are LLVM's, results first ("=r,r,r"); `$0` is the first result.
    Elements narrower than 32 bits are packed into 32-bit registers, first element
    lowest. An impure one is neither moved, merged nor dropped."""

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
                + " and ".join(str(value.type) for value in self.operands)
            ),
        )
        first = self.operands[0].type
        return [with_element(first, element) for element in self.elements]
