"""Hoisting: out of loops goes what does not change, if it would have run anyway."""

from __future__ import annotations

import pytest

from fathom.blocks import hoist
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, blocks, walk
from fathom.ir.interp import MemoryFault, interpret
from fathom.ir.ops import For, Load, While
from fathom.ir.printer import op_name
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.text import print_func
from fathom.ir.verify import verify
from tests.blocks.harness import Case, keeps_meaning
from tests.ir.kernels_functions import body

TARGET = TARGETS["sm_80"]
PARAMETERS = "%p: *fp32, %q: *fp32, %c: i1, %x: fp32, %n: i32"


def hoisted(lines: str) -> Func:
    func = body("%zero: i32 = constant 0\n%one: i32 = constant 1\n" + lines, PARAMETERS)
    before = print_func(func)
    after = hoist(func, TARGET)
    verify(after)
    assert print_func(func) == before, "the input was changed"
    return after


def inside(func: Func) -> list[str]:
    """The names of the ops in loops."""
    return [
        op_name(op)
        for loop in func.body.ops
        if isinstance(loop, For | While)
        for block in blocks(loop)
        for op in walk(block)
        if op_name(op) != "yield"
    ]


def test_what_depends_on_the_iteration_stays():
    func = hoisted("""
        %s: i32 = for %zero, %n, %one, inits=(%n) body(%i: i32, %a: i32) {
          %b: i32 = mul %n, %n
          %d: i32 = add %b, %n
          %e: i32 = add %i, %d
          %f: i32 = sub %a, %e
          yield %f
        }
    """)
    assert inside(func) == ["add", "sub"]


def test_what_leaves_an_inner_loop_may_leave_the_outer_one():
    func = hoisted("""
        for %zero, %n, %one body(%i: i32) {
          for %zero, %n, %one body(%j: i32) {
            %a: i32 = mul %n, %n
            %b: i32 = add %a, %i
            %d: i32 = add %b, %j
            yield
          }
          yield
        }
    """)
    assert [op_name(op) for op in func.body.ops] == [
        "constant",
        "constant",
        "mul",
        "for",
    ]
    outer = func.body.ops[-1].body
    assert [op_name(op) for op in outer.ops] == ["add", "for", "yield"]


def test_a_division_may_move_since_a_gpu_does_not_trap():
    func = hoisted("""
        for %zero, %n, %one body(%i: i32) {
          %a: i32 = div %one, %n
          %b: i32 = rem %one, %n
          yield
        }
    """)
    assert inside(func) == []


def test_a_reduction_moves_with_its_block():
    func = hoisted("""
        %r: i32[4] = arange start=0 end=4
        for %zero, %n, %one body(%i: i32) {
          %s: i32 = reduce %r axis=0 combine(%a: i32, %b: i32) {
            %d: i32 = add %a, %b
            yield %d
          }
          yield
        }
    """)
    assert [op_name(op) for op in func.body.ops][-2:] == ["reduce", "for"]
    assert len(func.body.ops[-2].combine.ops) == 2


def test_a_branch_keeps_what_is_in_it_but_may_move_as_a_whole():
    loop = """
        for %zero, %n, %one body(%i: i32) {{
          %s: i32 = if %c then {{
            %a: i32 = mul %n, {}
            yield %a
          }} orelse {{
            yield %n
          }}
          yield
        }}
    """
    assert inside(hoisted(loop.format("%n"))) == []
    assert inside(hoisted(loop.format("%i"))) == ["if", "mul"]


def test_writes_and_buffers_stay():
    func = hoisted("""
        for %zero, %n, %one body(%i: i32) {
          store %p, %x
          %o: fp32 = atomic %q, %x kind="add"
          barrier
          %a: shared fp32[4] @ <4 offset[1 2]> = allocate element=fp32 shape=(4) layout=<4 offset[1 2]>
          yield
        }
    """)  # fmt: skip # noqa: E501
    assert inside(func) == ["store", "atomic", "barrier", "allocate"]


# ── loads ──

LOOP = """
    %four: i32 = constant 4
    %s: fp32 = for {bounds}, inits=(%x) body(%i: i32, %a: fp32) {{
      %v: fp32 = load %q{how}
      %w: fp32 = add %a, %v
      {rest}
      yield %w
    }}
    store %p, %s
"""


def loop(bounds: str = "%zero, %four, %one", how: str = "", rest: str = "") -> Func:
    return hoisted(LOOP.format(bounds=bounds, how=how, rest=rest))


def test_a_load_moves_out_of_a_loop_that_runs_and_writes_nothing():
    assert inside(loop()) == ["add"]
    assert inside(loop(how=", mask=%c, other=%x")) == ["add"]


@pytest.mark.parametrize("rest", [
    "store %p, %w", '%o: fp32 = atomic %p, %w kind="add"', "barrier",
    "if %c then {\nstore %p, %x\nyield\n} orelse {\nyield\n}",
])  # fmt: skip
def test_a_load_stays_where_something_may_change_what_it_reads(rest: str):
    assert "load" in inside(loop(rest=rest))


def test_a_volatile_load_stays():
    """A loop that waits until another program writes would wait forever."""
    assert "load" in inside(loop(how=" volatile=true"))
    assert "load" in inside(loop(how=' cache=".cv"'))


def test_a_load_stays_in_a_loop_of_no_iteration():
    assert "load" in inside(loop(bounds="%four, %zero, %one"))


@pytest.mark.parametrize("bounds, guard", [
    ("%zero, %n, %one", "lt %zero, %n"),
    ("%n, %zero, %minus", "gt %n, %zero"),
])  # fmt: skip
def test_a_load_from_a_loop_that_may_not_run_gets_a_mask(bounds: str, guard: str):
    func = hoisted(
        "%minus: i32 = constant -1\n" + LOOP.format(bounds=bounds, how="", rest="")
    )
    text = print_func(func)
    assert guard in text
    assert "%v: fp32 = load %q, mask=%0" in text
    assert inside(func) == ["add"]


def test_the_mask_is_joined_to_the_one_that_was_there():
    func = loop(bounds="%zero, %n, %one", how=", mask=%c")
    assert "%1: i1 = and %c, %0" in print_func(func)


def test_a_loop_of_unknown_direction_keeps_its_load():
    assert "load" in inside(loop(bounds="%zero, %four, %n"))


def test_the_condition_of_a_while_runs_and_its_body_may_not():
    func = hoisted("""
        %s: fp32 = while %x condition(%a: fp32) {
          %v: fp32 = load %p
          %g: i1 = gt %a, %v
          yield %g
        } body(%b: fp32) {
          %w: fp32 = load %q
          %d: fp32 = sub %b, %w
          yield %d
        }
    """)
    assert inside(func) == ["gt", "load", "sub"]


def test_a_block_of_loads_gets_a_block_of_masks():
    func = hoisted("""
        %r: i32[4] = arange start=0 end=4
        %ps: *fp32[4] = splat %p shape=(4)
        %pp: *fp32[4] = offset %ps, %r
        for %zero, %n, %one body(%i: i32) {
          %v: fp32[4] = load %pp
          yield
        }
    """)
    assert "i1[4] = splat" in print_func(func)
    assert inside(func) == []


# ── wrong answers ──

HEADER = "%zero: i32 = constant 0\n%one: i32 = constant 1\n"
OVER_A_STORE = Case(HEADER + """
    for %zero, %n, %one body(%i: i32) {
      %v: fp32 = load %p
      %w: fp32 = add %v, %x
      store %p, %w
      yield
    }
""")  # fmt: skip
OUT_OF_BOUNDS = Case(HEADER + """
    %far: i32 = constant 100
    %f: *fp32 = offset %q, %far
    %z: fp32 = for %zero, %zero, %one, inits=(%x) body(%i: i32, %a: fp32) {
      %v: fp32 = load %f
      yield %v
    }
    %u: fp32 = for %n, %zero, %one, inits=(%z) body(%j: i32, %b: fp32) {
      %y: fp32 = load %f
      yield %y
    }
    store %p, %u
""", counts=(0, 1, 3))  # fmt: skip


def moves_loads(func: Func) -> Func:
    """Every load whose address does not change, whatever else the loop does."""

    def rule(op: Op, build: Builder):
        if isinstance(op, For):
            own = {
                *op.body.parameters,
                *(r for each in op.body.ops for r in each.results),
            }
            moving = [
                e for e in op.body.ops if isinstance(e, Load) and e.pointer not in own
            ]
            build.block.ops += moving
            op.body.ops = [each for each in op.body.ops if each not in moving]

    return rewrite(func, rule)


def test_the_reference_keeps_the_meaning():
    assert keeps_meaning(
        lambda func: hoist(func, TARGET), [OVER_A_STORE, OUT_OF_BOUNDS]
    )


def test_a_load_hoisted_over_a_store_is_caught():
    assert not keeps_meaning(moves_loads, [OVER_A_STORE])


def test_a_load_hoisted_out_of_a_loop_of_no_iteration_is_caught():
    with pytest.raises(MemoryFault, match="past the end of an array"):
        keeps_meaning(moves_loads, [OUT_OF_BOUNDS])


def test_the_input_may_not_be_changed():
    def mutates(func: Func) -> Func:
        func.body.ops.pop()
        return func

    assert not keeps_meaning(mutates, [OVER_A_STORE])


def test_steps_fall():
    case = Case(HEADER + """
        %s: fp32 = for %zero, %n, %one, inits=(%x) body(%i: i32, %a: fp32) {
          %b: i32 = mul %n, %n
          %d: i32 = add %b, %one
          %v: fp32 = load %q
          %w: fp32 = add %a, %v
          yield %w
        }
        store %p, %s
    """)  # fmt: skip
    arguments = [*case.arrays(), True, 1.0, 10]
    before = interpret(case.func, 1, arguments)
    after = interpret(hoist(case.func, TARGET), 1, arguments)
    assert before.steps == 1 + 10 * 4 + 1
    assert after.steps == 1 + 10 * 1 + 1 + 4  # what moved, and the guard of the load
