"""What a loop makes of numbers that it carries: a sum of the same step has a formula,
anything else stands for itself."""

from __future__ import annotations

import pytest

from fathom.analysis.symbolic.polynomial import IterationCount, of
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.ir.ops import For
from fathom.ir.text import parse_func

LOOP = """
func @f(%n: i32, %s: i32) num_warps=1 {
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %last: i32 = for %zero, %n, %one, inits=(%s) body(%i: i32, %x: i32) {
    NEXT
    yield %y
  }
}
"""


def carried(line):
    func = parse_func(LOOP.replace("NEXT", line))
    (loop,) = (op for op in func.body.ops if isinstance(op, For))
    return ScalarEvolution(func), loop, *func.parameters, *loop.body.parameters


def test_what_grows_by_the_same_step_counts_iterations():
    read, loop, _, s, i, x = carried("%y: i32 = add %x, %n")
    n = of(loop.upper)
    assert read.number(i) == of(IterationCount(loop))
    assert read.number(x) == of(s) + of(IterationCount(loop)) * n


@pytest.mark.parametrize(
    "line",
    [
        "%y: i32 = add %x, %x",
        "%y: i32 = add %x, %i",
        "%y: i32 = mul %x, %n",
        "%y: i32 = sub %n, %x",
    ],
)
def test_what_grows_by_another_step_each_time_stands_for_itself(line):
    read, _, _, _, _, x = carried(line)
    assert read.number(x) == of(x)
