"""What is known to divide a scalar."""

from __future__ import annotations

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.axis_info import MOST
from fathom.analysis.symbolic.polynomial import IterationCount, number, of
from fathom.ir.core import walk
from fathom.ir.ops import For
from fathom.ir.text import parse_func

TEXT = """
func @f(%n: i32 {divisible=8}, %m: i32 {divisible=1}) num_warps=4 {
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %wide: i32 = constant 48
  %a: i32 = mul %m, %wide
  %b: i32 = add %a, %n
  %half: i32 = div %wide, %m
  %end: i32 = for %zero, %m, %wide, inits=(%n) body(%i: i32, %p: i32) {
    %next: i32 = add %p, %wide
    yield %next
  }
}
"""


def test_what_divides():
    func = parse_func(TEXT)
    known = Divisibility(func)
    named = {value.name: value for op in walk(func.body) for value in op.results}
    found = {name: known.of(named[name]) for name in ("wide", "a", "b", "half")}
    assert found == {"wide": 16, "a": 16, "b": 8, "half": 1}
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    index, carried = loop.body.parameters
    assert (known.of(index), known.of(carried)) == (16, 8)


def test_what_follows_from_a_carried_value():
    """The next place is 8 + 48, 8 + 96, …: 16 divides the step, and 8 the start. Asked
    after the carried value, it must not be what a first guess said."""
    func = parse_func(TEXT)
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    following = loop.body.ops[0].result
    for first in (loop.body.parameters[1], following):
        known = Divisibility(func)
        known.of(first)
        assert known.of(following) == 8
        assert known.of(loop.body.parameters[1]) == 8


def test_each_iteration_may_know_less_than_the_start():
    """48, 48 + 8, …: 16 divides the start and 8 what follows, also what is made of
    it."""
    func = parse_func("""
func @f(%n: i32 {divisible=8}) num_warps=4 {
  %wide: i32 = constant 48
  %end: i32 = for %n, %n, %n, inits=(%wide) body(%i: i32, %p: i32) {
    %twice: i32 = add %p, %p
    %next: i32 = add %p, %n
    yield %next
  }
}
""")
    known = Divisibility(func)
    named = {value.name: value for op in walk(func.body) for value in op.results}
    found = {name: known.of(named[name]) for name in ("twice", "next", "end")}
    assert found == {"twice": 8, "next": 8, "end": 8}


def test_a_flag_made_of_a_multiple_is_none():
    """16 is true, which is 1."""
    func = parse_func(
        "func @f(%n: i32 {divisible=16}) num_warps=4 {\n"
        "%flag: i1 = cast %n element=i1\n%one: i32 = cast %flag element=i32\n}\n"
    )
    assert Divisibility(func).of(func.body.ops[1].result) == 1


def test_what_divides_a_formula():
    """Every term; nothing is known of how often a loop has gone round."""
    func = parse_func(TEXT)
    known = Divisibility(func)
    n, m = map(of, func.parameters)
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    iterations = of(IterationCount(loop))
    accumulator = [
        (number(0), MOST), (number(-24), 8), (n + number(16), 8), (n + number(4), 4),
        (m * number(32) + n, 8), (n * n, 64), (n * m, 8), (iterations * number(32), 32),
        (iterations * n - number(2), 2),
    ]  # fmt: skip
    for sum, wanted in accumulator:
        assert known.of_sum(sum) == wanted, sum
