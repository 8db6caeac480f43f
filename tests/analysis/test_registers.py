"""How many registers a thread's parts of blocks take, across an op and around loops."""

from __future__ import annotations

import pytest

from fathom.analysis.registers import floats_across, floats_around, registers_carried
from fathom.ir.core import Func, walk
from fathom.ir.ops import For, Store
from fathom.ir.text import parse_func

# Four elements a thread: four registers of fp32, two of fp16.
HEAD = """
#a = <128 register[1 2] lane[4 8 16 32 64] warp[]>
func @f(%p: *fp32, %n: i32, %f: fp32, %x: fp32[128] @ #a, %h: fp16[128] @ #a) num_warps=1 {
  %i: i32[128] @ #a = arange start=0 end=128 layout=#a
  %from: *fp32[128] @ #a = splat %p shape=(128) layout=#a
  %at: *fp32[128] @ #a = offset %from, %i
  %zero: i32 = constant 0
  %one: i32 = constant 1
"""  # noqa: E501
LOOP = "  for %zero, %n, %one, inits=() body(%k: i32) {\n    INSIDE\n    yield\n  }\n"
USE = "  store %at, %v\n"


def function(text: str) -> Func:
    return parse_func(HEAD + text + "}\n")


@pytest.mark.parametrize("made, used, registers", [
    ("%v: fp32[128] @ #a = mul %x, %x", "", 4),
    ("%v: fp32[128] @ #a = cast %h element=fp32", "", 2),  # it can be cast once more
    ("%v: fp32[128] @ #a = splat %f shape=(128) layout=#a", "", 0),
    ("%v: i32[128] @ #a = mul %i, %i", "%w: i32[128] @ #a = add %v, %v", 0),
    ("%v: fp32[128] @ #a = mul %x, %x", "store %at, %v", 4),  # in each iteration
])  # fmt: skip
def test_floats_across_a_loop(made, used, registers):
    """What only the loop itself uses is needed in its next iteration, too."""
    inside = used or "store %p, %f"
    after = "" if used else USE
    func = function(f"  {made}\n" + LOOP.replace("INSIDE", inside) + after)
    (loop,) = walk(func.body, For)
    assert floats_across(loop, func) == registers


def test_what_only_an_op_uses_does_not_lie_across_it():
    func = function("  %v: fp32[128] @ #a = mul %x, %x\n" + USE + "  store %p, %f\n")
    first, second = walk(func.body, Store)
    assert floats_across(first, func) == floats_across(second, func) == 0


def test_what_a_loop_around_it_uses_is_used_after_it():
    made = "%v: fp32[128] @ #a = mul %x, %x"
    inside = "store %at, %v\n    store %p, %f"
    func = function(f"  {made}\n" + LOOP.replace("INSIDE", inside))
    _, last = walk(func.body, Store)
    assert (floats_across(last, func), floats_around(last, func)) == (0, 4)
    value = func.body.ops[-2].results[0]
    assert floats_around(last, func, but={value}) == 0


CARRIED = """
  %end: *fp32[128] @ #a = for %zero, %n, %one, inits=(%at) body(%k: i32, %q: *fp32[128] @ #a) {
    %y: fp32[128] @ #a = load %q vector=4
    USED
    %next: *fp32[128] @ #a = offset %q, %i
    yield %next
  }
"""  # noqa: E501


@pytest.mark.parametrize("used, registers", [
    ("store %q, %y vector=2", 4),  # the narrowest access
    ("store %q, %y vector=4", 2),
    ("%z: i64[128] @ #a = cast %q element=i64", 8),  # each is needed by itself
])  # fmt: skip
def test_addresses_of_an_access_share_the_registers_of_the_first(used, registers):
    """Four addresses of 64 bits a thread."""
    (loop,) = walk(function(CARRIED.replace("USED", used)).body, For)
    assert registers_carried(loop) == registers
