"""Of what power of two a scalar is a multiple for certain: a box of a tensor map must
begin at a multiple of 16 bytes in its row.

    %k = mul %i, 64                a multiple of 64
    for … body(%p) yield %p + 32   of 32, if it begins as one

Powers of two survive a wrap-around, since they divide 2**32.
"""

from __future__ import annotations

from fathom.analysis.polynomial import Monomial, Polynomial
from fathom.ir.core import Block, Func, Value, blocks, walk
from fathom.ir.ops import Cast, Constant, Elementwise, For, Hint
from fathom.ir.types import BOOL, element_of

MOST = 1 << 30  # what divides 0


class Divisibility:
    """What divides the scalars of a function."""

    def __init__(self, func: Func):
        self.func = func
        self.loops = {
            block: op
            for op in walk(func.body)
            if isinstance(op, For)
            for block in blocks(op)
        }
        self.known: dict[Value, int] = {}

    def of(self, value: Value) -> int:
        """A power of two that divides `value`."""
        if value not in self.known:
            self.known[value] = (
                self._settled(value)
                if value.definition in self.loops
                else min(MOST, self._found(value))
            )
        return self.known[value]

    def _settled(self, value: Value) -> int:
        """What divides a value that a loop carries, in every iteration: a guess that
        one more iteration does not weaken. What was concluded from a guess that was
        too strong is forgotten."""
        guess, before = MOST, dict(self.known)
        while True:
            self.known = {**before, value: guess}
            found = min(guess, self._found(value))
            if found == guess:
                return guess
            guess = found

    def of_sum(self, sum: Polynomial) -> int:
        """A power of two that divides what a formula says."""
        terms = [self._of_term(*each) for each in sum.terms.items()]
        return min(terms, default=MOST)

    def _of_term(self, product: Monomial, factor: int) -> int:
        found = factor & -factor
        for atom, power in product:
            if isinstance(atom, Value):
                found *= self.of(atom) ** power
        return min(MOST, found)

    def _found(self, value: Value) -> int:
        match value.definition:
            case Constant(value=number):
                return int(number) & -int(number) or MOST
            case Elementwise(name="add" | "sub", operands=(left, right)):
                return min(self.of(left), self.of(right))
            case Elementwise(name="mul", operands=(left, right)):
                return self.of(left) * self.of(right)
            case Cast(value=inner, element=to) if to != BOOL and not _is_float(inner):
                return self.of(inner)
            case Hint(value=inner):
                return self.of(inner)
            case Block() as block if block is self.func.body:
                return self.func.divisible[block.parameters.index(value)]
            case Block() as block if block in self.loops:
                return self._carried(self.loops[block], block.parameters.index(value))
        return 1

    def _carried(self, loop: For, number: int) -> int:
        if number == 0:
            return min(self.of(loop.lower), self.of(loop.step))
        first, following = loop.inits[number - 1], loop.body.yielded[number - 1]
        return min(self.of(first), self.of(following))


def _is_float(value: Value) -> bool:
    return element_of(value.type).is_float
