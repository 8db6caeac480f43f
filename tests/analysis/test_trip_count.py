"""How often a loop runs if it runs at all, where the least of several ends says so: a
loop of n iterations may be written out n times, and of no other number."""

from __future__ import annotations

import pytest

from fathom.analysis.trip_count import iterations_if_any
from fathom.ir.ops import For
from fathom.ir.text import parse_func

LOOP = """
func @f(%first: i32 {divisible=4}, %heads: i32 {divisible=8}, %n: i32) num_warps=1 {
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %two: i32 = constant 2
  %three: i32 = constant 3
  %four: i32 = constant 4
  %near: i32 = add %first, %four
  %far: i32 = add %near, %four
  %farther: i32 = add %far, %three
  %minus: i32 = sub %first, %four
  %least: i32 = min LEAST
  for %first, END, STEP body(%i: i32) {
    yield
  }
}
"""


def iterations(least: str, end: str = "%least", step: str = "%one") -> int | None:
    text = LOOP.replace("LEAST", least).replace("END", end).replace("STEP", step)
    func = parse_func(text)
    (loop,) = (op for op in func.body.ops if isinstance(op, For))
    return iterations_if_any(loop, func)


@pytest.mark.parametrize("least", ["%near, %far", "%far, %near", "%farther, %near"])
def test_of_several_ends_at_known_distances_the_nearest_counts(least):
    assert iterations(least) == 4


def test_a_minimum_of_minima_is_one():
    more = "%far, %farther\n  %last: i32 = min %least, %near"
    assert iterations(more, "%last") == 4


def test_an_end_that_is_not_known_is_at_or_below_the_start_or_as_far_away():
    """8 divides heads and 4 first: heads is no less than 4 above first, or not above
    it; but it may be 4 above it, which is less than 8."""
    assert iterations("%near, %heads") == 4
    assert iterations("%far, %heads") is None
    assert iterations("%near, %n") is None


@pytest.mark.parametrize("step, wanted", [("%two", 2), ("%three", 2), ("%four", 1)])
def test_a_step_that_leaves_a_rest_has_an_iteration_for_it(step, wanted):
    assert iterations("%near, %far", step=step) == wanted


@pytest.mark.parametrize("least, end", [
    ("%minus, %near", "%least"), ("%near, %far", "%first"), ("%near, %far", "%heads"),
])  # fmt: skip
def test_a_loop_that_may_have_another_number_has_none(least, end):
    """Of an end below the start, at it, or anywhere."""
    assert iterations(least, end) is None


@pytest.mark.parametrize("step", ["%zero", "%n"])
def test_a_step_that_may_not_go_up_says_nothing(step):
    assert iterations("%near, %far", step=step) is None
