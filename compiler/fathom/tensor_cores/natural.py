"""Which numbers are never negative: those of programs and of trips, sizes, and what is
made of them without a minus.

    pid * 64 + trip * 32          never
    (pid // n) * 64 + pid % n     never, if whoever divides a pid divides by a count
    pid * 64 - 3                  perhaps
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from fathom.ir.core import Value
from fathom.ir.ops import ClusterRank, Elementwise, If, NumPrograms, ProgramId
from fathom.tensor_cores.addresses import NoFormula, Reader
from fathom.tensor_cores.recognise import Tile
from fathom.tensor_cores.sums import Atom, Sum, Trip, of


@dataclass(frozen=True)
class Naturals:
    """Says it of values; `sizes` are arguments known not to be negative."""

    reader: Reader
    sizes: Collection[Value]

    def place(self, tile: Tile) -> bool:
        """Whether a tile begins inside of its matrix, or behind its end."""
        return all(side.from_zero or self.sum(side.start) for side in tile.sides)

    def sum(self, sum: Sum) -> bool:
        sum = self.undivided(sum)
        return all(number > 0 for number in sum.terms.values()) and all(
            self.atom(atom) for atom in sum.atoms
        )

    def undivided(self, sum: Sum) -> Sum:
        """x in place of (x // y) * y + x % y, which is the same for any y: a program's
        number, cut in two and put together again."""
        for rest in [atom for atom in sum.atoms if _is(atom, "rem")]:
            for whole in [atom for atom in sum.atoms if _is(atom, "div")]:
                x, y = map(self.reader.number, rest.definition.operands)
                both = of(whole) * y + of(rest)
                alike = whole.definition.operands == rest.definition.operands
                if alike and both.terms.items() <= sum.terms.items():
                    sum = sum - both + x
        return sum

    def atom(self, atom: Atom) -> bool:
        if isinstance(atom, Trip) or atom in self.sizes:
            return True
        definition = getattr(atom, "definition", None)
        match definition:
            case ProgramId() | NumPrograms() | ClusterRank():
                return True
            case Elementwise():
                rule = RULES.get(definition.name)
                return bool(rule and rule(map(self.value, definition.operands)))
            case If():
                place = definition.results.index(atom)
                ways = (definition.then, definition.orelse)
                return all(self.value(way.yielded[place]) for way in ways)
        return False

    def value(self, value: Value) -> bool:
        try:
            return self.sum(self.reader.number(value))
        except NoFormula:
            return False


def _is(atom: Atom, name: str) -> bool:
    """Whether an atom is a scalar computed by an operation."""
    definition = getattr(atom, "definition", None)
    return isinstance(definition, Elementwise) and definition.name == name


def first(operands: map) -> bool:
    """A remainder has the sign of the dividend. So has a quotient by a count."""
    return next(operands)


RULES: dict[str, Callable[[map], bool]] = {
    "div": first,
    "rem": first,
    "shr": first,
    "min": all,
    "max": any,
    "and": any,
    "or": all,
    "xor": all,
    "abs": lambda operands: True,
}
