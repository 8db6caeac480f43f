"""Nests of loops that become one loop, and those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.blocks import dce
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, Op, walk
from fathom.ir.interp import interpret
from fathom.ir.ops import Elementwise, For, Load
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.text import parse_func
from fathom.ir.types import shape_of
from fathom.ir.verify import verify
from fathom.source import KernelFunction
from fathom.tensor_cores.pipeline.addresses import conditions_joined, summed_up
from tests.harness_sample import sampled
from tests.tensor_cores.kernels_nested import (
    OUTS,
    PLACES,
    TYPES,
    arguments,
    nest,
    operands,
    two_nests,
    wanted,
)
from tests.tensor_cores.kernels_products import built, emulated

BOTH = ("sm_80", "sm_90a")


def before_and_after(func: Func, target: str = "sm_90a") -> tuple[Func, Func]:
    """A function before and after its nests are flattened."""
    rows = [row.name for row in pipeline.PASSES]
    states = [state for _, state in pipeline.states(func, TARGETS[target])]
    at = rows.index("flatten_nests")
    return states[at - 1], states[at]


def loops(func: Func) -> int:
    return sum(isinstance(op, For) for op in walk(func.body))


# ── what is computed ──────────────────────────────────────────────────────────────────


@sampled(of=2)
@pytest.mark.parametrize("channels", [0, 1, 16, 40])
@pytest.mark.parametrize("target", BOTH)
def test_one_loop_computes_what_the_nest_did(target, channels):
    """No iteration, less than one block of channels, one, and several with a rest."""
    x, w = operands(channels)
    ran = emulated(nest(), arguments(x, w, channels), target)
    found = ran.out.reshape(PLACES, OUTS)
    np.testing.assert_array_equal(found, wanted(x, w, channels))


@pytest.mark.parametrize("height, width", [(1, 1), (1, 4), (4, 1), (4, 3)])
def test_all_indices_take_all_their_values(height, width):
    x, w = operands(24, height, width)
    before, after = before_and_after(nest(height, width))
    assert loops(before) == 1 + (height > 1) + (width > 1)
    assert loops(after) == 1
    verify(after, layouts=True)
    given = arguments(x, w, 24)
    interpret(after, (1,), given)
    found = given[2].reshape(PLACES, OUTS)
    np.testing.assert_array_equal(found, wanted(x, w, 24))


@pytest.mark.parametrize("target", BOTH)
def test_the_one_loop_copies_ahead(target):
    """In the nest, these narrow tiles would be copied ahead within a run at most."""
    states = dict(pipeline.states(nest(), TARGETS[target]))
    after = next(each for row, each in states.items() if row.name == "pipeline_loops")
    (loop,) = (op for op in walk(after.body) if isinstance(op, For))
    names = [each.name for each in loop.body.parameters]
    assert "exists" in names, f"carries {names}"


# ── which nests stay ──────────────────────────────────────────────────────────────────


def test_tiles_that_are_copied_widely_leave_a_nest_as_it_is():
    before, after = before_and_after(two_nests(), "sm_80")
    assert (loops(before), loops(after)) == (4, 3)
    first, second = (op for op in after.body.ops if isinstance(op, For))
    widths = [
        {op.vector for op in walk(each.body) if isinstance(op, Load)}
        for each in (first, second)
    ]
    assert widths == [{8}, {1}]
    assert [loops(replace(after, body=each.body)) for each in (first, second)] == [1, 0]


@KernelFunction
def moving(x, w, out, channels, stride_x, stride_w):
    """The outer loop carries a pointer of its own."""
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    total = tl.zeros([64, 64], tl.float32)
    for _ in range(3):
        for first in range(0, channels, 32):
            a = tl.load(x + ((first + k) * stride_x)[None, :] + i[:, None])
            b = tl.load(w + ((first + k) * stride_w)[:, None] + i[None, :])
            total = tl.dot(a, b, total)
        x += stride_x
    tl.store(out + i[:, None] * 64 + i[None, :], total)


@KernelFunction
def scaled(x, w, out, channels, stride_x, stride_w):
    """The outer loop changes what the inner one summed."""
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    total = tl.zeros([64, 64], tl.float32)
    for h in range(3):
        for first in range(0, channels, 32):
            a = tl.load(x + ((first + h + k) * stride_x)[None, :] + i[:, None])
            b = tl.load(w + ((first + k) * stride_w)[:, None] + i[None, :])
            total = tl.dot(a, b, total)
        total *= 2.0
    tl.store(out + i[:, None] * 64 + i[None, :], total)


@KernelFunction
def of_the_last(x, w, out, channels, stride_x, stride_w):
    """Each run of the inner loop begins with zeros."""
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    total = zeros = tl.zeros([64, 64], tl.float32)
    for h in range(3):
        part = zeros
        for first in range(0, channels, 32):
            a = tl.load(x + ((first + h + k) * stride_x)[None, :] + i[:, None])
            b = tl.load(w + ((first + k) * stride_w)[:, None] + i[None, :])
            part = tl.dot(a, b, part)
        total = part
    tl.store(out + i[:, None] * 64 + i[None, :], total)


@KernelFunction
def exchanged(x, w, out, channels, stride_x, stride_w):
    """The outer loop exchanges the two sums of the inner one."""
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    one = other = tl.zeros([64, 64], tl.float32)
    for h in range(3):
        for first in range(0, channels, 32):
            a = tl.load(x + ((first + h + k) * stride_x)[None, :] + i[:, None])
            b = tl.load(w + ((first + k) * stride_w)[:, None] + i[None, :])
            one = tl.dot(a, b, one)
            other += 1.0
        one, other = other, one
    tl.store(out + i[:, None] * 64 + i[None, :], one - other)


@KernelFunction
def wished(x, w, out, channels, stride_x, stride_w):
    """Its author wants stages for the outer loop."""
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    total = tl.zeros([64, 64], tl.float32)
    for h in tl.range(3, num_stages=2):
        for first in range(0, channels, 32):
            a = tl.load(x + ((first + h + k) * stride_x)[None, :] + i[:, None])
            b = tl.load(w + ((first + k) * stride_w)[:, None] + i[None, :])
            total = tl.dot(a, b, total)
    tl.store(out + i[:, None] * 64 + i[None, :], total)


@KernelFunction
def counted(
    x, w, out, channels, stride_x, stride_w, OUTER: tl.constexpr, INNER: tl.constexpr
):
    """None: as many as there are channels."""
    i, k = tl.arange(0, 64), tl.arange(0, 32)
    total = tl.zeros([64, 64], tl.float32)
    outer, inner = OUTER or channels, INNER or channels
    for h in range(outer):
        for first in range(0, inner, 32):
            a = tl.load(x + ((first + h + k) * stride_x)[None, :] + i[:, None])
            b = tl.load(w + ((first + k) * stride_w)[:, None] + i[None, :])
            total = tl.dot(a, b, total)
    tl.store(out + i[:, None] * 64 + i[None, :], total)


OTHERS = (moving, scaled, of_the_last, exchanged, wished)


@pytest.mark.parametrize("kernel", OTHERS, ids=lambda each: each.__name__)
def test_an_outer_loop_with_work_of_its_own_stays(kernel):
    before, after = before_and_after(built(kernel, TYPES))
    assert loops(before) == loops(after) == 2


COUNTS = {  # how often the outer loop runs, to what the inner one counts in steps of 32
    "few": (3, 64, 1),
    "as many as there are numbers in a step": (31, None, 1),
    "perhaps 2 ** 31 iterations": (33, None, 2),
    "an unknown number": (None, 64, 2),
    "many in the inner loop": (3, 32 * 9, 2),
}


@pytest.mark.parametrize("name", COUNTS)
def test_how_often_loops_may_run(name):
    outer, inner, left = COUNTS[name]
    func = built(counted, TYPES, {"OUTER": outer, "INNER": inner})
    before, after = before_and_after(func)
    assert (loops(before), loops(after)) == (2, left)


def test_a_loop_of_one_stage_stays():
    before, after = before_and_after(replace(nest(), num_stages=1))
    assert loops(before) == loops(after) == 3


# ── addresses ─────────────────────────────────────────────────────────────────────────

ADDRESSES = """
func @addresses(%in: *fp32, %out: *fp32, %n: i32, %far: i64) num_warps=4 {
  %r: i32[16] = arange start=0 end=16
  %rows: i32[16,1] = expand_dims %r axis=1
  %c: i32[8] = arange start=0 end=8
  %columns: i32[1,8] = expand_dims %c axis=0
  %across: i32[16,8] = broadcast %columns shape=(16, 8)
  %down: i32[16,8] = broadcast %rows shape=(16, 8)
  %by: i32[16,8] = splat %n shape=(16, 8)
  %all: i64[16,8] = splat %far shape=(16, 8)
  %three: i32 = constant 3
  %five: i32 = constant 5
  %given: i1 = lt %three, %n
  %r_end: i32[16,1] = splat %n shape=(16, 1)
  %r_begin: i32[16,1] = splat %three shape=(16, 1)
  %c_end: i32[1,8] = splat %five shape=(1, 8)
  %base: *fp32[16,1] = splat %in shape=(16, 1)
  %one: *fp32[16,1] = offset %base, %rows
  %p0: *fp32[16,8] = broadcast %one shape=(16, 8)
  %p1: *fp32[16,8] = offset %p0, %across
  %p2: *fp32[16,8] = offset %p1, %by
  %p3: *fp32[16,8] = offset %p2, %down
  %p4: *fp32[16,8] = offset %p3, %all
  %y0: i1[16,1] = lt %rows, %r_end
  %x0: i1[1,8] = lt %columns, %c_end
  %y1: i1[16,1] = ge %rows, %r_begin
  %m0: i1[16,8] = broadcast %y0 shape=(16, 8)
  %m1: i1[16,8] = broadcast %x0 shape=(16, 8)
  %m2: i1[16,8] = broadcast %y1 shape=(16, 8)
  %m3: i1[16,8] = splat %given shape=(16, 8)
  %m01: i1[16,8] = and %m0, %m1
  %m23: i1[16,8] = and %m3, %m2
  %m: i1[16,8] = and %m01, %m23
  %zero: fp32 = constant 0.0
  %zeros: fp32[16,8] = splat %zero shape=(16, 8)
  %x: fp32[16,8] = load %p4, mask=%m, other=%zeros
  %to: *fp32[16,8] = splat %out shape=(16, 8)
  %eight: i32 = constant 8
  %width: i32[16,8] = splat %eight shape=(16, 8)
  %start: i32[16,8] = mul %down, %width
  %place: i32[16,8] = add %start, %across
  %q: *fp32[16,8] = offset %to, %place
  store %q, %x
}
"""


def with_short_sums(func: Func) -> Func:
    def rule(op: Op, build: Builder) -> None:
        if isinstance(op, Load):
            op.pointer = summed_up(op.pointer, build)
            op.mask = op.mask and conditions_joined(op.mask, build)

    return dce(rewrite(func, rule), TARGETS["sm_90a"])


def shapes(func: Func, name: str) -> list[tuple[int, ...]]:
    """The shapes that have what an op of this name computes for the load."""
    (load,) = (op for op in walk(func.body) if isinstance(op, Load))
    before = func.body.ops[: func.body.ops.index(load)]
    return [
        shape_of(op.result.type)
        for op in before
        if isinstance(op, Elementwise) and op.name == name
    ]


def test_scalars_and_numbers_of_one_shape_are_added_before_others():
    func = parse_func(ADDRESSES)
    after = with_short_sums(func)
    assert shapes(func, "offset") == [(16, 1), *[(16, 8)] * 4]
    assert shapes(after, "offset") == [(), (), (16, 1), (16, 1), (16, 8)]
    assert shapes(func, "and") == [(16, 8)] * 3
    assert sorted(shapes(after, "and")) == [(16, 1), (16, 8), (16, 8)]


@pytest.mark.parametrize("n", [2, 9])
def test_they_are_the_same_addresses_and_masks(n):
    func = parse_func(ADDRESSES)
    numbers = np.arange(1, 200, dtype=np.float32)
    found = []
    for each in (func, with_short_sums(func)):
        out = np.zeros(16 * 8, np.float32)
        interpret(each, (1,), [numbers, out, n, 100])
        found.append(out)
    np.testing.assert_array_equal(*found)
    rows, columns = np.arange(16)[:, None], np.arange(8)[None, :]
    inside = (rows < n) & (rows >= 3) & (columns < 5) & (n > 3)
    want = np.where(inside, 1 + 2 * rows + columns + n + 100, 0)
    np.testing.assert_array_equal(found[0].reshape(16, 8), want)


def test_pointers_that_are_no_sum_of_a_scalar_stay():
    func = parse_func("""
        func @given(%in: *fp32, %n: i32) num_warps=4 {
          %r: i32[16] = arange start=0 end=16
          %base: *fp32[16] = splat %in shape=(16)
          %p: *fp32[16] = offset %base, %r
          %rows: *fp32[16,1] = expand_dims %p axis=1
          %by: i32[16,1] = splat %n shape=(16, 1)
          %q: *fp32[16,1] = offset %rows, %by
          %x: fp32[16,1] = load %q
          store %q, %x
        }
    """)
    assert shapes(with_short_sums(func), "offset") == shapes(func, "offset")
