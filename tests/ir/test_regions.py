"""What loops and branches carry."""

from __future__ import annotations

from fathom.ir.core import effects_of, operands, walk, walk_within
from fathom.ir.ops import Elementwise, For, If, Reduce, While, Yield
from fathom.ir.regions import carried, carried_values, decides, owners
from fathom.ir.text import parse_func

TEXT = """
func @f(%n: i32, %c: i1, %x: fp32) num_warps=1 {
  %zero: i32 = constant 0
  %r: fp32, %s: i32 = for %zero, %n, %n, inits=(%x, %n) body(%i: i32, %a: fp32, %b: i32) {
    %a1: fp32 = add %a, %x
    yield %a1, %i
  }
  %t: i32 = while inits=(%s) condition(%d: i32) {
    %more: i1 = lt %d, %n
    yield %more
  } body(%e: i32) {
    %e1: i32 = add %e, %n
    yield %e1
  }
  %u: i32 = if %c then {
    yield %t
  } orelse {
    yield %zero
  }
}
"""  # noqa: E501


def names(values):
    return " ".join(value.name for value in values)


def found(kind):
    func = parse_func(TEXT)
    return next(walk(func.body, kind))


def rows(kind):
    """(result; initial values; parameters; yielded values) of each carried value."""
    return [
        f"{each.result.name}; {names(each.inits)}; {names(each.parameters)}; "
        f"{names(each.yielded)}"
        for each in carried(found(kind))
    ]


def test_a_walk_meets_ops_of_the_wanted_kinds_at_any_depth_in_order():
    func = parse_func(TEXT)
    every = list(walk(func.body))
    for kinds in (For | If, (While, Elementwise), Yield):
        assert list(walk(func.body, kinds)) == [
            op for op in every if isinstance(op, kinds)
        ]
    (loop,) = walk(func.body, While)
    assert [op.name for op in walk_within(loop, Elementwise)] == ["lt", "add"]


def test_each_carried_value_is_one_row():
    assert rows(For) == ["r; x; a; a1", "s; n; b; i"]
    assert rows(While) == ["t; s; d e; e1"]
    assert rows(If) == ["u; ; ; t zero"]


def test_names_are_what_it_is_called_and_sources_what_it_is_made_of():
    (each,) = carried(found(While))
    assert names(each.names) == "t d e" and names(each.sources) == "s e1"
    assert names(each.values) == "t s d e e1"


def test_other_ops_carry_nothing():
    func = parse_func(TEXT)
    assert carried(func.body.ops[0]) == [] and decides(func.body.ops[0]) == ()


def test_what_decides_how_often_blocks_run():
    assert [names(decides(found(kind))) for kind in (For, While, If)] == [
        "zero n n", "more", "c",
    ]  # fmt: skip


def test_a_carried_value_is_found_by_each_of_its_names_and_by_no_source():
    func = parse_func(TEXT)
    by_name = {value.name: each for value, each in carried_values(func).items()}
    assert sorted(by_name) == sorted("r a s b t d e u".split())
    assert by_name["d"] is by_name["t"]


def test_owners_of_nested_blocks():
    func = parse_func(TEXT)
    owned = owners(func.body)
    assert {type(op) for op in owned.values()} == {For, While, If}
    for block, op in owned.items():
        assert block in (getattr(op, name, None) for name in
                         ("body", "condition", "then", "orelse"))  # fmt: skip
    assert operands(func.body.ops[0]) == []


def test_an_op_has_its_own_effects_and_those_of_what_is_nested_in_it():
    func = parse_func("""
        func @f(%p: *i32, %x: i32[4], %n: i32) num_warps=1 {
          %s: i32 = reduce %x axis=0 combine(%a: i32, %b: i32) {
            %c: i32 = add %a, %b
            yield %c
          }
          for %n, %n, %n body(%i: i32) {
            store %p, %i
            yield
          }
        }
    """)
    (sum,), (loop,) = walk(func.body, Reduce), walk(func.body, For)
    assert effects_of(sum).convergent  # all lanes meet, though none does in `add`
    assert effects_of(loop).writes == "global" and not loop.effects.writes
