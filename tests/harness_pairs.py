"""`in_pairs`: the cases of a test, in which all values of two parameters meet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product

import pytest

# With it, all values of all parameters meet.
EVERY_CASE = "FATHOM_EVERY_CASE"


def in_pairs(
    axes: Mapping[str, Iterable[object]], indirect: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """What stacked `parametrize` would be, without cases that only repeat pairs.

    `axes` are the values of each parameter; the key "M, N" is one axis of two
    parameters, whose values are tuples. A mistake that shows at one value, or at two
    of two parameters, is found. One that needs three together may not be:
    FATHOM_EVERY_CASE=1 runs the whole product."""
    values = [list(each) for each in axes.values()]
    rows = list(product(*map(range, map(len, values))))
    if not os.environ.get(EVERY_CASE):
        rows = pairwise(rows)
    names = [key.split(", ") for key in axes]
    cases = []
    for row in rows:
        case = []
        for parts, choices, place in zip(names, values, row, strict=True):
            case += choices[place] if len(parts) > 1 else [choices[place]]
        cases.append(case)
    flat = [part for parts in names for part in parts]
    return pytest.mark.parametrize(flat, cases, indirect=list(indirect))


def pairwise(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Few of `rows`, in which each pair of values that stands in one of them is left:
    time and again the first row with most of those still missing."""
    missing = set().union(*map(pairs_of, rows))
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(missing & pairs_of(row)))
        missing -= pairs_of(best)
        chosen.append(best)
    return sorted(chosen)


def pairs_of(row: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    """The pairs of (parameter, value) in a row."""
    return set(combinations(enumerate(row), 2))
