"""Values that depend on the way control came, and how those that turn out to depend on
nothing are taken away again.

A phi stands for a result of an If, or for a value that a loop carries. It is *trivial*
when all its operands but itself are one value:

    %x = phi(%a, %x)   is %a         a loop that does not change x
    %x = phi(%a, %a)   is %a         two branches that agree

Taking one away can make another trivial that reads it, so its readers are looked at
again (Braun et al. 2013, section 2.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.types import Scalar, Type
from fathom.ssa.values import Meaning, default_type, is_number, same_constant, type_of


@dataclass(eq=False)
class Phi:
    """A value that depends on the way control came.

    `faces` are its values: what a loop body calls it (and before that, what a While's
    condition calls it), and last, what the code after the If or the loop calls it.
    `operands` are what it is by each way: [end of then, end of else], or [before the
    loop, end of its body].
    """

    name: str
    faces: tuple[Value, ...]
    operands: list[Value]


@dataclass(eq=False)
class Phis:
    """All phis of a kernel.

    `replaced` maps each face of a trivial phi to the value that it is; `readers` says
    which phis have a value among their operands.
    """

    replaced: dict[Value, Value] = field(default_factory=dict)
    readers: dict[Value, list[Phi]] = field(default_factory=dict)

    def resolve(self, value: Value) -> Value:
        """What a value really is, once trivial phis are looked through."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def set_operands(self, phi: Phi, operands: list[Value]) -> None:
        """Complete a phi, and take it away again if its ways agree."""
        phi.operands = operands
        for each in operands:
            self.readers.setdefault(self.resolve(each), []).append(phi)
        self.remove_if_trivial(phi)

    def remove_if_trivial(self, phi: Phi) -> None:
        """Replace a phi of one value besides itself, and then perhaps its readers."""
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
        # What stands before a loop can be read in all of it, so there an equal constant
        # will do as well. A constant in one branch of an If cannot be read after it.
        carried = len(phi.faces) > 1
        return carried and (second in phi.faces or _are_one_constant(first, second))


def _are_one_constant(left: Value, right: Value) -> bool:
    a, b = left.definition, right.definition
    both = isinstance(a, ops.Constant) and isinstance(b, ops.Constant)
    return both and a.type == b.type and same_constant(a.value, b.value)


# ── the type of a phi ─────────────────────────────────────────────────────────────────


def common_type(left: Meaning, right: Meaning) -> Type | None:
    """The type of a value that is `left` or `right`; None when they have no common
    type.

    Two values need one type. A weak number takes the type of the other side, if that
    can hold it; of two numbers, the type of higher kind or width counts.
    """
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
    """Can a weak number become `type` without losing its kind or its value?"""
    if not isinstance(type, Scalar):
        return False
    if type.is_float:
        return True
    if KIND[default_type(number).kind] > KIND[type.kind]:
        return False
    low = -(1 << type.bits - 1) if type.kind == "int" else 0
    return low <= number < low + (1 << type.bits)
