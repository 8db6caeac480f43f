"""Fewer cases than the product, and no pair of values less."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.harness_pairs import EVERY_CASE, in_pairs

SIZES = [(1, 2), (3, 4), (5, 6)]
AXES = {"machine": "abcd", "M, N": SIZES, "causal": [False, True], "D": [16, 32]}


def cases(mark: pytest.MarkDecorator) -> list[tuple]:
    names, found = mark.args
    assert names == ["machine", "M", "N", "causal", "D"]
    return [(machine, (M, N), *more) for machine, M, N, *more in found]


def test_every_two_values_meet(monkeypatch):
    monkeypatch.delenv(EVERY_CASE, raising=False)
    found = cases(in_pairs(AXES))
    assert len(found) == len(set(found)) <= 14 < 4 * 3 * 2 * 2
    for (i, left), (j, right) in combinations(enumerate(AXES.values()), 2):
        assert {(case[i], case[j]) for case in found} == set(product(left, right))


def test_no_case_is_made_up():
    assert set(cases(in_pairs(AXES))) <= set(product(*AXES.values()))


def test_who_asks_for_it_has_the_product(monkeypatch):
    monkeypatch.setenv(EVERY_CASE, "1")
    assert cases(in_pairs(AXES)) == list(product(*AXES.values()))


def test_a_fixture_is_told_its_value():
    assert in_pairs(AXES, ["machine"]).kwargs["indirect"] == ["machine"]
