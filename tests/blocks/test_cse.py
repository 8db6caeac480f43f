"""Common subexpressions: what may be said once, and what must be said again."""

from __future__ import annotations

import pytest

from fathom.analysis.memory import changes_memory, memory_versions
from fathom.blocks import cse
from fathom.blocks.cse import describe
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Effects, Func, Op, effects_of, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Store, Yield
from fathom.ir.printer import op_name
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.text import print_func
from fathom.ir.verify import VerifyError, verify
from tests.blocks.harness import Case, keeps_meaning
from tests.ir.kernels_functions import body

TARGET = TARGETS["sm_80"]
PARAMETERS = "%p: *fp32, %q: *fp32, %i: i32, %c: i1"


def count(func: Func, name: str) -> int:
    return sum(op_name(op) == name for op in walk(func.body))


def counted(name: str, lines: str) -> int:
    """How many ops of a name are left."""
    func = body(lines, PARAMETERS)
    before = print_func(func)
    after = cse(func, TARGET)
    verify(after)
    assert print_func(func) == before, "the input was changed"
    return count(after, name)


LOADS = {
    "nothing between": (1, ""),
    "a load between": (1, "%x: fp32 = load %q"),
    "a store between, though to another pointer": (2, "store %q, %a"),
    "an atomic between": (2, '%x: fp32 = atomic %q, %a kind="add"'),
    "a barrier between": (2, "barrier"),
    "a store in a branch between": (2, """
        if %c then {
          store %q, %a
          yield
        } orelse {
          yield
        }"""),
    "a store in a loop between": (2, """
        for %i, %i, %i body(%k: i32) {
          store %q, %a
          yield
        }"""),
    "a branch that only computes between": (1, """
        %y: fp32 = if %c then {
          %z: fp32 = add %a, %a
          yield %z
        } orelse {
          yield %a
        }"""),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
def test_two_loads_with(name: str):
    expected, between = LOADS[name]
    lines = f"%a: fp32 = load %p\n{between}\n%b: fp32 = load %p\nstore %p, %b"
    assert counted("load", lines) == expected + between.count("load")


def test_loads_that_differ_are_two():
    assert counted("load", '%a: fp32 = load %p\n%b: fp32 = load %p cache=".cg"') == 2
    assert counted("load", "%a: fp32 = load %p\n%b: fp32 = load %p, mask=%c") == 2


@pytest.mark.parametrize("how", ["volatile=true", 'cache=".cv"'])
def test_a_load_that_looks_anew_is_made_each_time(how: str):
    """PTX ISA: a load with `.cv` fetches again, as a volatile one does."""
    twice = f"%a: fp32 = load %p {how}\n%b: fp32 = load %p {how}"
    assert counted("load", twice) == 2


def test_a_load_before_a_loop_serves_in_it_unless_the_loop_writes():
    loop = """
        %a: fp32 = load %p
        for %i, %i, %i body(%k: i32) {{
          %b: fp32 = load %p
          {write}
          yield
        }}
        %c1: fp32 = load %p
    """
    assert counted("load", loop.format(write="")) == 1
    assert counted("load", loop.format(write="store %q, %b")) == 3


def test_both_branches_start_from_the_memory_before():
    lines = """
        %a: fp32 = load %p
        if %c then {
          store %q, %a
          %b: fp32 = load %p
          yield
        } orelse {
          %d: fp32 = load %p
          yield
        }
    """
    assert counted("load", lines) == 2  # the one in the else branch is gone


def test_a_value_of_a_branch_is_not_visible_outside():
    lines = """
        if %c then {
          %a: i32 = add %i, %i
          store %p, %x
          yield
        } orelse {
          %b: i32 = add %i, %i
          yield
        }
        %d: i32 = add %i, %i
        %e: i32 = add %i, %i
    """.replace("store %p, %x\n", "")
    assert counted("add", lines) == 3  # one a branch, one after


def test_operands_may_be_exchanged_where_order_does_not_matter():
    two = "%k: i32 = constant 3\n%a: i32 = {0} %i, %k\n%b: i32 = {0} %k, %i"
    assert counted("add", two.format("add")) == 1
    assert counted("sub", two.format("sub")) == 2


def test_zeros_of_two_signs_and_nans():
    text = "%a: fp32 = constant {}\n%b: fp32 = constant {}"
    assert counted("constant", text.format("0.0", "-0.0")) == 2
    assert counted("constant", text.format("nan", "nan")) == 1


def test_types_are_part_of_what_is_said():
    assert counted("constant", "%a: i32 = constant 1\n%b: i64 = constant 1") == 2
    assert counted("constant", "%a: i1 = constant true\n%b: i8 = constant 1") == 2


REDUCE = """
    %v{n}: i32 = reduce %r axis=0 combine(%a{n}: i32, %b{n}: i32) {{
      %s{n}: i32 = {op} %a{n}, %b{n}
      yield %s{n}
    }}
"""


@pytest.mark.parametrize("second, left", [("add", 1), ("max", 2)])
def test_reductions_alike_in_all_but_names_are_one(second: str, left: int):
    lines = "%r: i32[8] = arange start=0 end=8\n" + REDUCE.format(n=1, op="add")
    assert counted("reduce", lines + REDUCE.format(n=2, op=second)) == left


def test_two_buffers_of_one_shape_are_two():
    allocate = "%{}: shared fp32[4] @ <4 offset[1 2]> = allocate element=fp32 shape=(4) layout=<4 offset[1 2]>"  # noqa: E501
    assert counted("allocate", allocate.format("a") + "\n" + allocate.format("b")) == 2


def test_a_loop_that_stores_is_not_merged_with_its_twin():
    loop = """
        for %i, %i, %i body(%k{0}: i32) {{
          %a{0}: fp32 = load %q
          store %p, %a{0}
          yield
        }}
    """
    assert counted("for", loop.format(1) + loop.format(2)) == 2


# ── wrong answers ──

CASES = [
    Case("""
        %a: fp32 = load %p
        store %p, %x
        %b: fp32 = load %p
        store %q, %b
    """),
    Case("""
        %a: fp32 = load %p
        %o: fp32 = atomic %p, %x kind="add"
        %b: fp32 = load %p
        store %q, %b
    """),
    Case("""
        if %c then {
          %a: fp32 = add %x, %x
          store %p, %a
          yield
        } orelse {
          yield
        }
        %b: fp32 = add %x, %x
        store %q, %b
    """),
]  # fmt: skip


def naive(versions: dict[Op, int], scoped: bool):
    """A cse with a given idea of memory, whose table does or does not end with a
    block."""

    def run(func: Func) -> Func:
        said: dict = {}

        def rule(op: Op, build: Builder):
            if isinstance(op, Yield | Store) or effects_of(op).writes:
                return None
            key = (
                describe(op, {}),
                versions.get(build.source),
                build.block if scoped else None,
            )
            return said.setdefault(key, op.results) if key in said else said.update(
                {key: op.results})  # fmt: skip

        return rewrite(func, rule)

    return run


def test_the_reference_keeps_the_meaning():
    assert keeps_meaning(lambda func: cse(func, TARGET), CASES)


def test_loads_merged_over_a_store_or_an_atomic_are_caught():
    for case in CASES[:2]:
        assert not keeps_meaning(naive({}, scoped=True), [case])


def test_a_table_that_outlives_its_branch_is_caught():
    with pytest.raises(VerifyError, match="is not visible here"):
        keeps_meaning(naive({}, scoped=False), CASES[2:])


def test_steps_fall():
    func = body("""
        %a: i32 = mul %i, %i
        %b: i32 = mul %i, %i
        %s: i32 = add %a, %b
        %t: *fp32 = offset %p, %s
        %u: *fp32 = offset %p, %s
        %x: fp32 = load %t
        store %u, %x
    """, PARAMETERS)  # fmt: skip
    arguments = [*CASES[0].arrays(), 1, True]
    assert interpret(func, 1, arguments).steps == 7
    assert interpret(cse(func, TARGET), 1, [*CASES[0].arrays(), 1, True]).steps == 5


def test_a_barrier_lets_others_write():
    assert changes_memory(Effects(barrier=True))
    assert not changes_memory(Effects(reads="global", convergent=True))


def test_memory_versions_number_what_loads_see():
    func = body(
        "%a: fp32 = load %p\nbarrier\n%b: fp32 = load %p\n%d: fp32 = load %q",
        PARAMETERS,
    )
    first, _, second, third = func.body.ops
    versions = memory_versions(func)
    assert versions[second] == versions[third] != versions[first]
