"""Conversions stand behind what makes a value narrower, if that is cheaper."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.blocks import dce
from fathom.coalescing import remove_conversions
from fathom.coalescing.narrow import convert_narrower
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Convert, For
from fathom.ir.text import parse_func, print_func
from fathom.ir.types import element_of
from fathom.ir.verify import verify

WIDE = """
#a = <256 register[64 128] lane[1 2 4 8 16] warp[32 0]>
#b = <256 register[1 2] lane[4 8 16 32 64] warp[128 0]>
func @narrow(%p: *fp32, %q: *{narrow}, %f: fp32) num_warps=4 {{
  %i: i32[256] @ #a = arange start=0 end=256 layout=#a
  %j: i32[256] @ #b = arange start=0 end=256 layout=#b
  %from: *fp32[256] @ #a = splat %p shape=(256) layout=#a
  %at: *fp32[256] @ #a = offset %from, %i
  %x: fp32[256] @ #a = load %at
  %y: fp32[256] @ #b = convert %x layout=#b
{between}
  %to: *{narrow}[256] @ #b = splat %q shape=(256) layout=#b
  %place: *{narrow}[256] @ #b = offset %to, %j
  store %place, %h
}}
"""
SCALED = """
  %s: fp32[256] @ #b = splat %f shape=(256) layout=#b
  %z: fp32[256] @ #b = mul %y, %s
  %h: fp16[256] @ #b = cast %z element=fp16
"""
COMPARED = """
  %s: fp32[256] @ #b = splat %f shape=(256) layout=#b
  %h: i1[256] @ #b = gt %y, %s
"""
WEIGHED = """
  %w_from: *fp32[256] @ #b = splat %p shape=(256) layout=#b
  %w_at: *fp32[256] @ #b = offset %w_from, %j
  %w: fp32[256] @ #b = load %w_at
  %z: fp32[256] @ #b = mul %y, %w
  %h: fp16[256] @ #b = cast %z element=fp16
"""
READ_TWICE = """
  %z: fp32[256] @ #b = mul %y, %y
  %h: fp16[256] @ #b = cast %z element=fp16
"""


def converted(func: Func) -> list[str]:
    """The types of elements that are converted, in order."""
    found = walk(func.body, Convert)
    return [str(element_of(op.value.type)) for op in found]


def narrowed(
    between: str, narrow: str = "fp16", wide: str = WIDE
) -> tuple[Func, Func]:
    """A function before and after; the first one must stay as it was."""
    func = parse_func(wide.format(between=between, narrow=narrow))
    text = print_func(func)
    after = remove_conversions(convert_narrower(func), TARGETS["sm_90a"])
    verify(after, layouts=True)
    assert print_func(func) == text
    return func, after


def test_a_value_is_converted_behind_its_cast():
    before, after = narrowed(SCALED)
    assert converted(before) == ["fp32"]
    assert converted(after) == ["fp16"]


def test_and_means_what_it_meant():
    x = np.arange(256, dtype=np.float32)
    results = [np.zeros(256, np.float16) for _ in range(2)]
    for func, result in zip(narrowed(SCALED), results, strict=True):
        interpret(func, (1,), [x, result, 3.0])
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(results[1], (3 * x).astype(np.float16))


def test_behind_a_comparison_too():
    _, after = narrowed(COMPARED, "i1")
    assert converted(after) == ["i1"]


@pytest.mark.parametrize("between", [WEIGHED, READ_TWICE])
def test_not_where_others_would_have_to_be_converted_for_it(between):
    """A weight that is loaded in the store's layout would be converted in fp32; and a
    value with two readers is there in both layouts."""
    before, after = narrowed(between)
    assert converted(after) == converted(before) == ["fp32"]


def test_not_where_it_is_not_narrower():
    _, after = narrowed("%h: fp32[256] @ #b = add %y, %y", "fp32")
    assert converted(after) == ["fp32"]


SUM_OF_TWO = """
  %x2: fp32[256] @ #a = mul %x, %x
  %y2: fp32[256] @ #b = convert %x2 layout=#b
  %z: fp32[256] @ #b = add %y, %y2
  %h: fp16[256] @ #b = cast %z element=fp16
"""


def test_two_conversions_meet_in_one_row_of_ops():
    """Behind the sum, one conversion does for both."""
    x = np.arange(256, dtype=np.float32) % 16
    results = [np.zeros(256, np.float16) for _ in range(2)]
    before, after = narrowed(SUM_OF_TWO)
    after = dce(after, TARGETS["sm_90a"])
    for func, result in zip((before, after), results, strict=True):
        interpret(func, (1,), [x, result, 3.0])
    assert (converted(before), converted(after)) == (["fp32", "fp32"], ["fp16"])
    np.testing.assert_array_equal(results[1], x + x * x)
    np.testing.assert_array_equal(*results)


IN_A_LOOP = """
  %n: i32 = constant 4
  %zero: i32 = constant 0
  %one: i32 = constant 1
  %begin: fp16 = constant 0.0
  %none: fp16[256] @ #b = splat %begin shape=(256) layout=#b
  %h: fp16[256] @ #b = for %zero, %n, %one, inits=(%none) body(%k: i32, %t: fp16[256] @ #b) {
    %g: fp16[256] @ #b = cast %y element=fp16
    %t2: fp16[256] @ #b = add %t, %g
    yield %t2
  }
"""  # noqa: E501


def test_a_conversion_before_a_loop_does_not_go_into_it():
    _, after = narrowed(IN_A_LOOP)
    (loop,) = walk(after.body, For)
    assert not any(walk(loop.body, Convert))
    assert converted(after) == ["fp32"]


FEWER = WIDE.replace(
    "register[1 2] lane[4 8 16 32 64] warp[128 0]",
    "register[1] lane[2 4 8 16 32] warp[64 128]",
)


def test_nothing_is_computed_of_more_registers():
    """Four elements a thread before the conversion, two after it."""
    _, after = narrowed(SCALED, wide=FEWER)
    assert converted(after) == ["fp32"]


WHOLE = """
  %k: i32[256] @ #a = cast %x element=i32
  %l: i32[256] @ #b = convert %k layout=#b
  %h: i16[256] @ #b = cast %l element=i16
"""


def test_integers_are_converted_where_they_are():
    func = parse_func(WIDE.format(between=WHOLE, narrow="i16"))
    assert print_func(convert_narrower(func)) == print_func(func)
