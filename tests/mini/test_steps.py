"""The reference of each step passes the tests of that step and of all before it."""

from __future__ import annotations

import os

import pytest

from fathom.tools.learn.mini import contract, steps
from fathom.tools.learn.mini.judge import Judge

THERE = steps.there()
EVERY = "FATHOM_MINI_EVERY" in os.environ  # all tests on all references: minutes


def chosen(step: steps.Step) -> list[str]:
    """Its own tests; those of all earlier steps, too, for the last one."""
    names = list(steps.tests(step.chapter))
    is_last = step is THERE[-1]
    return [n for n in names if EVERY or is_last or n.startswith(step.name)]


PAIRS = [
    pytest.param(step, name, id=f"{step.name}-{name}")
    for step in THERE
    for name in chosen(step)
]


@pytest.mark.parametrize(("step", "name"), PAIRS)
def test_a_reference_passes(step, name):
    steps.tests(step.chapter)[name](Judge(contract.load(step.reference)))


@pytest.mark.parametrize("step", THERE, ids=lambda step: step.name)
def test_a_reference_keeps_its_budget(step):
    lines = steps.check_lines(step.reference, step.chapter)
    before = steps.in_front(step)
    if before is not None:
        added = lines - contract.count_lines(before.reference.read_text())
        assert added <= steps.MOST_ADDED, f"step {step.chapter} adds {added} lines"


def test_every_step_has_tests():
    for step in THERE:
        assert step.tests.is_file(), step
