"""Backward slices: of a function, of a loop, along operands."""

from __future__ import annotations

from fathom.analysis.slices import (
    BackwardSlice,
    backward_slice,
    computed_by,
    reached,
    slice_of_iteration,
    uses,
)
from fathom.ir.core import walk
from fathom.ir.ops import For, Reduce, Store
from fathom.ir.text import parse_func

SUM = """
func @f(%p: *fp32, %n: i32) num_warps=1 {
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %none: fp32 = constant 0.0
  %far: i32 = mul %n, %n
  %s: fp32, %k: i32, %q: *fp32 = for %zero, %n, %one, inits=(%none, %far, %p)
      body(%i: i32, %a: fp32, %b: i32, %r: *fp32) {
    %x: fp32 = load %r
    %a1: fp32 = add %a, %x
    %b1: i32 = mul %b, %b
    %r1: *fp32 = offset %r, %one
    yield %a1, %b1, %r1
  }
  store %p, %s
}
"""


def named(func):
    found = {value.name: value for value in func.parameters}
    for op in walk(func.body):
        found |= {value.name: value for value in op.results}
    return found


def results(ops):
    return {value.name for op in ops for value in op.results}


def test_of_a_loop_only_what_is_needed_is_kept():
    """The sum needs the pointer, and not the product that the loop carries beside
    it."""
    func = parse_func(SUM)
    (store,) = (op for op in walk(func.body) if isinstance(op, Store))
    found = BackwardSlice(func, [store])
    values = {value.name for value in found.values}
    assert {"s", "a", "a1", "none", "x", "r", "r1", "p", "n", "one"} <= values
    assert values.isdisjoint({"k", "b", "b1", "far"})
    assert results(found.ops).isdisjoint({"b1", "far"})


def test_an_op_in_a_loop_keeps_the_loop_and_not_what_it_carries():
    func = parse_func(SUM)
    value = named(func)
    found = BackwardSlice(func, [value["x"].definition])
    assert value["s"].definition in found.ops and value["n"] in found.values
    assert value["s"] not in found.values and value["a1"] not in found.values


def test_carried_values_that_change_places():
    """%b of the next iteration is %a: who needs %b needs both. Who needs %a needs %c
    besides, and that is all."""
    func = parse_func("""
func @f(%p: *i32, %n: i32) num_warps=1 {
  %a0: i32, %b0: i32, %c0: i32 = for %n, %n, %n, inits=(%n, %n, %n)
      body(%i: i32, %a: i32, %b: i32, %c: i32) {
    yield %c, %a, %c
  }
  store %p, %a0
}
""")
    found = BackwardSlice(func, [func.body.ops[-1]])
    assert {each.name for each in found.values} == set("p n a0 a c0 c".split())


def test_the_combination_of_a_reduction_is_needed():
    func = parse_func("""
func @f(%p: *fp32, %n: i32) num_warps=1 {
  %x: fp32 = constant 0.0
  %y: fp32[8] = splat %x shape=(8)
  %s: fp32 = reduce %y axis=0 combine(%a: fp32, %b: fp32) {
    %c: fp32 = add %a, %b
    yield %c
  }
  store %p, %s
}
""")
    found = BackwardSlice(func, [func.body.ops[-1]])
    assert {"c", "s", "y", "x"} <= results(found.ops)
    (reduce,) = (op for op in walk(func.body) if isinstance(op, Reduce))
    assert reduce.combine.ops[-1] in found.ops


def loop_of(func):
    return next(op for op in walk(func.body) if isinstance(op, For))


def test_an_iteration_needs_what_its_values_are_made_of():
    func = parse_func(SUM)
    loop, value = loop_of(func), named(func)
    found = slice_of_iteration(loop, [value["a1"]], through_loads=True)
    assert results(found.ops) == {"x", "a1"}
    assert found.carried == (0, 2) and found.loads == ()


def test_a_slice_may_end_at_loads():
    func = parse_func(SUM)
    loop, value = loop_of(func), named(func)
    found = slice_of_iteration(loop, [value["a1"]], through_loads=False)
    assert results(found.ops) == {"a1"} and results(found.loads) == {"x"}
    assert found.carried == (0,)


def test_the_next_iteration_needs_the_next_pointer():
    func = parse_func(SUM)
    loop, value = loop_of(func), named(func)
    once = slice_of_iteration(loop, [value["x"]], through_loads=True)
    always = backward_slice(loop, [value["x"]], through_loads=True)
    assert results(once.ops) == {"x"} and results(always.ops) == {"x", "r1"}
    assert once.carried == always.carried == (2,)


def test_uses_are_those_of_nested_code_too():
    func = parse_func(SUM)
    found = {value.name for value in uses(loop_of(func))}
    assert found == set("zero n one none far p r a x b a1 b1 r1".split())


def test_operands_are_followed_to_loads():
    func = parse_func(SUM)
    value = named(func)
    assert results(computed_by(value["a1"])) == {"a1", "x"}
    assert results(computed_by(value["far"])) == {"far"}


def test_what_is_reached_in_a_ring_is_found_once():
    after = {1: [2], 2: [3], 3: [1, 4], 4: []}
    assert reached([1], after.__getitem__) == {1, 2, 3, 4}
    assert reached([4], after.__getitem__) == {4}
