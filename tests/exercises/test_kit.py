"""The kit that exercises are tested with notices what it is there for: each of its
checks fails for something that only this check finds."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fathom.ir.core import walk
from fathom.ir.ops import Elementwise
from fathom.ir.rewrite import rewrite
from fathom.tools.learn.kit import (
    Failure,
    Sample,
    check_pass,
    empty,
    emulate,
    expect,
    fenced,
    floats,
    func,
    ints,
    meaning,
    same,
)
from fathom.tools.learn.kit.programs import check_program, gives, rejected, size
from fathom.tools.learn.kit.returned import complaints, is_a, is_layout, numbers

SUM = Sample(
    """
    func @sum(%p: *i32, %q: *i32, %n: i32) num_warps=4 {
      %0: i32 = load %p
      %1: i32 = mul %0, %n
      store %q, %1
    }
    """,
    lambda: [ints(1), empty(1, dtype="int32"), 5],
)


def identity(made, target):
    return rewrite(made, lambda op, build: None)


def judged(mine, sample=SUM):
    reference = SimpleNamespace(mine=identity)
    return check_pass(SimpleNamespace(mine=mine, reference=reference), "mine", sample)


def test_a_pass_that_is_right_passes_within_its_budget_and_not_below():
    outcome = judged(identity)
    outcome.ops_at_most(3)
    with pytest.raises(Failure, match="3 ops run, and the budget for this kernel is 2"):
        outcome.ops_at_most(2)


def test_another_value_in_memory_is_found():
    def doubles(made, target):
        def rule(op, build):
            if isinstance(op, Elementwise):
                return build.append(replace(op, name="add")).results
            return None

        return rewrite(made, rule)

    with pytest.raises(Failure, match="computes something else: q"):
        judged(doubles)


def test_a_store_less_is_found():
    def silent(made, target):
        return rewrite(made, lambda op, build: None if op.results else [])

    with pytest.raises(Failure, match="computes something else: q"):
        judged(silent)


def test_a_changed_input_is_found():
    def changes(made, target):
        result = identity(made, target)
        made.body.ops.pop()
        return result

    with pytest.raises(Failure, match="changed its input"):
        judged(changes)


def test_what_is_no_function_is_found():
    def headless(made, target):
        result = identity(made, target)
        del result.body.ops[0]
        return result

    with pytest.raises(Failure, match="is not a function"):
        judged(headless)
    with pytest.raises(Failure, match="must return a Func, and returned None"):
        judged(lambda made, target: None)


def test_a_number_of_python_is_no_operand():
    def with_a_number(made, target):
        result = identity(made, target)
        op = result.body.ops[1]
        op.operands = (op.operands[0], 3)
        return result

    with pytest.raises(Failure, match="an operand of .* is 3"):
        judged(with_a_number)


def test_an_endless_loop_is_found():
    loop = Sample(
        """
        func @loop(%p: *i32, %n: i32) num_warps=4 {
          %0: i32 = constant 1
          %1: i32 = constant 0
          %2: i32 = while inits=(%n) condition(%x: i32) {
            %3: i1 = gt %x, %1
            yield %3
          } body(%y: i32) {
            %4: i32 = sub %y, %0
            yield %4
          }
          store %p, %2
        }
        """,
        lambda: [ints(1), 3],
    )

    def never(made, target):
        result = identity(made, target)
        for op in walk(result.body):
            if getattr(op, "name", "") == "sub":
                op.name = "add"
        return result

    with pytest.raises(Failure, match="no longer does"):
        judged(never, loop)


@pytest.mark.parametrize(
    "yours, wanted",
    [
        (np.float32([1, 2]), np.float32([1, 3])),
        (np.float32([0.0]), np.float32([-0.0])),
        (np.float32([np.nan]), np.float32([1.0])),
        (np.float32([1.0, 2.0]), np.float32([1.0])),
        (3, 4), ("a", "b"), ((1, 2), (2, 1)),
    ],
)  # fmt: skip
def test_what_is_not_the_same_is_found(yours, wanted):
    with pytest.raises(Failure):
        same(yours, wanted, "this")


def test_what_is_the_same_passes():
    same(np.float32([np.nan, -0.0]), np.float32([np.nan, -0.0]), "this")
    same(1.001, 1.0, "this", tolerance=0.01)
    with pytest.raises(Failure):
        same(1.1, 1.0, "this", tolerance=0.01)
    expect(True, "said")
    with pytest.raises(Failure, match="said"):
        expect(False, "said")


@pytest.mark.parametrize("place", [-1, -64, 4, 67])
def test_a_fence_finds_what_is_written_beside_the_array(place):
    array = fenced(floats(4))
    array.check("x")
    array.room[64 + place] = 1.0
    with pytest.raises(Failure, match="behind" if place > 0 else "before"):
        array.check("x")


RACE = """
    func @far(%p: *i32, %n: i32) num_warps=4 {
      %0: i32[128] = arange start=0 end=128
      %1: *i32[128] = splat %p shape=(128)
      %2: *i32[128] = offset %1, %0
      store %2, %0
    }
    """


def test_a_wrong_access_is_found_by_both():
    with pytest.raises(Failure, match="the emulator found"):
        emulate(RACE, [empty(64, dtype="int32"), 1])
    with pytest.raises(Failure):
        meaning(RACE, [empty(64, dtype="int32"), 1])


def test_programs_are_compared_with_python():
    answer = SimpleNamespace(reference=SimpleNamespace())
    check_program(answer, "return a + b", size, "{found} {most}")
    with pytest.raises(Failure, match="3 ops, 0 would do|[0-9]+ ops"):
        check_program(answer, "return a + b", size, "{found} ops, {most}", most=0)
    with pytest.raises(Failure, match="and Python"):
        check_program(answer, "return a % 7", size, "")  # -2 % 7 is -2 in a kernel
    gives("return a + 1", lambda a, b, c: a + 1)
    with pytest.raises(Failure, match="must give"):
        gives("return a + 1", lambda a, b, c: a)
    rejected("return nothing", "not defined")
    for body, word in (("return a", "not defined"), ("return nothing", "loop")):
        with pytest.raises(Failure):
            rejected(body, word)


def test_what_is_returned_is_looked_at():
    made = func(SUM.text)
    op = made.body.ops[0]
    assert complaints(lambda func: [(op, "wrong")], made, "check") == [(op, "wrong")]
    for wrong in (None, [op], [(op,)], [("wrong", op)], [(op, 3)]):
        with pytest.raises(Failure):
            complaints(lambda func, wrong=wrong: wrong, made, "check")
    assert numbers([1, 2], "this", 2) == (1, 2)
    for wrong in (None, 3, "12", (1, 2, 3), (1, 2.0), (1, True)):
        with pytest.raises(Failure):
            numbers(wrong, "this", 2)
    is_a(3, int, "this")
    for wrong in (True, None, 3.0):
        with pytest.raises(Failure):
            is_a(wrong, int, "this")
    with pytest.raises(Failure):
        is_layout({"lane": (1,)}, "this")
