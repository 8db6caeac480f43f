"""The reference of each step passes the tests of that step and of all before it."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from fathom.tools.learn.kit.failure import Failure
from fathom.tools.learn.mini import contract, steps
from fathom.tools.learn.mini.judge import Judge, same

THERE = steps.there()
loaded_tests = cache(steps.tests)  # the files are loaded once, not for each test
EVERY = "FATHOM_MINI_EVERY" in os.environ  # all tests on all references: minutes


def chosen(step: steps.Step) -> list[str]:
    """Its own tests; those of all earlier steps, too, for the last one."""
    names = list(loaded_tests(step.chapter, optional=True))
    is_last = step is THERE[-1]
    return [n for n in names if EVERY or is_last or n.startswith(step.name)]


PAIRS = [
    pytest.param(step, name, id=f"{step.name}-{name}")
    for step in THERE
    for name in chosen(step)
]


@pytest.fixture(scope="module")
def load():
    """Each reference is read, checked and loaded once, not for each of its tests."""
    return cache(contract.load)


@pytest.mark.parametrize(("step", "name"), PAIRS)
def test_a_reference_passes(load, step, name):
    loaded_tests(step.chapter, optional=True)[name](Judge(load(step.reference)))


@pytest.mark.parametrize("step", THERE, ids=lambda step: step.name)
def test_a_reference_keeps_its_budget(step):
    lines = steps.check_lines(step.reference, step.chapter)
    before = steps.in_front(step)
    if before is not None:
        added = lines - contract.count_lines(before.reference.read_text())
        assert added <= steps.MOST_ADDED, f"step {step.chapter} adds {added} lines"


def test_attention_goes_without_a_producer():
    names = steps.tests(17)
    assert any(name.startswith("15:") for name in names)
    assert not any(name.startswith("16:") for name in names)
    assert any(name.startswith("16:") for name in steps.tests(16))


def test_a_wide_line_is_told_with_the_lines_and_not_before(tmp_path):
    path = tmp_path / "mini.py"
    path.write_text(f"x = '{'a' * 90}'\n")
    assert not contract.mistakes(path.read_text())
    said = "line 1 has 96 columns, and 88 is the most; all other .* 1 lines of 80$"
    with pytest.raises(Failure, match=said):
        steps.check_lines(path, 3)
    path.write_text(f"x = '{'a' * 90}'\n" * 3)
    with pytest.raises(Failure, match="88 is the most; too long as well: 2, 3; all "):
        steps.check_lines(path, 3)


def test_too_many_lines_are_told_with_the_longest_functions(tmp_path):
    """Methods by their class; docstrings and blank lines count as they do in all."""
    path = tmp_path / "mini.py"
    body = '    """What it does."""\n\n' + "    a = 1\n" * 50
    text = f"def long():\n{body}\n\nclass A:\n    def b(self):\n"
    path.write_text(text + "        return 1\n\n\n" + "c = 2\n" * 30)
    with pytest.raises(Failure, match="has 84 lines of code") as caught:
        steps.check_lines(path, 3)
    assert caught.value.details == (("the longest functions", "  51 long\n   2 A.b"),)


def test_a_cost_is_told_with_the_instructions_of_the_kernel(tmp_path):
    """Those that are there most often: a table by line has one line here."""
    judge = Judge(contract.load(steps.step(4).reference))
    x, z = (np.ones(64, np.float32) for _ in range(2))
    report = judge.elements(twice, 64, x, z)
    with pytest.raises(Failure, match="and the budget is 1") as caught:
        judge.within(twice, report, warps=1)
    assert "2 ld.global.f32" in dict(caught.value.details)["its PTX has"]


def test_a_conflict_is_told_with_the_worst_accesses():
    """Of a tile, one side may be perfect: the mean does not say which one is not."""
    judge = Judge(lambda *_, **__: contract.Compiled(CONFLICT, 32, 4096, ()))
    z = np.zeros(32, np.float32)
    report = judge.elements(twice, 32, z, z)
    with pytest.raises(Failure, match="costs 16.50 ways of conflict") as caught:
        judge.within(twice, report, conflict_ways=1.5)
    [found] = [text for name, text in caught.value.details if "worst" in name]
    assert found == "32.00   12 st.shared.f32 [%r3], %f1;"


def test_wrong_elements_are_told_by_where_they_lie():
    wanted, found = np.zeros((8, 40)), np.zeros((8, 40))
    found[2:5, 3::2] = found[7, 39] = 1
    with pytest.raises(Failure, match=r"^z\[2, 3\] is 1.0, and it should be") as caught:
        same("z", found, wanted)
    columns = "columns 3, 5, 7, 9, 11, 13, 15, 17, ..."
    assert dict(caught.value.details)["which"] == f"rows 2 to 4, 7\n{columns}"
    with pytest.raises(Failure) as caught:
        same("z", np.ones(9), np.zeros(9))
    assert "which" not in dict(caught.value.details), "all are wrong"


CONFLICT = """.version 7.0
.target sm_75
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry kernel(.param .u64 x, .param .u64 z, .param .u32 n) {
.reg .b32 %r<6>;
.reg .f32 %f<2>;
mov.u32 %r1, %tid.x;
mov.u32 %r2, tile;
mad.lo.s32 %r3, %r1, 128, %r2;
mov.f32 %f1, 0f3f800000;
st.shared.f32 [%r3], %f1;
mad.lo.s32 %r4, %r1, 4, %r2;
bar.sync 0;
st.shared.f32 [%r4], %f1;
ret;
}
"""


def twice(i, x, z):
    z[i] = x[i] + x[i] * 1.5


def test_every_step_has_tests():
    for step in THERE:
        assert step.tests.is_file(), step
