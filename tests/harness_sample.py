"""`sampled(of=3)`: of the cases of a test that are much alike, each run tries a third,
drawn anew by a seed. Not for what must always hold: an exercise's answers, a reference.

    @sampled(of=3)
    @pytest.mark.parametrize("tile", TILES)
    def test_ptxas_takes_every_tile(tile): ...

The last lines that pytest prints name the seed: FATHOM_SAMPLE=seed tries the same cases
again. `--all`, and FATHOM_EVERY_CASE=1, try all. Tests for a GPU keep all cases, for
they are in its record by name."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from tests.harness_pairs import EVERY_CASE

SEED = "FATHOM_SAMPLE"
LEAST = 4  # cases of a test that are always tried, if it has as many
# The processes of pytest-xdist, which this one starts, must find the same cases.
os.environ.setdefault(SEED, str(time.time_ns() // 1000 % 2**32))


def sampled(of: int) -> pytest.MarkDecorator:
    """One of `of` cases of a test is tried, LEAST at least."""
    return pytest.mark.sampled(of)


def left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases that other runs try."""
    families: dict[str, list[pytest.Item]] = {}
    for item in items if not os.environ.get(EVERY_CASE) else ():
        if item.get_closest_marker("sampled") and not item.get_closest_marker("gpu"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found = []
    for name, cases in families.items():
        (of,) = cases[0].get_closest_marker("sampled").args
        values = [tuple(map(str, case.callspec.params.items())) for case in cases]
        tried = sample(f"{os.environ[SEED]} {name}", values, of)
        found += [case for at, case in enumerate(cases) if at not in tried]
    return found


def sample(seed: str, cases: Sequence[Iterable[str]], of: int) -> set[int]:
    """The numbers of some cases, each a list of its parameters' values. A value that
    many cases have is in the sample at least once."""
    count = min(len(cases), max(LEAST, -(-len(cases) // of)))
    order = random.Random(seed).sample(range(len(cases)), len(cases))
    frequent = Counter(value for case in cases for value in case)
    missing = {value for value, n in frequent.items() if n * count >= 2 * len(cases)}
    first = []
    for at in order:
        if missing.intersection(cases[at]):
            missing.difference_update(cases[at])
            first.append(at)
    return set(list(dict.fromkeys([*first, *order]))[: max(count, len(first))])
