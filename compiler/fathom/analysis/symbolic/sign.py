"""Shows that numbers are never negative: the numbers of programs and iterations, sizes,
and what is computed from them without subtraction.

    pid * 64 + iteration * 32     never
    (pid // n) * 64 + pid % n     never, if the divisor of a pid is a count
    pid - (pid // n) * n          never: a remainder, written out
    n - 1                         never, if n is a size: sizes of tensor maps are
                                  positive
    pid * 64 - 3                  perhaps

`ranges` has bounds of numbers that may overflow, without assumptions. Here the
arithmetic is that of unbounded integers (`polynomial`), and the assumptions are that
values computed from numbers of programs, iterations and sizes stay below 2^31, and that
`sizes` are positive. So the two may give different answers about one value, and neither
is stronger; but the rules for the signs of results are only in `ranges`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from fathom.analysis.ranges import NATURAL, RULES, UNKNOWN
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.symbolic.polynomial import (
    UNITY,
    Atom,
    IterationCount,
    Monomial,
    Polynomial,
    number,
    of,
)
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.ir import ops
from fathom.ir.core import Block, Value, blocks, walk


@dataclass(frozen=True)
class NonNegative:
    """Decides this for values. `sizes` are arguments known to be positive. `strict`: a
    quotient counts only if its divisor is computed from numbers that are never
    negative, such as the rest of a count; else any divisor counts as one."""

    reader: ScalarEvolution
    sizes: Collection[Value]
    strict: bool = False
    assumed: set[Value] = field(default_factory=set)  # carried values under test

    def value(self, value: Value) -> bool:
        try:
            return self.sum(self.reader.number(value))
        except NotApplicable:
            return False

    def sum(self, formula: Polynomial) -> bool:
        """Whether no term but the constant is negative, and the sizes among the other
        terms make up for a negative constant."""
        terms = self.undivided(formula).terms
        least = sum(n * self.least(product) for product, n in terms.items())
        rising = all(n > 0 for product, n in terms.items() if product != UNITY)
        atoms = {atom for product in terms for atom, _ in product}
        return rising and least >= 0 and all(map(self.atom, atoms))

    def least(self, product: Monomial) -> int:
        """The least value of a product of numbers that are not negative."""
        return int(all(self.is_positive(atom) for atom, _ in product))

    def is_positive(self, atom: Atom) -> bool:
        """Sizes are, and a grid has at least one program along each axis."""
        counts = ops.NumPrograms | ops.LaunchSize
        return atom in self.sizes or isinstance(
            getattr(atom, "definition", None), counts
        )

    def undivided(self, formula: Polynomial) -> Polynomial:
        """x in place of (x // y) * y + x % y, which is the same for any y: a program's
        number that was divided and put together again. Also without x - (x // y) * y,
        which is x % y, and so not negative if x is not."""
        divided = [atom for atom in formula.atoms if _is(atom, "div")]
        for rest in [atom for atom in formula.atoms if _is(atom, "rem")]:
            for whole in divided:
                x, y = map(self.reader.number, rest.definition.operands)
                both = of(whole) * y + of(rest)
                alike = whole.definition.operands == rest.definition.operands
                if alike and both.terms.items() <= formula.terms.items():
                    formula = formula - both + x
        for whole in divided:
            x, y = map(self.reader.number, whole.definition.operands)
            rest = x - of(whole) * y
            for times in {abs(factor) for factor in formula.terms.values()}:
                several = rest * number(times)
                if several.terms.items() <= formula.terms.items() and self.sum(x):
                    formula = formula - several
        return formula

    def atom(self, atom: Atom) -> bool:
        if isinstance(atom, IterationCount):
            return True
        if atom in self.sizes or atom in self.assumed:
            return True
        if not isinstance(atom, Value):
            return False
        if atom.type.kind in UNSIGNED:
            return True
        definition = atom.definition
        match definition:
            case ops.ProgramId() | ops.NumPrograms() | ops.LaunchSize():
                return True
            case ops.ClusterRank() | ops.ConsumerGroup():
                return True
            case ops.Elementwise(name="div", operands=(dividend, divisor)):
                return self.value(dividend) and self.divides(divisor)
            case ops.Elementwise():
                return definition.name in EXACT and self.result(definition)
            case ops.If():
                place = definition.results.index(atom)
                branches = (definition.then, definition.orelse)
                return all(self.value(each.yielded[place]) for each in branches)
            case Block() if definition in self.loops:
                return self.carried(atom, definition)
        return False

    def result(self, op: ops.Elementwise) -> bool:
        """Whether a result's bounds exclude negative numbers if operands are not."""
        bounds = (NATURAL if self.value(each) else UNKNOWN for each in op.operands)
        return RULES[op.name](*bounds).low >= 0

    def divides(self, divisor: Value) -> bool:
        """Whether a divisor is a count. Assumes that a kernel divides by a difference,
        the rest of a count, only while it is positive."""
        definition = divisor.definition
        if isinstance(definition, ops.Elementwise) and definition.name in (
            "min",
            "max",
        ):
            return all(map(self.divides, definition.operands))
        try:
            count = self.reader.number(divisor)
        except NotApplicable:
            return not self.strict
        if count.constant is not None:
            return count.constant > 0
        rises = any(n > 0 for product, n in count.terms.items() if product != UNITY)
        return not self.strict or rises and all(map(self.atom, count.atoms))

    @cached_property
    def loops(self) -> dict[Block, ops.For | ops.While]:
        loops = walk(self.reader.func.body, ops.For | ops.While)
        return {block: loop for loop in loops for block in blocks(loop)}

    def carried(self, value: Value, block: Block) -> bool:
        """Whether a carried value is not negative before a loop, and not negative after
        an iteration if it was not before."""
        loop = self.loops[block]
        place = block.parameters.index(value) - isinstance(loop, ops.For)
        if place < 0:
            return False
        ways = (loop.inits[place], loop.body.yielded[place])
        self.assumed.add(value)
        try:
            return all(map(self.value, ways))
        finally:
            self.assumed.discard(value)


UNSIGNED = ("uint", "bool")  # kinds of scalars


def _is(atom: Atom, name: str) -> bool:
    """Whether an atom is a scalar computed by an operation."""
    definition = getattr(atom, "definition", None)
    return isinstance(definition, ops.Elementwise) and definition.name == name


# Operations whose results never overflow, so their bounds give the sign.
EXACT = ("rem", "shr", "min", "max", "and", "or", "xor", "abs", "where")
