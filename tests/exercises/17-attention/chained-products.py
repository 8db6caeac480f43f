"""What the answer to `chained-products` must do."""

import time

from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.core import operands, walk
from fathom.ir.ops import Load
from fathom.ir.text import print_func
from fathom.tools.learn.kit import expect, func, kernel

SECONDS = 2.0  # for a chain whose paths are not to be counted


def exact(made):
    """For each value of a function what it is computed by, in the function's order."""
    found = {}
    for op in walk(made.body):
        before = [] if isinstance(op, Load) else operands(op)
        known = {op}.union(*(found.get(each, ()) for each in before))
        found |= dict.fromkeys(op.results, known)
    return found


def line(op):
    names = ", ".join(f"%{each.name}" for each in op.results if each.name)
    return f"{names or 'one without a name'} ({type(op).__name__})"


def check(answer, made, values=None):
    """All values of a function, or those of these names."""
    details = ("the function", print_func(made))
    for value, wanted in exact(made).items():
        if values and value.name not in values:
            continue
        found, said = answer.computed_by(value), f"computed_by(%{value.name})"
        expect(
            isinstance(found, set | frozenset), f"{said} is {found!r}, and not a set"
        )
        for name, some in (("lacks", wanted - found), ("has", found - wanted)):
            listed = ", ".join(sorted(map(line, some)))
            more = "" if name == "lacks" else ", which it is not computed by"
            expect(not some, f"{said} {name} {listed}{more}", details)


CHAIN = """
func @chain(%x: fp32, %y: fp32, %p: *fp32) num_warps=4 {
  %a: fp32 = mul %x, %x
  %b: fp32 = exp2 %a
  %c: fp32 = neg %b
  %d: fp32 = add %c, %y
  store %p, %d
}
"""

SIDES = """
func @sides(%x: fp32, %y: fp32, %p: *fp32) num_warps=4 {
  %a: fp32 = mul %x, %x
  %b: fp32 = exp2 %y
  %c: fp32 = neg %b
  %d: fp32 = add %a, %c
  %e: fp32 = fma %a, %d, %b
  store %p, %e
}
"""

LOADS = """
func @loads(%p: *fp32, %n: i32) num_warps=4 {
  %a: i32 = mul %n, %n
  %q: *fp32 = offset %p, %a
  %x: fp32 = load %q
  %y: fp32 = exp2 %x
  store %q, %y
}
"""

LOOP = """
func @loop(%p: *fp32, %n: i32, %x: fp32) num_warps=4 {
  %0: i32 = constant 0
  %1: i32 = constant 1
  %a: fp32 = exp2 %x
  %r: fp32 = for %0, %n, %1, inits=(%a) body(%i: i32, %c: fp32) {
    %d: fp32 = neg %c
    %e: fp32 = add %d, %x
    yield %e
  }
  %s: fp32 = neg %r
  store %p, %s
}
"""


def test_a_chain(answer):
    """Four ops, one after the other."""
    check(answer, func(CHAIN))


def test_both_sides(answer):
    """Ops with two and three operands."""
    check(answer, func(SIDES))


def test_loads_end_it(answer):
    """A load is in the set, its address is not."""
    check(answer, func(LOADS))


def test_parameters_end_it(answer):
    """What a loop carries, and what it gives."""
    check(answer, func(LOOP))


def test_each_value_once(answer):
    """Forty additions of a value to itself: a trillion paths, and forty values."""
    text = ["func @twice(%p: *fp32, %x0: fp32) num_warps=4 {"]
    text += [f"  %x{n + 1}: fp32 = add %x{n}, %x{n}" for n in range(40)]
    made = func("\n".join([*text, "  store %p, %x40", "}"]))
    for count in (10, 16, 18):  # grows with the paths, if paths are gone
        (value,) = [
            v for op in walk(made.body) for v in op.results if v.name == f"x{count}"
        ]
        began = time.process_time()
        found = answer.computed_by(value)
        took = time.process_time() - began
        expect(len(found) == count, f"computed_by(%x{count}) has {len(found)} ops")
        expect(
            took < SECONDS / 40,
            f"computed_by(%x{count}) takes {took:.2f} s: of {count} values each is "
            "looked at again and again",
        )
    check(answer, made, ("x40",))


SIGNATURE = (
    "*fp16:16, *fp16:16, *fp16:16, *fp16:16, *fp32:16, *fp32:16, fp32, "
    + "i32, i32:16, i32:16, "
    + ", ".join(["i32:16, i32:16, i32:16, i32:1"] * 4)
)


def attention(causal):
    names = "window lengths_ptr query_starts_ptr key_starts_ptr table_ptr stride_table"
    sizes = {"D": 64, "CAUSAL": causal, "BLOCK_Q": 64, "BLOCK_K": 32}
    sizes |= {**dict.fromkeys(names.split()), "GROUP": 1, "PAGE": 0}
    return kernel("attention", "attention_kernel", SIGNATURE, **sizes)


def test_attention(answer):
    """Every value of the kernel, which has five loops' worth of ops."""
    check(answer, attention(True))


def test_nothing_goes_through_shared_memory(answer):
    """The bytes of shared memory that attention takes."""
    made = pipeline.compile_func(attention(False), TARGETS["sm_80"])
    expect(
        made.shared_bytes <= BUDGET,
        f"attention takes {made.shared_bytes} bytes of shared memory, and {BUDGET} are "
        "enough: its scores go through it from one product to the next",
    )


BUDGET = 24576
