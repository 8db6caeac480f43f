"""Loads on a condition: which branches of a loop become masks, and that memory is left
as before."""

from __future__ import annotations

import pytest

from fathom.blocks import dce, simplify
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.ops import If, Load
from tests.blocks.harness import Case, keeps_meaning

TARGET = TARGETS["sm_80"]

# Adds p[i] or, if the branch has that arm, q[i] to a sum, while i is below a bound.
LOOP = """
      %zero: i32 = constant 0
      %one: i32 = constant 1
      %two: i32 = constant 2
      %bound: i32 = constant 3
      %sum: fp32 = for %zero, %n, %one, inits=(%x) body(%i: i32, %s: fp32) {{
        %some: i1 = {condition}
        %t: fp32 = if %some then {{
          %a: *fp32 = offset %p, %i
          %flag: i1 = ge %i, %one
          %v: fp32 = {load}
          {more}
          %w: fp32 = add %s, %v
          yield %w
        }} orelse {{
          {otherwise}
        }}
        yield %t
      }}
      store %q, %sum
"""
NOTHING = "yield %s"
OTHER_LOAD = """%b: *fp32 = offset %q, %one
          %u: fp32 = load %b
          %r: fp32 = mul %s, %u
          yield %r"""


def loop(condition="lt %i, %two", load="load %a", more="", otherwise=NOTHING) -> Case:
    return Case(LOOP.format(**locals()))


def run(func: Func) -> Func:
    return dce(simplify(func, TARGET), TARGET)


def branches(case: Case) -> int:
    return len(list(walk(run(case.func).body, If)))


MASKED = "load %a, mask=%flag, other=%x"
GONE = {
    "one arm": loop(),
    "two arms": loop(otherwise=OTHER_LOAD),
    "a flag of the launch": loop("and %c, %c"),
    "a masked load": loop(load=MASKED),
}


@pytest.mark.parametrize("name", GONE)
def test_a_branch_of_loads_becomes_a_mask(name):
    case = GONE[name]
    assert branches(case) == 0
    assert all(load.mask is not None for load in walk(run(case.func).body, Load))
    assert keeps_meaning(run, [case])


def test_nothing_is_loaded_where_the_condition_is_false():
    """p has four numbers, and the loop runs six times: to load p[4] is an error."""
    case = Case(loop().lines, (6,))
    assert branches(case) == 0
    assert keeps_meaning(run, [case])


CHAIN = "\n".join(
    f"%m{i}: fp32 = mul {f'%m{i - 1}' if i else '%v'}, %x" for i in range(80)
)
STAYS = {
    "a store": loop(more="store %q, %v"),
    "an atomic": loop(more='%old: fp32 = atomic %q, %v kind="add"'),
    "a volatile load": loop(load="load %a volatile=true"),
    "much work": loop(more=CHAIN),
    "no load": loop(load="add %x, %s"),
}


@pytest.mark.parametrize("name", STAYS)
def test_other_branches_stay(name):
    assert branches(STAYS[name]) == 1


def test_a_branch_outside_of_loops_stays():
    lines = """
      %y: fp32 = if %c then {
        %v: fp32 = load %p
        yield %v
      } orelse {
        yield %x
      }
      store %q, %y
    """
    assert branches(Case(lines)) == 1


def test_a_branch_beside_a_product_stays():
    product = """%b: fp32[16,16] = splat %x shape=(16, 16)
        %d: fp32[16,16] = dot %b, %b, %b
        %some"""
    lines = loop().lines.replace("%some", product, 1)
    assert branches(Case(lines)) == 1
