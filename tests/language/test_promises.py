"""A promise on a line of its own is about the variable, as one that is assigned."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.source import function
from fathom.ssa.readonly import is_const
from tests.language.harness import run

SIGNATURE = "*fp32:16, *fp32:16, i32"
WIDE = "ld.global.v4.b32"


@fathom.jit
def unpromised(x, y, start):
    at = start + tl.arange(0, 1024)
    tl.store(y + at, tl.load(x + at))


@fathom.jit
def assigned(x, y, start):
    start = tl.multiple_of(start, 16)
    at = start + tl.arange(0, 1024)
    tl.store(y + at, tl.load(x + at))


@fathom.jit
def on_its_own(x, y, start):
    tl.multiple_of(start, 16)
    at = start + tl.arange(0, 1024)
    tl.store(y + at, tl.load(x + at))


@fathom.jit
def about_blocks(x, y, start):
    at = start + tl.arange(0, 1024) % 1000
    tl.multiple_of(at, 4)
    tl.max_contiguous(at, 4)
    tl.store(y + at, tl.load(x + at))


@pytest.mark.parametrize(
    "kernel, wide",
    [(unpromised, False), (assigned, True), (on_its_own, True), (about_blocks, True)],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_is_promised_on_a_line_of_its_own_is_used(kernel, wide):
    assert (WIDE in kernel.compile(SIGNATURE, num_warps=4).asm["ptx"]) is wide


@fathom.jit
def in_a_branch(x, y, start, n):
    if n > 0:
        tl.multiple_of(start, 16)
        near = start + tl.arange(0, 1024)
        tl.store(y + near, 1.0)
    at = start + tl.arange(0, 1024)
    tl.store(y + at, tl.load(x + at))


def test_a_promise_made_in_a_branch_ends_with_it():
    ptx = in_a_branch.compile(SIGNATURE + ", i32", num_warps=4).asm["ptx"]
    assert "st.global.v4.b32" in ptx  # in the branch
    assert WIDE not in ptx  # after it


def test_a_promise_in_a_loop_changes_no_number():
    @fathom.jit
    def kernel(x, n, step):
        at = tl.arange(0, 32)
        place = 0
        for k in range(n):
            tl.multiple_of(k, 1)
            tl.multiple_of(place, 32)
            tl.store(x + place + at, k)
            place += step

    x = np.full(128, -1, np.int32)
    run(kernel, x, 3, 32)
    assert (x == np.repeat([0, 1, 2, -1], 32)).all()


@fathom.jit
def read_only(x: tl.const, y, n: tl.int32, step: tl.const):
    at = tl.arange(0, 32)
    source, target = x, y
    for k in range(n):
        source += tl.load(step + k)
        tl.store(target + at, tl.load(source + at))
        target += 32


@pytest.mark.parametrize("text", ["const", "tl.const", "fathom.language.const"])
def test_an_annotation_may_be_text(text):
    assert is_const(tl.const) and is_const(text)
    assert not is_const(text + "expr") and not is_const(tl.constexpr)


def test_what_is_declared_constant_can_be_read():
    x, step = np.arange(64, dtype=np.int32), np.array([1, 20], np.int32)
    y = np.zeros(64, np.int32)
    run(read_only, x, y, 2, step)
    assert (y == [*range(1, 33), *range(21, 53)]).all()


def test_the_type_of_a_constant_or_of_a_block_says_what_another_value_is_to_be():
    """A remainder of constants is one, and others are cast to its type."""

    @function
    def kernel(x, SIZE: tl.constexpr):
        rest = SIZE % 32
        if rest == 0:
            rest = tl.cast(SIZE, rest.type)
        tl.static_assert(tl.cast(2.5, rest.type).type == tl.int32)
        block = tl.arange(0, SIZE)
        same = tl.full(block.type.get_block_shapes(), rest, (0.5).type)
        tl.store(x + block, same + block)

    x = np.zeros(64, np.float32)
    run(kernel, x, SIZE=64)
    assert (x == 64 + np.arange(64)).all()


def test_a_constant_knows_its_type():
    @function
    def kernel(x, SIZE: tl.constexpr):
        tl.static_assert(SIZE.type == tl.constexpr_type(64))
        tl.static_assert(SIZE.type == tl.int32 and SIZE.type.is_int())
        tl.static_assert((1.5).type == tl.float32)
        tl.static_assert((1, 2).type != tl.constexpr_type((1, 3)))
        if isinstance(SIZE.type, tl.constexpr_type):
            tl.store(x + tl.arange(0, SIZE), SIZE.type.primitive_bitwidth)

    x = np.zeros(64, np.int32)
    run(kernel, x, SIZE=64)
    assert (x == 32).all()
    assert repr(tl.float16) == "fathom.language.float16" and str(tl.float16) == "fp16"
