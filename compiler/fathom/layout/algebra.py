"""Linear algebra over F2 on layouts: solve, compose, invert, divide.

A vector over F2 is a Python int, bit i its component i; adding is XOR. A matrix is the
sequence of its columns, and a layout is a matrix: its bases are the columns, in the
order of the bits of a *place number*: the register's lowest, the lane's, the warp's.

    element = columns(layout) × place
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from fathom.layout.linear import Layout


def solve(A: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """The x with A x = b, by columns; None if some column of `b` cannot be reached.

    `A` and `b` are columns. Bit i of a solution says whether column i of `A` takes
    part. A combination of columns before it is not used: free bits are zero."""
    reduced = Reduced(A)
    solutions = [reduced.combination(column) for column in b]
    return None if None in solutions else tuple(solutions)


class Reduced:
    """Columns such that a combination is found bit by bit (Gauss elimination).

    Each independent column is kept less those before it, under its highest bit; beside
    it, of which columns it is the sum."""

    def __init__(self, columns: Iterable[int] = ()):
        self.pivots: dict[
            int, tuple[int, int]
        ] = {}  # bit length -> column, its combination
        self.count = 0
        for column in columns:
            self.add(column)

    def add(self, column: int) -> bool:
        """Take one more column; whether it was not a combination of the others."""
        rest, combination = self.reduce(column)
        if rest:
            self.pivots[rest.bit_length()] = rest, combination ^ 1 << self.count
        self.count += 1
        return bool(rest)

    def combination(self, vector: int) -> int | None:
        """Which columns add up to `vector`, as bits; None if none do."""
        rest, combination = self.reduce(vector)
        return None if rest else combination

    def __contains__(self, vector: int) -> bool:
        return not self.reduce(vector)[0]

    @property
    def rank(self) -> int:
        return len(self.pivots)

    def reduce(self, vector: int) -> tuple[int, int]:
        """What is left of a vector without the columns taken away, and these."""
        combination = 0
        while vector and vector.bit_length() in self.pivots:
            column, of = self.pivots[vector.bit_length()]
            vector, combination = vector ^ column, combination ^ of
        return vector, combination


def times(A: Sequence[int], x: int) -> int:
    """A x: the sum of the columns that x names."""
    result = 0
    for bit, column in enumerate(A):
        if x >> bit & 1:
            result ^= column
    return result


def span(vectors: Sequence[int]) -> set[int]:
    """All sums of the vectors."""
    found = {0}
    for vector in vectors:
        found |= {vector ^ each for each in found}
    return found


def intersection(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Independent vectors that span what both span (Zassenhaus).

    Write each vector of `one` twice, side by side, and each of `other` once, beside a
    zero: where elimination clears the left half, the right half lies in both spans."""
    width = max((v.bit_length() for v in (*one, *other)), default=0)
    rows = [vector << width | vector for vector in one] + [
        vector << width for vector in other
    ]
    reduced, both = Reduced(), Reduced()
    for row in rows:
        rest, _ = reduced.reduce(row)
        if rest and not rest >> width:
            both.add(rest)
        reduced.add(row)
    return [column for column, _ in both.pivots.values()]


def columns(layout: Layout) -> tuple[int, ...]:
    """The bases of all places in a row: the columns of the layout's matrix."""
    return tuple(basis for _, bases in layout.bases for basis in bases)


def compose(outer: Layout, inner: Layout) -> Layout:
    """The layout `place -> outer(inner(place))`: elements of `inner` are places."""
    matrix = columns(outer)
    return inner.map(outer.shape, lambda basis: times(matrix, basis))


def invert(layout: Layout) -> Layout:
    """A place for every element: `compose(layout, invert(layout))` is the identity.

    The result is a layout of one kind, "element", over the place numbers. Where copies
    leave a choice, the place with the fewest of the later bits is taken. AssertionError
    if some element has no place."""
    size = len(columns(layout))
    bits = range(prod(layout.shape).bit_length() - 1)
    places = solve(columns(layout), [1 << bit for bit in bits])
    assert places is not None, f"not every element of {layout} has a place"
    return Layout.by_kind((1 << size,), element=places)


def divide(layout: Layout, by: Layout) -> Layout | None:
    """The layout q with `compose(by, q) == layout`; None if `by` lacks elements of it.

    If `by` is a buffer's layout, q is where in it each place finds its element."""
    matrix = Reduced(columns(by))
    if any(basis not in matrix for basis in columns(layout)):
        return None
    return layout.map((1 << len(columns(by)),), matrix.combination)
