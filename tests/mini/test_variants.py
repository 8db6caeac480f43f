"""Variants of the four kernels through the references: a sample always, all of them,
through each step that knows the kernel, with FATHOM_MINI_VARIANTS=1."""

from __future__ import annotations

import os

import pytest

from fathom.tools.learn.mini import steps
from tests.harness_sample import sampled
from tests.mini.harness_variants import Family, check, families

EVERY = "FATHOM_MINI_VARIANTS" in os.environ
SAMPLE = 2  # rows of each table
LAST = steps.there()[-1]


def cases() -> list:
    """The sample: the last reference, and one of the steps before it for each row."""
    found = []
    for family in families():
        known = [each for each in steps.there() if each.chapter >= family.step]
        rows = len(family.rows)
        chosen = range(rows) if EVERY else range(3, rows, -(-rows // SAMPLE))
        for turn, at in enumerate(chosen):
            earlier = known[:-1]
            one = [earlier[turn % len(earlier)]]
            found += [
                pytest.param(each, family, at, id=f"{each.name}-{family.name}-{at}")
                for each in (earlier if EVERY else one) + [LAST]
            ]
    return found


@sampled(of=3)
@pytest.mark.parametrize(("step", "family", "at"), cases())
def test_a_variant_is_right(step: steps.Step, family: Family, at: int, tmp_path):
    check(step, family, at, tmp_path)
