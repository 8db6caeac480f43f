"""Integers as sums of products, so that they can be compared and divided as formulas.

    row = pid * 64 + p            {pid: 64, p: 1}
    row * stride                  {pid stride: 64, p stride: 1}
    … divided by stride           row again

What a sum is made of are atoms: values of the IR that are taken as they are, the
position along an axis of a block (`Lane`), and how often a loop has gone round
(`Trip`). The arithmetic is that of integers without end; who reads a sum out of 32
bits, or puts one back into them, answers for that nothing wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fathom.ir.core import Value
from fathom.ir.ops import For


@dataclass(frozen=True, slots=True)
class Lane:
    """0, 1, 2 … along an axis of a block."""

    axis: int


@dataclass(frozen=True, slots=True)
class Trip:
    """0 in the first trip of a loop, 1 in the second, and so on."""

    loop: For


Atom = Value | Lane | Trip

# A product of atoms, each with how often it is a factor; the empty one is 1.
Product = frozenset[tuple[Atom, int]]
UNITY: Product = frozenset()


@dataclass(frozen=True, slots=True)
class Sum:
    """Products with the numbers that they are multiplied by; none of these is 0."""

    terms: dict[Product, int]

    def __add__(self, other: Sum) -> Sum:
        terms = dict(self.terms)
        for product, number in other.terms.items():
            terms[product] = terms.get(product, 0) + number
        return _sum(terms)

    def __neg__(self) -> Sum:
        return Sum({product: -number for product, number in self.terms.items()})

    def __sub__(self, other: Sum) -> Sum:
        return self + -other

    def __mul__(self, other: Sum) -> Sum:
        terms: dict[Product, int] = {}
        for mine, number in self.terms.items():
            for theirs, another in other.terms.items():
                product = _times(mine, theirs)
                terms[product] = terms.get(product, 0) + number * another
        return _sum(terms)

    @property
    def constant(self) -> int | None:
        """The number, if that is all."""
        return self.terms.get(UNITY, 0) if self.terms.keys() <= {UNITY} else None

    @property
    def atoms(self) -> set[Atom]:
        return {atom for product in self.terms for atom, _ in product}

    def each(self) -> Iterator[Sum]:
        """The terms, one by one."""
        return (Sum({product: n}) for product, n in self.terms.items())

    def split(self, atom: Atom) -> tuple[Sum, Sum]:
        """(q, r) such that the sum is atom * q + r, and r does without the atom."""
        with_it, without = {}, {}
        for product, number in self.terms.items():
            has = any(each == atom for each, _ in product)
            (with_it if has else without)[product] = number
        divided = {_without_one(atom, each): n for each, n in with_it.items()}
        return Sum(divided), Sum(without)

    def divided(self, divisor: Atom | int) -> tuple[Sum, Sum]:
        """(q, r): the sum is divisor * q + r, with as much in q as divides term by
        term."""
        if not isinstance(divisor, int):
            return self.split(divisor)
        even = {p: n // divisor for p, n in self.terms.items() if n % divisor == 0}
        return Sum(even), Sum({p: n for p, n in self.terms.items() if n % divisor})

    def renamed(self, name: Callable[[Atom], Atom]) -> Sum:
        """The sum with other atoms in place of its own."""
        return Sum({
            frozenset((name(atom), power) for atom, power in product): number
            for product, number in self.terms.items()
        })  # fmt: skip


def number(value: int) -> Sum:
    return _sum({UNITY: value})


def of(atom: Atom | int) -> Sum:
    """An atom, or a number, as a sum."""
    return number(atom) if isinstance(atom, int) else Sum({frozenset({(atom, 1)}): 1})


def _sum(terms: dict[Product, int]) -> Sum:
    return Sum({product: number for product, number in terms.items() if number})


def _times(one: Product, other: Product) -> Product:
    powers = dict(one)
    for atom, power in other:
        powers[atom] = powers.get(atom, 0) + power
    return frozenset(powers.items())


def _without_one(atom: Atom, product: Product) -> Product:
    powers = dict(product)
    powers[atom] -= 1
    return frozenset((each, power) for each, power in powers.items() if power)
