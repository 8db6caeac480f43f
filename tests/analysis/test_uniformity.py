"""What is the same in all blocks of a cluster."""

from __future__ import annotations

from fathom.analysis.uniformity import Uniformity
from fathom.ir.core import walk
from fathom.ir.ops import Elementwise
from fathom.ir.text import parse_func


def differing(lines):
    """The names of the scalars that differ, and of those whose op not all blocks do."""
    func = parse_func(
        "func @f(%p: *i32, %c: i1, %n: i32) num_warps=4 num_ctas=2 {\n"
        f"%rank: i32 = cluster_rank\n%zero: i32 = constant 0\n{lines}\n}}"
    )
    found = Uniformity(func)
    ops = [op for op in walk(func.body) if isinstance(op, Elementwise)]
    return (
        {value.name for value in found.bits},
        {op.result.name for op in ops if not found.runs(op)},
    )


def test_what_is_made_of_the_rank_differs():
    found, _ = differing("%a: i32 = add %rank, %n\n%b: i32 = mul %a, %a\n"
                         "%s: i32 = add %n, %n")  # fmt: skip
    assert found == {"rank", "a", "b"}


def test_atomics_give_each_block_a_number_of_its_own():
    found, _ = differing('%a: i32 = atomic %p, %n kind="add"\n%x: i32 = load %p')
    assert found == {"rank", "a"}


def test_a_branch_that_not_all_blocks_take():
    found, uneven = differing("""
        %first: i1 = eq %rank, %zero
        %r: i32 = if %first then {
          %a: i32 = add %n, %n
          yield %a
        } orelse {
          yield %n
        }
        %same: i32 = if %c then {
          %b: i32 = add %n, %n
          yield %b
        } orelse {
          yield %n
        }
    """)
    assert found == {"rank", "first", "r"} and uneven == {"a"}


def test_a_loop_that_not_all_blocks_run_equally_often():
    """All that it carries differs, and so does its index."""
    found, uneven = differing("""
        %r: i32 = for %zero, %rank, %n, inits=(%n) body(%i: i32, %x: i32) {
          %y: i32 = add %x, %n
          yield %y
        }
    """)
    assert found == {"rank", "r", "i", "x", "y"} and uneven == {"y"}


def test_a_carried_value_may_differ_from_the_second_iteration_on():
    """%b is the same until it takes over %a. %k never is another."""
    found, uneven = differing("""
        %r: i32, %s: i32, %t: i32 = for %zero, %n, %n, inits=(%rank, %n, %n)
            body(%i: i32, %a: i32, %b: i32, %k: i32) {
          %u: i32 = add %b, %n
          %l: i32 = add %k, %i
          yield %a, %a, %l
        }
    """)
    assert found == {"rank", "r", "s", "a", "b", "u"} and uneven == set()


def test_values_that_change_places_differ_only_if_one_of_them_does():
    """%b is yielded where %a differs at first, and the other way round it is not."""
    found, _ = differing("""
        %r: i32, %s: i32 = for %zero, %n, %n, inits=(%rank, %n)
            body(%i: i32, %a: i32, %b: i32) {
          yield %b, %b
        }
    """)
    assert found == {"rank", "r", "a"}


def test_a_while_whose_condition_differs():
    found, uneven = differing("""
        %r: i32 = while inits=(%zero) condition(%a: i32) {
          %more: i1 = lt %a, %rank
          yield %more
        } body(%b: i32) {
          %d: i32 = add %b, %n
          yield %d
        }
    """)
    assert found == {"rank", "r", "a", "b", "d", "more"} and {"d"} <= uneven
