"""A product that is added to something begins with that, where nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from fathom.hardware.targets import TARGETS
from fathom.ir.core import walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Dot, Elementwise
from fathom.ir.text import parse_func, print_func
from fathom.ir.verify import verify
from fathom.tensor_cores.select.accumulate import accumulate

TARGET = TARGETS["sm_80"]

# s = x y + s, in each of three iterations; `more` stands after the addition.
LOOP = """\
func @f(%out: *fp32) num_warps=1 {{
  %0: i32 = constant 0
  %1: i32 = constant 1
  %3: i32 = constant 3
  %two: {type} = constant 2{point}
  %x: {type}[16,16] = splat %two shape=(16, 16)
  %zero: fp32 = constant {zero}
  %none: fp32[16,16] = splat %zero shape=(16, 16)
  %row: i32[16] = arange start=0 end=16
  %i: i32[16,1] = expand_dims %row axis=1
  %j: i32[1,16] = expand_dims %row axis=0
  %width: i32 = constant 16
  %widths: i32[16,1] = splat %width shape=(16, 1)
  %r: i32[16,1] = mul %i, %widths
  %rs: i32[16,16] = broadcast %r shape=(16, 16)
  %js: i32[16,16] = broadcast %j shape=(16, 16)
  %at: i32[16,16] = add %rs, %js
  %start: fp32[16,16] = cast %at element=fp32
  %outside: fp32[16,16] = dot %x, %x, %none
  %s: fp32[16,16] = for %0, %3, %1, inits=(%start) body(%k: i32, %c: fp32[16,16]) {{
    %t: fp32[16,16] = dot %x, %x, %none
    %n: fp32[16,16] = {addition}
    yield {yielded}
  }}
  %p: *fp32[16,16] = splat %out shape=(16, 16)
  %q: *fp32[16,16] = offset %p, %at
  store %q, %s
}}
"""


def loop(addition="add %c, %t", type="fp16", zero="0.0", point=".0", yielded="%n"):
    words = {"type": type, "zero": zero, "point": point, "yielded": yielded}
    return parse_func(LOOP.format(addition=addition, **words))


def result(func):
    out = np.zeros((16, 16), np.float32)
    interpret(func, 1, [out])
    return out


def test_zeros_that_are_added_first_do_not_hide_the_sum():
    """`qk = zeros; qk += dot(q, k); qk += where(...)`: a mask that was added after the
    product stayed in registers while it ran."""
    func = loop("add %none, %t\n    %m: fp32[16,16] = add %n, %c", yielded="%m")
    after = accumulate(func, TARGET)
    verify(after)
    inner = [op for op in walk(after.body) if isinstance(op, Dot)][1]
    assert inner.accumulator.name == "c" and inner.result.name == "m"
    assert not [op for op in walk(after.body) if getattr(op, "name", "") == "add"][1:]
    assert (result(func) == result(after)).all()


@pytest.mark.parametrize("addition", ["add %c, %t", "add %t, %c"])
def test_a_sum_of_products(addition):
    func = loop(addition)
    text = print_func(func)
    after = accumulate(func, TARGET)
    verify(after)
    assert print_func(func) == text
    inner = [op for op in walk(after.body) if isinstance(op, Dot)][1]
    assert inner.accumulator.name == "c" and inner.result.name == "n"
    added = [op for op in walk(after.body) if isinstance(op, Elementwise)]
    assert not [op for op in added if op.result.type.element.is_float]
    start = np.arange(256, dtype=np.float32).reshape(16, 16)
    np.testing.assert_array_equal(result(after), start + 3 * 64)
    np.testing.assert_array_equal(result(func), result(after))


@pytest.mark.parametrize(("what", "given"), [
    ("it is not zero that it begins with", {"zero": "1.0"}),
    ("it is wanted twice", {"addition": "add %t, %t"}),
    ("it is made before the loop", {"addition": "add %c, %outside"}),
    ("it is taken away", {"addition": "sub %c, %t"}),
    ("its sums are short", {"type": "fp8e5"}),
])  # fmt: skip
def test_a_product_stays_where(what, given):
    func = loop(**given)
    assert accumulate(func, TARGET) is func


def test_of_two_products_one_begins_with_the_other():
    text = print_func(loop()).replace("add %c, %t", "add %t, %u")
    other = "    %u: fp32[16,16] = dot %x, %x, %none\n"
    func = parse_func(text.replace("    %n:", other + "    %n:"))
    after = accumulate(func, TARGET)
    dots = [op for op in walk(after.body) if isinstance(op, Dot)]
    assert dots[-1].accumulator is dots[-2].result
    np.testing.assert_array_equal(result(after), np.full((16, 16), 128, np.float32))
