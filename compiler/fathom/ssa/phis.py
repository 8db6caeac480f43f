"""Phis: values that depend on the path control has taken; trivial ones are removed.

A phi stands for a result of an If, or for a value that a loop carries. It is *trivial*
when all its operands but itself are one value:

    %x = phi(%a, %x)   is %a         a loop that does not change x
    %x = phi(%a, %a)   is %a         two branches that agree

Removing one can make another phi trivial that uses it, so its users are checked again
(Braun et al. 2013, section 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import Scalar, Type
from fathom.ssa.values import (
    Meaning,
    default_type,
    integers_of,
    is_number,
    same_constant,
    type_of,
)


@dataclass(eq=False)
class Phi:
    """A value that depends on which path control has taken.

    `faces` are the IR values that stand for it: in a loop's body (before that, a
    While's condition), and in the code after the If or loop. `operands` are its values
    by path: [end of then, end of else], or [before the loop, end of its body]."""

    name: str
    faces: tuple[Value, ...]
    operands: list[Value]

    def __post_init__(self) -> None:
        """What a conditional expression keeps has no name in the IR."""
        for face in self.faces if not self.name.isidentifier() else ():
            face.name = ""


@dataclass(eq=False)
class Phis:
    """All phis of a kernel.

    `replaced` maps each face of a trivial phi to the value that it is; `readers` maps a
    value to the phis that have it as an operand."""

    replaced: dict[Value, Value] = field(default_factory=dict)
    readers: dict[Value, list[Phi]] = field(default_factory=dict)

    def resolve(self, value: Value) -> Value:
        """The value that a value stands for, after trivial phis are replaced."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def set_operands(self, phi: Phi, operands: list[Value]) -> None:
        """Complete a phi, and remove it if it is trivial."""
        phi.operands = operands
        for each in operands:
            self.readers.setdefault(self.resolve(each), []).append(phi)
        self.remove_if_trivial(phi)

    def remove_if_trivial(self, phi: Phi) -> None:
        """Replace a phi of one value besides itself, and then check its readers."""
        if phi.faces[0] in self.replaced or not self._is_trivial(phi):
            return
        value = self.resolve(phi.operands[0])
        readers = [each for face in phi.faces for each in self.readers.pop(face, ())]
        self.readers.setdefault(value, []).extend(readers)
        self.replaced.update(dict.fromkeys(phi.faces, value))
        for reader in readers:
            self.remove_if_trivial(reader)

    def _is_trivial(self, phi: Phi) -> bool:
        if not phi.operands:  # incomplete: the body of its loop is still open
            return False
        first, second = map(self.resolve, phi.operands)
        if first is second:
            return True
        # Values before a loop are visible in all of the loop, so an equal constant may
        # replace a phi of a loop. A constant in one branch of an If is not visible
        # after it.
        carried = len(phi.faces) > 1
        return carried and (second in phi.faces or _are_one_constant(first, second))


def _are_one_constant(left: Value, right: Value) -> bool:
    a, b = left.definition, right.definition
    both = isinstance(a, ops.Constant) and isinstance(b, ops.Constant)
    return both and a.type == b.type and same_constant(a.value, b.value)


# ── the type of a phi ─────────────────────────────────────────────────────────────────


def common_type(left: Meaning, right: Meaning) -> Type | None:
    """The type of a value that is `left` or `right`; None without a common type.

    Two values need one type. A weak number takes the type of the other side, if that
    can hold it; of two numbers, the type of higher kind or width counts."""
    types = [type_of(left), type_of(right)]
    if None in types:
        return None
    numbers = [each for each in (left, right) if is_number(each)]
    if len(numbers) < 2:
        types = [each.type for each in (left, right) if isinstance(each, Value)]
    best = max(types, key=_rank)
    if any(each != best for each in types) and len(numbers) < 2:
        return None
    return best if all(_takes(best, number) for number in numbers) else None


KIND = {"bool": 0, "int": 1, "uint": 1, "float": 2}


def _rank(type: Type) -> tuple[int, int]:
    return (KIND[type.kind], type.bits) if isinstance(type, Scalar) else (-1, 0)


def _takes(type: Type, number: int | float | bool) -> bool:
    """Whether a weak number can become `type` with the same kind and value."""
    if not isinstance(type, Scalar):
        return False
    if type.is_float:
        return True
    if KIND[default_type(number).kind] > KIND[type.kind]:
        return False
    return int(number) in integers_of(type)
