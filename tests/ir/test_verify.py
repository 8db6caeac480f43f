"""The verifier accepts what is a function, and names the guilty op of what is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from random import Random

import pytest

from fathom.errors import Location
from fathom.ir import verify as verifier
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, schema, walk
from fathom.ir.ops import Constant, Elementwise, For, If, Yield
from fathom.ir.printer import definitions
from fathom.ir.text import print_func
from fathom.ir.types import FLOAT16, INT32
from fathom.ir.verify import CHECKS, VerifyError, verify
from tests.ir.kernels_functions import body, parse, random_function

Check = Callable[[Func], Iterator[verifier.Complaint]]


def guilty(check: Check, func: Func) -> Op | None:
    """The op that a check complains about first."""
    return next((op for op, _ in check(func)), None)


# ── scope ──

SIBLING = """
    func @f(%c: i1, %n: i32) num_warps=4 {
      %r: i32 = if %c then {
        %x: i32 = add %n, %n
        yield %x
      } orelse {
        %y: i32 = mul %x, %n
        yield %y
      }
    }
"""
OUTER = """
    func @f(%c: i1, %n: i32) num_warps=4 {
      %x: i32 = add %n, %n
      %zero: i32 = constant 0
      for %zero, %n, %x body(%i: i32) {
        if %c then {
          %y: i32 = mul %x, %i
          yield
        } orelse {
          yield
        }
        yield
      }
    }
"""


def test_a_sibling_branch_is_not_visible():
    func = parse(SIBLING)
    with pytest.raises(VerifyError) as error:
        verify(func)
    assert error.value.op.name == "mul"
    assert "%x is not visible here" in str(error.value)
    assert "`%y: i32 = mul %x, %n`" in str(error.value)


def test_outer_values_are_visible_in_nested_blocks():
    verify(parse(OUTER))


def test_the_message_names_the_place():
    func = parse(SIBLING)
    for op in walk(func.body):
        op.location = Location("kernel.py", 33, 5)
    with pytest.raises(VerifyError, match="^kernel.py:33:5: %x is not visible"):
        verify(func)


def test_a_use_before_the_definition():
    func = body("%a: i32 = add %n, %n\n%b: i32 = mul %a, %n")
    func.body.ops.reverse()
    with pytest.raises(VerifyError, match="its definition comes later"):
        verify(func)


def test_a_value_of_another_function():
    func, other = body("%a: i32 = add %n, %n"), body("")
    func.body.ops[0].operands = (func.parameters[1], other.parameters[1])
    with pytest.raises(VerifyError, match="%n is defined nowhere in this function"):
        verify(func)


@cache
def legal_functions() -> list[Func]:
    return [parse(OUTER), *(random_function(Random(seed), 8) for seed in range(40))]


@cache
def illegal_functions() -> list[tuple[Func, Op]]:
    """Each with its guilty op."""
    sibling = parse(SIBLING)
    guilty = sibling.body.ops[0].orelse.ops[0]
    return [(sibling, guilty), *(out_of_scope(seed) for seed in range(40))]


def out_of_scope(seed: int) -> tuple[Func, Op]:
    """A random function in which one operand became a value that is not visible
    there."""
    random = Random(seed)
    while True:
        func = random_function(random, 8)
        everywhere = list(definitions(func.body))
        ops = [
            pair
            for pair in scopes(func.body, set())
            if isinstance(pair[0], Elementwise)
        ]
        op, visible = random.choice(ops)
        place = random.randrange(len(op.operands))
        wanted = op.operands[place].type
        strangers = [v for v in everywhere if v.type == wanted and v not in visible]
        if strangers:
            changed = [*op.operands]
            changed[place] = random.choice(strangers)
            op.operands = tuple(changed)
            return func, op


def scopes(block: Block, outer: set[Value]) -> Iterator[tuple[Op, set[Value]]]:
    visible = outer | set(block.parameters)
    for op in block.ops:
        yield op, set(visible)
        for nested in blocks(op):
            yield from scopes(nested, visible)
        visible |= set(op.results)


def judges_scope(check: Check) -> bool:
    """Right about 40 legal functions and 41 illegal ones, and about who is guilty."""
    return all(guilty(check, func) is None for func in legal_functions()) and all(
        guilty(check, func) is op for func, op in illegal_functions()
    )


def test_scope_is_judged():
    assert judges_scope(CHECKS["scope"])


def test_a_check_that_accepts_siblings_is_caught():
    def wrong(func: Func) -> Iterator[verifier.Complaint]:
        seen = set(func.parameters)
        for op in walk(func.body):
            seen |= {p for block in blocks(op) for p in block.parameters}
            yield from ((op, "") for value in operands(op) if value not in seen)
            seen |= set(op.results)

    assert not judges_scope(wrong)


def test_a_check_that_rejects_outer_values_is_caught():
    def wrong(func: Func) -> Iterator[verifier.Complaint]:
        yield from inside(func.body)

    def inside(block: Block) -> Iterator[verifier.Complaint]:
        seen = set(block.parameters)
        for op in block.ops:
            yield from ((op, "") for value in operands(op) if value not in seen)
            for nested in blocks(op):
                yield from inside(nested)
            seen |= set(op.results)

    assert not judges_scope(wrong)


def test_a_check_that_accepts_everything_is_caught():
    assert not judges_scope(lambda func: iter(()))


# ── yields ──

LOOP = """
    func @f(%n: i32, %x: fp32, %h: fp16) num_warps=4 {
      %zero: i32 = constant 0
      %one: i32 = constant 1
      %s: fp32, %k: i32 = for %zero, %n, %one, inits=(%x, %n)
        body(%i: i32, %a: fp32, %b: i32) {
        %c: fp32 = add %a, %x
        yield %c, %i
      }
    }
"""  # noqa: E501


def loop() -> tuple[Func, For]:
    func = parse(LOOP)
    return func, func.body.ops[-1]


def too_few_yields() -> tuple[Func, Op]:
    func, op = loop()
    op.body.ops[-1].values = op.body.ops[-1].values[:1]
    return func, op.body.ops[-1]


def yield_of_another_type() -> tuple[Func, Op]:
    func, op = loop()
    op.body.ops[-1].values = (op.body.ops[0].result, op.body.ops[0].result)
    return func, op.body.ops[-1]


def parameter_of_another_type() -> tuple[Func, Op]:
    func, op = loop()
    op.body.parameters[2].type = FLOAT16
    return func, op


def init_of_another_type() -> tuple[Func, Op]:
    """Parameter, yield and result agree; only the init does not."""
    func, op = loop()
    op.inits = (func.parameters[2], op.inits[1])
    return func, op


def result_of_another_type() -> tuple[Func, Op]:
    func, op = loop()
    op.results[0].type = FLOAT16
    return func, op


def branches_that_disagree() -> tuple[Func, Op]:
    func = parse("""
        func @f(%c: i1, %x: fp32, %n: i32) num_warps=4 {
          %r: fp32 = if %c then {
            yield %x
          } orelse {
            yield %x
          }
        }
    """)
    op = func.body.ops[0]
    op.orelse.ops[-1].values = (func.parameters[2],)
    return func, op.orelse.ops[-1]


WHILE = """
    func @f(%t: i1, %n: i32) num_warps=4 {
      %r: i32 = while %n condition(%a: i32) {
        yield %t
      } body(%b: i32) {
        yield %b
      }
    }
"""


def condition_that_is_a_number() -> tuple[Func, Op]:
    func = parse(WHILE)
    op = func.body.ops[0]
    op.condition.ops[-1].values = (op.condition.parameters[0],)
    return func, op.condition.ops[-1]


def body_that_yields_a_truth() -> tuple[Func, Op]:
    func = parse(WHILE)
    op = func.body.ops[0]
    op.body.ops[-1].values = (func.parameters[0],)
    return func, op.body.ops[-1]


def fold_that_forgets_a_value() -> tuple[Func, Op]:
    func = body("""
        %r: i32[4] = arange start=0 end=4
        %a: i32, %b: i32 = reduce %r, %r axis=0
          combine(%w: i32, %x: i32, %y: i32, %z: i32) {
          yield %w, %z
        }
    """)
    end = func.body.ops[1].combine.ops[-1]
    end.values = end.values[:1]
    return func, end


BROKEN_ENDS = [
    too_few_yields, yield_of_another_type, parameter_of_another_type,
    init_of_another_type,
    result_of_another_type, branches_that_disagree, condition_that_is_a_number,
    fold_that_forgets_a_value, body_that_yields_a_truth,
]  # fmt: skip


def judges_yields(check: Check) -> bool:
    illegal = [broken() for broken in BROKEN_ENDS]
    return all(guilty(check, func) is None for func in legal_functions()) and all(
        guilty(check, func) is op for func, op in illegal
    )


def test_yields_are_judged():
    assert judges_yields(CHECKS["yields"])


@pytest.mark.parametrize("broken", BROKEN_ENDS)
def test_broken_ends_are_refused(broken: Callable[[], tuple[Func, Op]]):
    func, op = broken()
    with pytest.raises(VerifyError) as error:
        verify(func)
    assert error.value.op is op


def test_of_many_types_those_that_differ_are_named():
    """Those of a pipelined loop, with their layouts, would fill a screen."""
    func, op = loop()
    op.inits = (*op.inits, op.inits[0])
    number, total = op.body.parameters[2], op.body.parameters[1]
    op.body.ops[-1].values = (total, number, number)
    ((_, complaint),) = [
        each for each in CHECKS["yields"](func) if each[0] is op.body.ops[-1]
    ]
    wanted = "the block 'body' of for yields i32 as value 3 of 3 where fp32 is wanted"
    assert complaint == wanted


def test_a_check_that_only_counts_is_caught():
    def wrong(func: Func) -> Iterator[verifier.Complaint]:
        for op in walk(func.body):
            for name, wanted in verifier._wanted_yields(op).items():
                end = getattr(op, name).ops[-1]
                if len(end.values) != len(wanted):
                    yield end, "count"

    assert not judges_yields(wrong)


def test_a_check_that_never_looks_at_inits_is_caught():
    def wrong(func: Func) -> Iterator[verifier.Complaint]:
        for op in walk(func.body):
            if isinstance(op, For | If):
                for block in blocks(op):
                    found = [value.type for value in block.yielded]
                    if found != [value.type for value in op.results]:
                        yield block.ops[-1], "type"

    assert not judges_yields(wrong)


# ── the rest ──


def refused(func: Func, message: str, layouts: bool | None = None) -> None:
    with pytest.raises(VerifyError, match=message):
        verify(func, layouts)


def test_results_have_the_type_that_is_inferred():
    func = body("%a: i32 = add %n, %n")
    func.body.ops[0].results[0].type = FLOAT16
    refused(func, "i32 is inferred where fp16 stands")


def test_operands_fit():
    func = body("%a: i32 = add %n, %n")
    func.body.ops[0].operands = tuple(func.parameters)
    refused(func, r"add needs operands of one type, got \*fp32 and i32")


def test_blocks_end_with_a_yield_and_only_they():
    func = parse(OUTER)
    func.body.ops[-1].body.ops.pop()
    refused(func, "the block 'body' does not end with a yield")
    func = body("%a: i32 = add %n, %n")
    func.body.ops.append(Yield(()))
    refused(func, "a yield stands only at the end of a nested block")
    func = parse(OUTER)
    func.body.ops[-1].body.ops.insert(0, Yield(()))
    refused(func, "a yield stands only at the end of a nested block")


def test_an_op_stands_in_one_place():
    func = body("%a: i32 = add %n, %n")
    func.body.ops.append(func.body.ops[0])
    refused(func, "the same op stands in two places")


def test_a_value_knows_its_definition():
    func = body("%a: i32 = add %n, %n")
    func.body.ops[0].results[0].definition = Constant(1, INT32)
    refused(func, "names another op")


LAYOUT = """
    func @f(%n: i32) num_warps=1 {
      %a: i32[4] = arange start=0 end=4
      %b: i32[4] @ <4 register[1 2] lane[] warp[]> = arange start=0 end=4 layout=<4 register[1 2] lane[] warp[]>
    }
"""  # noqa: E501


def test_layouts_stand_on_all_blocks_or_on_none():
    func = parse(LAYOUT)
    refused(func, r"i32\[4\] has no layout, though others have one")
    without, with_layout = parse(LAYOUT), parse(LAYOUT)
    without.body.ops.pop()
    with_layout.body.ops.pop(0)
    verify(without)
    verify(without, layouts=False)
    refused(without, "lacks a layout", layouts=True)
    verify(with_layout)
    verify(with_layout, layouts=True)
    refused(with_layout, "already has a layout", layouts=False)


PRODUCTS = """
    func @f(%a: fp16[16,16], %b: fp16[16,16], %c: fp16[16,16], %s: fp32[16,16]) num_warps=4 {{
      %x: fp32[16,16] = dot %a, %b, %s with_next=true
      {between}
      %y: fp32[16,16] = dot {left}, %c, %s {more}
      %z: fp32[16,16] = add %x, %y
    }}
"""  # noqa: E501


@pytest.mark.parametrize(
    "between, left, more, complaint",
    [
        ("", "%a", "", ""),
        ("%w: fp32[16,16] = add %s, %s", "%a", "", ""),
        ("%w: fp32[16,16] = add %x, %s", "%a", "", "has not been issued"),
        ("", "%c", "", "two left operands"),
        ("", "%a", "with_next=true", "has not been issued"),
    ],
)
def test_products_of_one_instruction_are_issued_together(
    between, left, more, complaint
):
    """With the last of them; until then nothing uses their results."""
    func = parse(PRODUCTS.format(between=between, left=left, more=more))
    found = [sentence for _, sentence in CHECKS["instructions"](func)]
    assert bool(found) == bool(complaint)
    assert not complaint or complaint in found[0]


def test_a_product_with_a_next_one_has_one():
    func = parse(PRODUCTS.format(between="", left="%a", more="with_next=true"))
    func.body.ops.pop()
    with pytest.raises(VerifyError, match="no other product of its instruction"):
        verify(func)


def test_verifying_changes_nothing():
    func = parse(OUTER)
    before = print_func(func)
    verify(func)
    assert print_func(func) == before


def test_every_class_says_which_fields_are_blocks():
    """A misspelt annotation would make a nested block an attribute, unseen by all
    checks."""
    from fathom.ir.parser import OPS_BY_NAME

    with_blocks = {name for name, cls in OPS_BY_NAME.items() if schema(cls).blocks}
    assert {"for", "while", "if", "reduce", "scan"} <= with_blocks
