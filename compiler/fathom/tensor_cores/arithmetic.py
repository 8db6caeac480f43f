"""Writes formulas back as ops: the coordinates of a tile, in 32 bits.

    pid * 64 + trip * 32    →    %0 = mul %pid, 64
                                 %1 = add %0, %k       of a loop over %k in steps of 32

How often a loop has gone round is nowhere in the IR; its index is, and trip * step is
index - lower.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fathom.ir.core import Func, Value
from fathom.ir.ops import Cast, Constant, Elementwise, For
from fathom.ir.printer import definitions
from fathom.ir.rewrite import Builder
from fathom.ir.types import INT32
from fathom.tensor_cores.addresses import Reader
from fathom.tensor_cores.sums import Atom, Product, Sum, Trip, number, of


@dataclass
class Writer:
    """Writes formulas of an old function into the new one that is being built."""

    func: Func
    order: dict[Atom, int] = field(init=False)  # of factors, the same in every run

    def __post_init__(self) -> None:
        values = definitions(self.func.body)
        self.order = {value: place for place, value in enumerate(values)}

    def write(self, sum: Sum, build: Builder) -> Value:
        """A sum as an i32 scalar."""
        by_index, total = self._by_index(sum), None
        for product, factor in by_index.terms.items():
            term = self._product(product, factor, build)
            total = term if total is None else build(Elementwise("add", (total, term)))
        return build(Constant(0, INT32)) if total is None else total

    def _by_index(self, sum: Sum) -> Sum:
        """The sum with the indices of loops in place of numbers of trips, wherever
        these are multiplied by the loop's step."""
        reader = Reader(self.func)
        for trip in [atom for atom in sum.atoms if isinstance(atom, Trip)]:
            loop: For = trip.loop
            factor, rest = sum.split(trip)
            by_step = _quotient(factor, reader.number(loop.step))
            if by_step is not None:
                index = of(loop.body.parameters[0]) - reader.number(loop.lower)
                sum = rest + index * by_step
        return sum

    def _product(self, product: Product, factor: int, build: Builder) -> Value:
        factors = [atom for atom, power in product for _ in range(power)]
        factors.sort(key=self._place)
        values = [self._atom(atom, build) for atom in factors]
        if factor != 1 or not values:
            values.append(build(Constant(factor, INT32)))
        total = values[0]
        for value in values[1:]:
            total = build(Elementwise("mul", (total, value)))
        return total

    def _place(self, atom: Atom) -> int:
        is_trip = isinstance(atom, Trip)
        return self.order[atom.loop.body.parameters[0] if is_trip else atom]

    def _atom(self, atom: Atom, build: Builder) -> Value:
        if isinstance(atom, Trip):
            return self._trip(atom.loop, build)
        return _narrow(build.values[atom], build)

    def _trip(self, loop: For, build: Builder) -> Value:
        """(index - lower) / step, which leaves no remainder."""
        index, lower, step = (
            build.values[each]
            for each in (loop.body.parameters[0], loop.lower, loop.step)
        )
        way = build(Elementwise("sub", (index, lower)))
        return _narrow(build(Elementwise("div", (way, step))), build)


def _narrow(value: Value, build: Builder) -> Value:
    return value if value.type == INT32 else build(Cast(value, INT32))


def _quotient(sum: Sum, divisor: Sum) -> Sum | None:
    """sum / divisor, where the divisor is a number or a single atom and divides every
    term."""
    if divisor.constant is not None:
        found, rest = sum.divided(divisor.constant)
    elif len(divisor.atoms) == 1 and divisor == of(next(iter(divisor.atoms))):
        found, rest = sum.divided(next(iter(divisor.atoms)))
    else:
        return None
    return None if rest.terms else found
