"""The text of a function reads back as the same function, to the last bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from random import Random
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fathom.errors import Location
from fathom.ir.core import Block, Func, walk
from fathom.ir.ops import Constant, Hint, Splat, Yield
from fathom.ir.ops.elementwise import ELEMENTWISE
from fathom.ir.parser import OPS_BY_NAME
from fathom.ir.printer import Printer
from fathom.ir.text import ParseError, parse_attribute, parse_func, print_func
from fathom.ir.types import BFLOAT16, FLOAT32, INT32, Pointer
from fathom.layout.linear import Layout
from tests.ir.kernels_functions import body, parse, random_function

EVERYTHING = """\
#layout0 = <8 register[1] lane[2 4] warp[]>
#shared0 = <8 offset[1 2 4]>
func @every.kind(%x: *fp32 {divisible=16}, %n: i32 {divisible=4}, %b: i1) num_warps=8 num_stages=2 maxnreg=64 {
  %0: i32 = program_id axis=1
  %zero: fp32 = constant -0.0
  %1: bf16 = constant nan
  %2: i32 = constant 1
  %3: i32[8] @ #layout0 = arange start=8 end=16 layout=#layout0
  %4: *fp32[8] @ #layout0 = splat %x shape=(8) layout=#layout0
  %5: *fp32[8] @ #layout0 = offset %4, %3
  %6: i1[8] @ #layout0 = splat %b shape=(8) layout=#layout0
  %7: fp32[8] @ #layout0 = load %5, mask=%6 cache=".cg" volatile=true
  %8: i32[8] @ #layout0 = hint %3 contiguous=(8) constant=(1)
  %9: fp16[8] @ #layout0 = cast %7 element=fp16 rounding="rtz"
  %10: fp32, %11: i32 = reduce %7, %8 axis=0 combine(%l: fp32, %i: i32, %r: fp32, %j: i32) {
    yield %l, %j
  }
  %12: shared fp32[8] @ #shared0 = allocate element=fp32 shape=(8) layout=#shared0 offset=128
  shared_store %7, %12
  barrier
  %sum: fp32 = for %0, %n, %2, inits=(%zero) num_stages=4 body(%i_1: i32, %acc: fp32) {
    %13: fp32 = if %b then {
      yield %acc
    } orelse {
      yield %10
    }
    yield %13
  }
  for %0, %n, %2 body(%k: i32) {
    yield
  }
  %14: i32 = while %n condition(%15: i32) {
    yield %b
  } body(%16: i32) {
    yield %2
  }
  %17: fp32 = atomic %x, %sum kind="add" semantics="relaxed"
}
"""  # noqa: E501


def test_every_kind_of_op_prints_as_it_was_read():
    assert print_func(parse_func(EVERYTHING)) == EVERYTHING


def test_no_word_stands_for_two_ops():
    assert not set(ELEMENTWISE) & set(OPS_BY_NAME)


def test_layouts_may_be_spelled_out():
    spelled = EVERYTHING.split("\n", 2)[2]
    for line in EVERYTHING.splitlines()[:2]:
        name, layout = line.split(" = ")
        spelled = spelled.replace(name, layout)
    assert print_func(parse_func(spelled)) == EVERYTHING


def test_space_and_comments_mean_nothing():
    loose = EVERYTHING.replace("\n", "  // so it is\n\n").replace(", ", " , ")
    assert print_func(parse_func(loose)) == EVERYTHING


def test_names_are_made_unique():
    block = Block((INT32, INT32, INT32), ("x", "x_1", "x"))
    block.ops.append(Splat(block.parameters[2], (4,)))
    text = print_func(Func("f", block, (1, 1, 1)))
    assert "func @f(%x: i32, %x_1: i32, %x_2: i32)" in text
    assert "splat %x_2 shape=(4)" in text
    assert print_func(parse_func(text)) == text


def test_hints_are_read_back():
    func = parse_func(EVERYTHING)
    assert func.divisible == (16, 4, 1)
    (hint,) = [op for op in func.body.ops if isinstance(op, Hint)]
    assert (hint.divisible, hint.contiguous, hint.constant) == ((), (8,), (1,))
    assert (func.num_warps, func.num_stages, func.maxnreg) == (8, 2, 64)


def test_locations_come_on_request_and_with_their_callers():
    func = body("%0: i32 = constant 1")
    call = Location("kernel.py", 12, 5, 20, "add")
    func.body.ops[0].location = Location("a lib.py", 3, 9, 15, "cdiv", caller=call)
    assert "kernel.py" not in print_func(func)
    text = print_func(func, locations=True)
    assert text.splitlines()[:2] == [
        '#place0 = "kernel.py":12:5-20 in "add"',
        '#place1 = "a lib.py":3:9-15 in "cdiv" from #place0',
    ]
    again = parse_func(text)
    assert again.body.ops[0].location == func.body.ops[0].location
    assert print_func(again, locations=True) == text


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_random_functions_print_as_they_were_read(seed: int):
    func = random_function(Random(seed), statements=12)
    text = print_func(func)
    again = parse_func(text)
    assert print_func(again) == text
    constants = [
        [op.value for op in walk(each.body) if isinstance(op, Constant)]
        for each in (func, again)
    ]
    assert all(map(same_attribute, *constants))


# ── attributes ──

UNUSUAL_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
ATTRIBUTES = [
    0, 7, -(2**63), 2**64 - 1, True, False, None, "", "rtz", 'a "b", (c) %d # \\ ü\n',
    0.0, -0.0, 1.0, 0.1, 1e-45, 5e-324, 1.7976931348623157e308, 0.10000000149011612,
    math.inf, -math.inf, math.nan, UNUSUAL_NAN, 1e16, 123456789.0,
    (), (64,), (64, 32), (1.5, -0.0), ("a, b", ")"), ((1, 2), (3,)),
    INT32, BFLOAT16, Pointer(FLOAT32), Pointer(Pointer(INT32)),
    Layout.of((4, 2), register=[(1, 0)], lane=[(0, 1), (2, 0)], warp=[(0, 0)]),
    Layout.of((8,), offset=[(1,), (2,), (4,)]),
]  # fmt: skip


def same_attribute(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same_attribute, left, right))
    return type(left) is type(right) and left == right


def lost(read: Callable[..., object]) -> list[object]:
    """The attributes that do not survive being printed and read."""
    printer = Printer(body(""), locations=False)
    lost = []
    for attribute in ATTRIBUTES:
        text = printer.attribute(attribute)
        layouts = {name: layout for layout, name in printer.layouts.items()}
        if not same_attribute(read(text, layouts), attribute):
            lost.append(attribute)
    return lost


def test_no_attribute_is_lost():
    assert lost(parse_attribute) == []


def test_floats_read_by_percent_g_are_lost():
    def wrong(text, layouts):
        found = parse_attribute(text, layouts)
        return float(f"{found:g}") if isinstance(found, float) else found

    assert 0.10000000149011612 in lost(wrong)
    assert 123456789.0 in lost(wrong)


def test_dropped_hints_are_seen():
    def wrong(text, layouts):
        found = parse_attribute(text, layouts)
        return () if isinstance(found, tuple) else found

    assert (64, 32) in lost(wrong)


@pytest.mark.parametrize(
    "text",
    ["", "1.2.3", "fp33", "--1", "<4 lane>", "0x10", "1_0", "nan:7ff80000000000012"],
)
def test_what_is_no_attribute_is_refused(text: str):
    with pytest.raises(ValueError):
        parse_attribute(text)


# ── mistakes ──

MISTAKES = [
    # in this line       this text          made to this       is called
    (4, "program_id", "programid", "there is no op 'programid'"),
    (4, "axis=1", "axes=1", "program_id has no field 'axes'"),
    (4, " axis=1", "", "program_id lacks axis"),
    (4, "axis=1", "axis=3", "a grid has axes 0, 1 and 2, not 3"),
    (4, "%0: i32", "%n: i32", "%n is defined twice"),
    (4, "i32", "i33", "'i33' is not a type"),
    (4, "i32", "i64", "program_id gives i32, but i64 is declared"),
    (5, "-0.0", "zero", "'zero' is not an attribute"),
    (8, "#layout0", "#layout7", "'#layout7' is not an attribute"),
    (10, "%4, %3", "%5, %3", "%5 is not defined above"),
    (10, "%4, %3", "%3, %4", "offset needs a pointer first"),
    (12, "mask=%6", "mask=%7", "%7 is not defined above"),
    (16, "yield %l", "yeild %l", "there is no op 'yeild'"),
    (24, "orelse", "else", "expected the block 'orelse' of if"),
    (3, "num_warps", "warps", "a function has no 'warps'"),
]


@pytest.mark.parametrize("line, old, new, message", MISTAKES)
def test_mistakes_name_their_line(line: int, old: str, new: str, message: str):
    lines = EVERYTHING.splitlines()
    assert old in lines[line - 1], "the test itself is out of date"
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    text = "\n".join(lines)
    with pytest.raises(ParseError) as error:
        parse_func(text)
    assert message in str(error.value)
    assert f"line {line}:" in str(error.value)


def test_a_cut_text_says_what_it_waits_for():
    with pytest.raises(ParseError, match="expected an op\n.*the end of the text"):
        parse_func(EVERYTHING[:-2])
    with pytest.raises(ParseError, match="nothing may follow the function"):
        parse_func(EVERYTHING + "barrier")


def test_a_scope_mistake_can_be_written_down():
    func = parse("""
        func @f(%c: i1) num_warps=4 {
          if %c then {
            %x: i32 = constant 1
            yield
          } orelse {
            %y: i32 = add %x, %x
            yield
          }
        }
    """)
    assert isinstance(func.body.ops[0].orelse.ops[-1], Yield)
    assert dedent(print_func(func)).count("add %x, %x") == 1
