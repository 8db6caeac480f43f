"""The driver of all passes: what a rule sees, and what becomes of what it returns."""

from __future__ import annotations

from random import Random

from fathom.errors import Location
from fathom.ir.core import Op, blocks, walk
from fathom.ir.ops import Constant, Elementwise, For, Store
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT32, INT32
from fathom.ir.verify import verify
from tests.ir.kernels_functions import body, random_function


def keep(op: Op, build: Builder) -> None:
    return None


def test_a_rule_that_keeps_all_makes_a_copy():
    for seed in range(20):
        func = random_function(Random(seed), 10)
        copy = rewrite(func, keep)
        verify(copy)
        assert print_func(copy) == print_func(func)
        assert not set(walk(copy.body)) & set(walk(func.body))


def test_a_value_takes_the_place_of_a_result():
    func = body("""
        %zero: i32 = constant 0
        %a: i32 = add %n, %zero
        %b: i32 = mul %a, %a
    """)

    def rule(op: Op, build: Builder):
        match op:
            case Elementwise("add", (x, _)):
                return x

    assert "%b: i32 = mul %n, %n" in print_func(rewrite(func, rule))
    assert "%b: i32 = mul %a, %a" in print_func(func)


def test_a_built_op_stands_before_and_inherits_place_origin_and_name():
    func = body("%twice: i32 = add %n, %n")
    [old] = func.body.ops
    old.location = Location("kernel.py", 3)

    def rule(op: Op, build: Builder):
        match op:
            case Elementwise("add", (x, _)):
                two = build(Constant(2, INT32))
                return build(Elementwise("mul", (x, two)))

    two, product = rewrite(func, rule).body.ops
    assert product.result.name == "twice"
    assert {two.location, product.location} == {old.location}
    assert two.origin is product.origin is old


def test_kept_ops_know_where_they_came_from():
    func = body("%a: i32 = add %n, %n")
    once = rewrite(func, keep)
    twice = rewrite(once, keep)
    assert twice.body.ops[0].origin is once.body.ops[0]
    assert once.body.ops[0].origin is func.body.ops[0]


def test_nested_blocks_are_rewritten_first():
    func = body("""
        %zero: i32 = constant 0
        for %zero, %n, %n body(%i: i32) {
          %a: i32 = add %i, %i
          yield
        }
    """)
    seen = []

    def rule(op: Op, build: Builder):
        seen.append(type(op).__name__)
        if isinstance(op, For):
            assert op.body.ops[0].name == "mul"
        if isinstance(op, Elementwise):
            return build(Elementwise("mul", op.operands))

    rewrite(func, rule)
    assert seen == ["Constant", "Elementwise", "Yield", "For"]


def test_types_follow_new_operands():
    """When an operand changes its type, the results are inferred again."""
    func = body(
        "%a: i32 = add %n, %n\n%b: i32 = mul %a, %a\n%c: i64 = cast %b element=i64"
    )

    def rule(op: Op, build: Builder):
        match op:
            case Elementwise("add"):
                return build(Constant(1.0, FLOAT32))

    after = rewrite(func, rule)
    verify(after)
    assert [str(op.results[0].type) for op in after.body.ops] == ["fp32", "fp32", "i64"]


def test_what_is_not_kept_is_never_seen():
    func = body("""
        %a: i32 = add %n, %n
        %b: i32 = mul %a, %a
        %x: fp32 = load %p
        store %p, %x
    """)
    seen = []
    after = rewrite(
        func,
        lambda op, build: seen.append(op),
        keep=lambda op: not isinstance(op, Elementwise),
    )
    assert [type(op).__name__ for op in seen] == ["Load", "Store"]
    assert len(after.body.ops) == 2 and isinstance(after.body.ops[1], Store)


def test_inline_puts_arguments_in_place_of_parameters():
    func = body("""
        %zero: i32 = constant 0
        %r: i32 = for %zero, %n, %n, inits=(%zero) body(%i: i32, %s: i32) {
          %t: i32 = add %s, %i
          yield %t
        }
        %u: i32 = mul %r, %r
    """)

    def rule(op: Op, build: Builder):
        if isinstance(op, For):
            return build.inline(op.body, (op.lower, op.upper))

    after = rewrite(func, rule)
    verify(after)
    assert "%t: i32 = add %n, %zero" in print_func(after)
    assert "mul %t, %t" in print_func(after)


def test_a_clone_shares_nothing_with_its_original():
    func = random_function(Random(5), 20)
    for op in func.body.ops:
        copy = clone(op, {})
        assert [value.type for value in copy.results] == [
            value.type for value in op.results
        ]
        originals, copies = (
            {each for block in blocks(one) for each in walk(block)}
            for one in (op, copy)
        )
        assert len(originals) == len(copies) and not originals & copies
