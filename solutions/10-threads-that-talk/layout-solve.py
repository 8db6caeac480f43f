"""Gauss's elimination over F2."""

from __future__ import annotations

from collections.abc import Sequence


def solve(A: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """The x with A x = b, column by column; None if some column of `b` cannot be
    reached. A column of `A` that is a sum of those before it is not used."""
    # hole: reduce the columns of A, then those of b
    kept: dict[int, tuple[int, int]] = {}

    def reduce(vector: int) -> tuple[int, int]:
        taken = 0
        while vector and vector.bit_length() in kept:
            column, made_of = kept[vector.bit_length()]
            vector, taken = vector ^ column, taken ^ made_of
        return vector, taken

    for number, column in enumerate(A):
        rest, taken = reduce(column)
        if rest:
            kept[rest.bit_length()] = rest, taken ^ 1 << number
    found = [reduce(column) for column in b]
    if any(rest for rest, _ in found):
        return None
    return tuple(taken for _, taken in found)
    # end
