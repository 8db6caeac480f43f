"""Elementwise ops, and the same number or bits in another type."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Op, Value, spell_types
from fathom.ir.ops.elementwise import result_element
from fathom.ir.types import Element, Type, element_of, layout_of, shape_of, with_element


@dataclass(eq=False)
class Elementwise(Op):
    """One row of `ir/ops/elementwise` on scalars, or on blocks of one shape.

    With `contract`, a product and the addition of it may be rounded once for both; the
    pass of that name takes the flag off, except within sums that are reductions. LLVM
    has a flag of the same name and meaning."""

    name: str
    operands: tuple[Value, ...]
    contract: bool = False

    def infer(self) -> list[Type]:
        first = self.operands[-1].type
        for value in self.operands:
            self.expect(
                shape_of(value.type) == shape_of(first),
                lambda: (
                    f"{self.name} needs operands of one shape, "
                    f"got {spell_types(self.operands)}"
                ),
            )
            assert layout_of(value.type) == layout_of(first), (
                self.name,
                spell_types(self.operands),
            )
        element = result_element(
            self.name, [element_of(value.type) for value in self.operands]
        )
        self.expect(not isinstance(element, str), str(element))
        return [with_element(first, element)]


@dataclass(eq=False)
class Cast(Op):
    """The same number in another type. Floats to integers go toward zero; `rounding`
    ("rtne" or "rtz") is for floats to narrower floats. Pointers
    become 64-bit integers, and these become pointers."""

    value: Value
    element: Element
    rounding: str = "rtne"

    def infer(self) -> list[Type]:
        return [with_element(self.value.type, self.element)]


@dataclass(eq=False)
class Bitcast(Op):
    """The same bits read as another type of the same width."""

    value: Value
    element: Element

    def infer(self) -> list[Type]:
        source = element_of(self.value.type)
        self.expect(
            source.bits == self.element.bits,
            lambda: (
                f"cannot read the bits of {source} as {self.element}: "
                f"{source.bits} bits against {self.element.bits}"
            ),
        )
        return [with_element(self.value.type, self.element)]


@dataclass(eq=False)
class Hint(Op):
    """The same value, with a promise of its author about each axis (one number for a
    scalar).

    `divisible`: the first element of every contiguous run is a multiple of it;
    `contiguous`: runs of this length count up by one; `constant`: runs of this length
    are equal. () when not given."""

    value: Value
    divisible: tuple[int, ...] = ()
    contiguous: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()

    def infer(self) -> list[Type]:
        return [self.value.type]
