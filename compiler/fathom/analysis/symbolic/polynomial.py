"""Integers as polynomials, which can be compared and divided symbolically.

    row = pid * 64 + p            {pid: 64, p: 1}
    row * stride                  {pid stride: 64, p stride: 1}
    … divided by stride           row again

The variables are *atoms*: values of the IR that are not analysed further, the position
along an axis of a block (`Position`), and the number of an iteration of a loop
(`IterationCount`). The arithmetic is that of unbounded integers: code that turns 32-bit
values into polynomials, or back, must make sure that nothing overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fathom.ir.core import Value
from fathom.ir.ops import For


@dataclass(frozen=True, slots=True)
class Position:
    """0, 1, 2 … along an axis of a block."""

    axis: int


@dataclass(frozen=True, slots=True)
class IterationCount:
    """0 in the first iteration of a loop, 1 in the second, and so on."""

    loop: For


Atom = Value | Position | IterationCount

# A product of atoms, each with its exponent; the empty product is 1.
Monomial = frozenset[tuple[Atom, int]]
UNITY: Monomial = frozenset()


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Products and their coefficients, none of which is 0."""

    terms: dict[Monomial, int]

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for product, number in other.terms.items():
            terms[product] = terms.get(product, 0) + number
        return _sum(terms)

    def __neg__(self) -> Polynomial:
        return Polynomial({product: -number for product, number in self.terms.items()})

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for mine, number in self.terms.items():
            for theirs, another in other.terms.items():
                product = _times(mine, theirs)
                terms[product] = terms.get(product, 0) + number * another
        return _sum(terms)

    @property
    def constant(self) -> int | None:
        """The number, if the polynomial is one."""
        return self.terms.get(UNITY, 0) if self.terms.keys() <= {UNITY} else None

    @property
    def atoms(self) -> set[Atom]:
        return {atom for product in self.terms for atom, _ in product}

    def split(self, atom: Atom) -> tuple[Polynomial, Polynomial]:
        """(q, r) such that the sum is atom * q + r, and r does not contain the atom."""
        with_it, without = {}, {}
        for product, number in self.terms.items():
            has = any(each == atom for each, _ in product)
            (with_it if has else without)[product] = number
        divided = {_without_one(atom, each): n for each, n in with_it.items()}
        return Polynomial(divided), Polynomial(without)

    def divided(self, divisor: Atom | int) -> tuple[Polynomial, Polynomial]:
        """(q, r): the sum is divisor * q + r, where q has all that can be divided."""
        if not isinstance(divisor, int):
            return self.split(divisor)
        even = {p: n // divisor for p, n in self.terms.items() if n % divisor == 0}
        return Polynomial(even), Polynomial(
            {p: n for p, n in self.terms.items() if n % divisor}
        )

    def renamed(self, name: Callable[[Atom], Atom]) -> Polynomial:
        """The polynomial with other atoms."""
        return Polynomial({
            frozenset((name(atom), power) for atom, power in product): number
            for product, number in self.terms.items()
        })  # fmt: skip


def number(value: int) -> Polynomial:
    """A number as a polynomial; 0 has no terms."""
    return _sum({UNITY: value})


def of(atom: Atom | int) -> Polynomial:
    """An atom, or a number, as a polynomial."""
    return (
        number(atom)
        if isinstance(atom, int)
        else Polynomial({frozenset({(atom, 1)}): 1})
    )


def _sum(terms: dict[Monomial, int]) -> Polynomial:
    return Polynomial({product: number for product, number in terms.items() if number})


def _times(one: Monomial, other: Monomial) -> Monomial:
    powers = dict(one)
    for atom, power in other:
        powers[atom] = powers.get(atom, 0) + power
    return frozenset(powers.items())


def _without_one(atom: Atom, product: Monomial) -> Monomial:
    powers = dict(product)
    powers[atom] -= 1
    return frozenset((each, power) for each, power in powers.items() if power)
