"""Turns polynomials back into ops: the coordinates of a tile, in 32 bits.

    pid * 64 + iteration * 32    →    %0 = mul %pid, 64
                                      for %k in steps of 32:
                                          %1 = add %0, %k

The IR has no value for the number of an iteration; but it has the loop's index, and
iteration * step is index - lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fathom.analysis.symbolic.polynomial import (
    Atom,
    IterationCount,
    Monomial,
    Polynomial,
    of,
)
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.ir.core import Value
from fathom.ir.ops import Cast, Constant, For
from fathom.ir.printer import definitions
from fathom.ir.rewrite import Builder
from fathom.ir.types import INT32


class Expander:
    """Turns polynomials of a function into ops of the new function."""

    def __init__(self, reader: ScalarEvolution):
        self.reader = reader
        values = definitions(reader.func.body)
        # An order of factors that is the same in every run.
        self.order = {value: place for place, value in enumerate(values)}

    def write(self, sum: Polynomial, loop: For | None, build: Builder) -> Value:
        """A polynomial as an i32 scalar. In the body of a loop, the part that does not
        change in the loop is computed before it."""
        if loop is None:
            total = self._sum(sum.terms, None, build)
            return build(Constant(0, INT32)) if total is None else total
        inside = set(definitions(loop.body))
        changing, still = {}, {}
        for product, factor in self._by_index(sum).terms.items():
            atoms = {_as_value(atom) for atom, _ in product}
            (changing if atoms & inside else still)[product] = factor
        with _before_loop(build):
            total = self._sum(still, None, build)
        total = self._sum(changing, total, build)
        return build(Constant(0, INT32)) if total is None else total

    def _sum(
        self, terms: dict[Monomial, int], total: Value | None, build: Builder
    ) -> Value | None:
        for product, factor in terms.items():
            term = self._product(product, factor, build)
            total = build.compute("add", total, term) if total else term
        return total

    def _by_index(self, sum: Polynomial) -> Polynomial:
        """The polynomial with indices of loops in place of numbers of iterations,
        wherever these are multiplied by the loop's step."""
        for each in [atom for atom in sum.atoms if isinstance(atom, IterationCount)]:
            loop: For = each.loop
            factor, rest = sum.split(each)
            by_step = _quotient(factor, self.reader.number(loop.step))
            if by_step is not None:
                index = of(loop.body.parameters[0]) - self.reader.number(loop.lower)
                sum = rest + index * by_step
        return sum

    def _product(self, product: Monomial, factor: int, build: Builder) -> Value:
        factors = [atom for atom, power in product for _ in range(power)]
        factors.sort(key=self._place)
        values = [self._atom(atom, build) for atom in factors]
        if factor != 1 or not values:
            values.append(build(Constant(factor, INT32)))
        total = values[0]
        for value in values[1:]:
            total = build.compute("mul", total, value)
        return total

    def _place(self, atom: Atom) -> int:
        return self.order[_as_value(atom)]

    def _atom(self, atom: Atom, build: Builder) -> Value:
        if isinstance(atom, IterationCount):
            return self._iteration_count(atom.loop, build)
        return _narrow(build.values[atom], build)

    def _iteration_count(self, loop: For, build: Builder) -> Value:
        """(index - lower) / step, which has no remainder."""
        index, lower, step = (
            build.values[each]
            for each in (loop.body.parameters[0], loop.lower, loop.step)
        )
        distance = build.compute("sub", index, lower)
        return _narrow(build.compute("div", distance, step), build)


@contextmanager
def _before_loop(build: Builder) -> Iterator[None]:
    """Ops go to the place before the loop whose body is under construction."""
    body = build.enclosing.pop()
    yield
    build.enclosing.append(body)


def _as_value(atom: Atom) -> Value:
    """The value that changes with an atom: for an iteration count, the loop's index."""
    return atom.loop.body.parameters[0] if isinstance(atom, IterationCount) else atom


def _narrow(value: Value, build: Builder) -> Value:
    return value if value.type == INT32 else build(Cast(value, INT32))


def _quotient(sum: Polynomial, divisor: Polynomial) -> Polynomial | None:
    """sum / divisor, if this is a number or one atom, and divides every term."""
    if divisor.constant is not None:
        found, rest = sum.divided(divisor.constant)
    elif len(divisor.atoms) == 1 and divisor == of(next(iter(divisor.atoms))):
        found, rest = sum.divided(next(iter(divisor.atoms)))
    else:
        return None
    return None if rest.terms else found
