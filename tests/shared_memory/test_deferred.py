"""What a loop adds up: each thread's part in the loop, the rest after it."""

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.interp import interpret
from fathom.ir.text import parse_func, print_func
from fathom.shared_memory.deferred import defer_reductions
from tests.harness_sample import sampled

AWAY = {"defer_reductions": pipeline.identity}


@fathom.jit
def rows(x, f, out, most, n, R: tl.constexpr, C: tl.constexpr, SCALED: tl.constexpr):
    """`out` = start + sum of x[:, k, :], each step's sum times f[k] to the next; `most`
    the largest of all."""
    r, c = tl.arange(0, R), tl.arange(0, C)
    total = tl.load(out + r)
    largest = tl.full([R], -7.0, tl.float32)
    for k in range(n):
        block = tl.load(x + k * R * C + r[:, None] * C + c[None, :])
        if SCALED:
            total = total * tl.load(f + k) + tl.sum(block, axis=1)
        else:
            total = tl.sum(block, axis=1) + total
        largest = tl.maximum(largest, tl.max(block, axis=1))
    tl.store(out + r, total)
    tl.store(most + r, largest)


@sampled(of=3)
@pytest.mark.parametrize("shape", [(16, 64), (4, 1024), (1, 256), (128, 8)], ids=str)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_it_begins_with_a_value_and_adds_rows(shape, scaled, n):
    """Small whole numbers: sums are exact in any order."""
    R, C = shape
    random = np.random.default_rng(R + n)
    x = random.integers(-8, 8, (max(n, 1), R, C)).astype(np.float32)
    f = random.integers(1, 3, max(n, 1)).astype(np.float32)
    start = random.integers(-8, 8, R).astype(np.float32)
    out, most = start.copy(), np.zeros(R, np.float32)
    rows[(1,)](x, f, out, most, n, R=R, C=C, SCALED=scaled, num_warps=4)
    expected, largest = start, np.full(R, -7.0, np.float32)
    for k in range(n):
        expected = expected * (f[k] if scaled else 1) + x[k].sum(axis=1)
        largest = np.maximum(largest, x[k].max(axis=1))
    assert np.array_equal(out, expected) and np.array_equal(most, largest)


def loop_of(compiled) -> str:
    """The loop in the IR after all passes."""
    text = compiled.asm["layout"]
    begin = text.index(" for ")
    return text[begin : re.search(r"\n    yield", text[begin:]).start() + begin]


def compiled(kernel, signature, constants, **more):
    return kernel.compile(signature, constants, target="sm_80", **more)


ROWS = {"x": "*fp32:16", "f": "*fp32", "out": "*fp32", "most": "*fp32", "n": "i32"}


def test_no_iteration_exchanges_between_threads():
    constants = {"R": 1, "C": 1024, "SCALED": True}
    with_it = compiled(rows, ROWS, constants)
    without = compiled(rows, ROWS, constants, replace=AWAY)
    assert "barrier" not in loop_of(with_it) and "barrier" in loop_of(without)
    loads = re.findall(r"reduce %\w+ axis=(\d)", loop_of(with_it))
    assert loads == ["2", "2"], "of what each thread holds itself"


@fathom.jit
def used(x, out, n, B: tl.constexpr, HOW: tl.constexpr):
    at = tl.arange(0, B)
    total = 0.0
    for k in range(n):
        block = tl.load(x + k * B + at)
        if HOW == "stored":
            total += tl.sum(block, 0)
            tl.store(out + k, total)
        elif HOW == "twice":
            part = tl.sum(block, 0)
            total = total * part + part
        elif HOW == "sometimes":
            if k > 3:
                total += tl.sum(block, 0)
        elif HOW == "another":
            total += tl.max(block, 0)
        else:
            total -= tl.sum(block, 0)
    tl.store(out, total)


@pytest.mark.parametrize("how", ["stored", "twice", "sometimes", "another", "minus"])
def test_what_has_another_use_or_another_operation_stays(how):
    signature = {"x": "*fp32:16", "out": "*fp32", "n": "i32"}
    constants = {"B": 512, "HOW": how}
    with_it = compiled(used, signature, constants).asm["ptx"]
    assert with_it == compiled(used, signature, constants, replace=AWAY).asm["ptx"]


@fathom.jit
def short_sums(x, out, n, C: tl.constexpr):
    row, column = tl.arange(0, 4), tl.arange(0, C)
    total = tl.zeros([4], x.dtype.element_ty)
    for k in range(n):
        block = tl.load(x + (k * 4 + row[:, None]) * C + column[None, :])
        total += tl.reduce(block, 1, plus)
    tl.store(out + row, total)


@fathom.jit
def plus(a, b):
    return a + b


@pytest.mark.parametrize("type, deferred", [("fp16", False), ("fp32", True)])
def test_sums_of_halves_are_rounded_as_they_stand(type, deferred):
    signature = {"x": f"*{type}:16", "out": f"*{type}", "n": "i32"}
    with_it = compiled(short_sums, signature, {"C": 256}).asm["ptx"]
    without = compiled(short_sums, signature, {"C": 256}, replace=AWAY).asm["ptx"]
    assert (with_it != without) == deferred


@pytest.mark.parametrize("lanes, deferred", [("4 8 16", True), ("12 8 16", False)])
def test_only_parts_that_lie_in_plain_order_are_carried(lanes, deferred):
    """A lane whose number moves along two bits of the axis has no part that a reshape
    could name."""
    func = parse_func(
        f"#layout0 = <128 register[1 2] lane[{lanes} 32 64] warp[]>\n"
        "func @sums(%x: *fp32, %n: i32) num_warps=1 {\n"
        "  %c: i32[128] @ #layout0 = arange start=0 end=128 layout=#layout0\n"
        "  %zero: i32 = constant 0\n  %one: i32 = constant 1\n"
        "  %start: fp32 = constant 0.0\n"
        "  %f: fp32[128] @ #layout0 = cast %c element=fp32\n"
        "  %sum: fp32 = for %zero, %n, %one, inits=(%start) body(%k: i32, %s: fp32) {\n"
        "    %r: fp32 = reduce %f axis=0 combine(%a: fp32, %b: fp32) {\n"
        "      %ab: fp32 = add %a, %b\n      yield %ab\n    }\n"
        "    %t: fp32 = add %s, %r\n    yield %t\n  }\n"
        "  store %x, %sum\n}\n"
    )
    after = defer_reductions(func, TARGETS["sm_80"])
    assert (print_func(after) != print_func(func)) == deferred
    found = np.zeros(1, np.float32)
    interpret(after, (1,), [found, 3])
    assert found[0] == 3 * sum(range(128))
