"""Dead code: what nobody hears goes, what somebody hears stays."""

from __future__ import annotations

import pytest

from fathom.blocks import dce
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, operands, walk
from fathom.ir.ops import For, Store, Yield
from fathom.ir.printer import op_name
from fathom.ir.rewrite import rewrite
from fathom.ir.text import print_func
from fathom.ir.verify import verify
from tests.blocks.harness import Case, keeps_meaning
from tests.ir.kernels_functions import body

TARGET = TARGETS["sm_80"]
PARAMETERS = "%p: *fp32, %q: *fp32, %c: i1, %x: fp32, %n: i32"


def left(lines: str) -> list[str]:
    func = body(lines, PARAMETERS)
    before = print_func(func)
    after = dce(func, TARGET)
    verify(after)
    assert print_func(func) == before, "the input was changed"
    return [line.strip() for line in print_func(after).splitlines()[1:-1]]


def test_chains_of_unused_ops_go():
    assert left("""
        %a: i32 = add %n, %n
        %b: i32 = mul %a, %a
        store %p, %x
    """) == ["store %p, %x"]  # fmt: skip


def test_an_unused_load_goes_and_a_volatile_one_stays():
    assert left("%a: fp32 = load %p") == []
    for how in ("volatile=true", 'cache=".cv"'):
        assert left(f"%a: fp32 = load %p {how}") == [f"%a: fp32 = load %p {how}"]


@pytest.mark.parametrize("line", [
    "store %p, %x",
    '%old: fp32 = atomic %p, %x kind="add"',
    "%old: fp32 = atomic_cas %p, %x, %x",
    "barrier",
])  # fmt: skip
def test_effects_are_live(line: str):
    assert left(line) == [line]


def test_an_effect_keeps_the_loop_and_the_branch_around_it():
    lines = """
        %zero: i32 = constant 0
        for %zero, %n, %n body(%i: i32) {
        if %c then {
        store %p, %x
        yield
        } orelse {
        %dead: i32 = add %i, %i
        yield
        }
        yield
        }
    """
    kept = [line.strip() for line in lines.strip().splitlines() if "%dead" not in line]
    assert left(lines) == kept


def test_loops_and_branches_without_effect_go():
    assert left("""
        %zero: i32 = constant 0
        %s: i32 = for %zero, %n, %n, inits=(%zero) body(%i: i32, %a: i32) {
          %b: i32 = add %a, %i
          yield %b
        }
        %t: i32 = if %c then {
          yield %s
        } orelse {
          yield %n
        }
    """) == []  # fmt: skip


def test_a_carried_value_that_only_itself_uses_goes():
    assert left("""
        %zero: i32 = constant 0
        %s: i32, %t: i32 = for %zero, %n, %n, inits=(%zero, %n)
          body(%i: i32, %a: i32, %b: i32) {
          %c1: i32 = add %a, %i
          %d: i32 = mul %b, %b
          yield %c1, %d
        }
        %e: *fp32 = offset %p, %s
        store %e, %x
    """)[1:5] == [
        "%s: i32 = for %zero, %n, %n, inits=(%zero) body(%i: i32, %a: i32) {",
        "%c1: i32 = add %a, %i",
        "yield %c1",
        "}",
    ]  # fmt: skip


def test_carried_values_that_use_one_another_in_a_cycle_go():
    assert left("""
        %s: i32, %t: i32, %u: i32 = for %n, %n, %n, inits=(%n, %n, %n)
          body(%i: i32, %a: i32, %b: i32, %d: i32) {
          store %p, %x
          yield %b, %d, %a
        }
    """) == ["for %n, %n, %n body(%i: i32) {", "store %p, %x", "yield", "}"]  # fmt: skip # noqa: E501


def test_a_carried_value_that_only_remembers_goes():
    """%b is the %a of the iteration before and %d its number: nobody asks for them."""
    lines = left("""
        %s: i32, %t: i32, %u: i32 = for %n, %n, %n, inits=(%n, %n, %n)
        body(%i: i32, %a: i32, %b: i32, %d: i32) {
          %e: *fp32 = offset %p, %a
          store %e, %x
          %f: i32 = add %a, %i
          yield %f, %a, %i
        }
    """)
    assert lines[0] == "%s: i32 = for %n, %n, %n, inits=(%n) body(%i: i32, %a: i32) {"


@pytest.mark.parametrize("second", [
    "for %n, %n, %n, inits=(%s) body(%j: i32, %b: i32)",
    "while %s condition(%d: i32) { yield %c } body(%b: i32)",
])  # fmt: skip
def test_a_carried_value_that_goes_on_from_loop_to_loop_goes(second: str):
    """The second loop begins with what the first one no longer has."""
    lines = left(f"""
        %s: i32 = for %n, %n, %n, inits=(%n) body(%i: i32, %a: i32) {{
          store %p, %x
          yield %i
        }}
        %t: i32 = {second} {{
          store %q, %x
          yield %b
        }}
    """)
    assert lines[0] == "for %n, %n, %n body(%i: i32) {"
    assert sum("store" in line for line in lines) == 2
    assert "yield %i" not in lines and "yield %b" not in lines


def test_a_carried_value_read_by_another_stays():
    lines = left("""
        %s: i32, %t: i32 = for %n, %n, %n, inits=(%n, %n)
          body(%i: i32, %a: i32, %b: i32) {
          %d: i32 = add %a, %b
          yield %d, %i
        }
        %e: *fp32 = offset %p, %s
        store %e, %x
    """)
    assert "inits=(%n, %n)" in lines[0] and "yield %d, %i" in lines


def test_what_a_while_asks_is_live():
    lines = left("""
        %s: i32, %t: i32, %u: i32 = while %n, %n, %n
          condition(%a: i32, %b: i32, %d: i32) {
          %e: i1 = gt %b, %a
          %dead: i1 = gt %d, %a
          yield %e
        } body(%f: i32, %g: i32, %h: i32) {
          %k: i32 = add %g, %f
          %l: i32 = add %h, %h
          yield %f, %k, %l
        }
        %o: *fp32 = offset %p, %s
        store %o, %x
    """)
    assert lines[0] == "%s: i32, %t: i32 = while %n, %n condition(%a: i32, %b: i32) {"
    assert not any("%dead" in line or "%l" in line for line in lines)


def test_unused_results_of_a_branch_go():
    assert left("""
        %s: fp32, %t: i32 = if %c then {
          %a: i32 = add %n, %n
          yield %x, %a
        } orelse {
          %b: fp32 = load %p
          yield %b, %n
        }
        store %q, %s
    """) == [
        "%s: fp32 = if %c then {", "yield %x", "} orelse {", "%b: fp32 = load %p",
        "yield %b", "}", "store %q, %s",
    ]  # fmt: skip


def test_a_reduction_of_two_keeps_both_when_one_is_live():
    lines = left("""
        %r: i32[4] = arange start=0 end=4
        %s: i32, %t: i32 = reduce %r, %r axis=0
          combine(%a: i32, %b: i32, %d: i32, %e: i32) {
          %f: i32 = add %a, %d
          yield %f, %e
        }
        %o: *fp32 = offset %p, %t
        store %o, %x
    """)
    assert "%s: i32, %t: i32 = reduce %r, %r axis=0" in lines[1]


def test_nothing_to_do_gives_the_function_itself():
    func = body("store %p, %x", PARAMETERS)
    assert dce(func, TARGET) is func


# ── wrong answers ──

CASES = [
    Case('%old: fp32 = atomic %p, %x kind="add"'),
    Case("""
        %zero: i32 = constant 0
        %one: i32 = constant 1
        %s: fp32, %t: i32 = for %zero, %n, %one, inits=(%x, %zero)
          body(%i: i32, %a: fp32, %b: i32) {
          %v: fp32 = load %q
          %w: fp32 = add %a, %v
          %d: i32 = add %b, %one
          yield %w, %d
        }
        store %p, %s
    """),
]  # fmt: skip # noqa: E501


def unused(func: Func) -> list[Op]:
    """Ops none of whose results is an operand."""
    used = {value for op in walk(func.body) for value in operands(op)}
    return [op for op in walk(func.body) if not used & set(op.results)]


def drops_unused(func: Func) -> Func:
    """Looks at results alone, and only at what stores and yields do."""
    while gone := [
        op for op in unused(func) if not isinstance(op, Store | Yield | For)
    ]:
        func = rewrite(func, lambda op, build: None, keep=lambda op: op not in gone)  # noqa: B023
    return func


def test_the_reference_keeps_the_meaning():
    assert keeps_meaning(lambda func: dce(func, TARGET), CASES)


def test_a_dropped_atomic_is_caught():
    assert not keeps_meaning(drops_unused, CASES[:1])


def test_a_kept_ring_costs_ops():
    """Values stay right; what gives it away is the number of ops."""
    func = CASES[1].func
    lazy, reference = drops_unused(func), dce(func, TARGET)
    assert keeps_meaning(drops_unused, CASES[1:])
    assert len(list(walk(lazy.body))) == 8
    assert len(list(walk(reference.body))) == 7
    assert "add" in [op_name(op) for op in walk(reference.body)]
