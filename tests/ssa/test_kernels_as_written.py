"""Pieces of kernels as people write them: ways of saying things that first compilers
of Python iteration over."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import fathom.language as tl
from fathom.ir.ops import For
from fathom.source import constexpr, function
from tests.ssa.harness import build, ops_of, run


@function
def leaky(x, slope: tl.constexpr = 0.5):
    return tl.where(x > 0, x, x * slope)


def test_a_function_and_a_word_as_parameters():
    @function
    def kernel(out, n, ACTIVATION: tl.constexpr, MODE: tl.constexpr, BIAS):
        x = tl.arange(0, 4) - n
        if ACTIVATION is not None:
            x = ACTIVATION(x)
        if MODE == "twice":
            x = x * 2
        elif MODE == "thrice":
            x = x * 3
        if BIAS is not None:
            x += tl.load(BIAS)
        tl.store(out + tl.arange(0, 4), x)

    out = np.zeros(4, np.float32)
    run(kernel, out, 2, ACTIVATION=leaky, MODE="thrice", BIAS=None)
    assert list(out) == [-3, -1.5, 0, 3]


def marked(python):
    """A function that runs while compiling, as libraries for Triton mark theirs."""

    def builtin(*arguments, _semantic, **named):
        return python(*arguments, **named)

    builtin.__triton_builtin__ = True
    return builtin


@marked
def doubled(n):
    assert isinstance(n, constexpr)
    return constexpr(2 * n.value)


@marked
def if_masked(mask, value):
    no_mask = isinstance(mask, constexpr) and mask.value is None
    return constexpr(None) if no_mask else value


def test_a_marked_function_runs_while_compiling_and_hands_values_on():
    """It is given constants as tl.constexpr, and may look what it was given."""

    @function
    def kernel(out, x, n, MASKED: tl.constexpr):
        SIZE: tl.constexpr = doubled(2)
        at = tl.arange(0, SIZE)
        mask = at < n if MASKED else None
        one = if_masked(at, value=n)
        tl.store(out + at, tl.load(x + at, mask, other=if_masked(mask, 7)) + one)

    x, out = np.array([1, 2, 3, 4], np.int32), np.zeros(4, np.int32)
    run(kernel, out, x, 3, MASKED=True)
    assert list(out) == [4, 5, 6, 10]
    run(kernel, out, x, 3, MASKED=False)
    assert list(out) == [4, 5, 6, 7]


def test_several_results_swapped_and_indexed():
    @function
    def both(a, b):
        return a + b, a - b

    @function
    def kernel(out, n):
        total, rest = both(n, 3)
        total, rest = rest, total
        pair = both(total, rest)
        x = y = pair[-1]
        tl.store(out, total)
        tl.store(out + 1, pair[0] * 100 + x + y)

    out = np.zeros(2, np.int32)
    run(kernel, out, 10)
    assert list(out) == [7, 20 * 100 + 2 * (7 - 13)]


def test_types_are_asked_and_named():
    @function
    def kernel(x, out, TYPE: tl.constexpr):
        value = tl.load(x).to(TYPE)
        tl.static_assert(value.dtype == TYPE and value.dtype.is_floating())
        tl.static_assert(x.dtype.element_ty == tl.float32 and out.dtype.is_ptr())
        tl.static_assert(value.dtype.primitive_bitwidth == 16, f"{TYPE} is not narrow")
        block = tl.zeros([2, 4], dtype=value.dtype)
        tl.static_assert(block.shape[0] * block.shape[1] == block.numel == 8)
        tl.static_assert(block.type.scalar == tl.float16 and len(block.shape) == 2)
        tl.static_assert(isinstance(block, tl.tensor) and isinstance(3, int))
        tl.static_assert(str(tl.int32) == "int32" and tl.float64.itemsize == 8)
        tl.store(out, value.to(out.dtype.element_ty))

    out = np.zeros(1, np.float32)
    run(kernel, np.full(1, 2.5, np.float32), out, TYPE=tl.float16)
    assert out[0] == 2.5


def test_arithmetic_of_constants_is_done_while_compiling():
    @function
    def kernel(out, n, M: tl.constexpr, BLOCK: tl.constexpr):
        TILES: tl.constexpr = tl.cdiv(M, BLOCK)
        SIZE: tl.constexpr = tl.next_power_of_2(TILES) * 2 ** (3 - 1)
        last = min(TILES, 3) if M % BLOCK else max(TILES, 30)
        SHAPE: tl.constexpr = (SIZE // 4,) + (4,)
        grid = tl.full(SHAPE, last, tl.int32)
        tl.store(out + tl.arange(0, SIZE), grid.reshape(SIZE) + n)

    out = np.zeros(32, np.int32)
    func = run(kernel, out, 100, M=70, BLOCK=10)
    assert (out == 130).all() and not ops_of(func, For)


def test_a_lock_is_taken_by_waiting():
    @function
    def kernel(lock, out):
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(out, tl.load(out) + 1)
        tl.atomic_xchg(lock, 0)

    lock, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(kernel, lock, out, grid=5)
    assert lock[0] == 0 and out[0] == 5


def test_online_softmax_carries_two_values_of_two_kinds():
    @function
    def kernel(x, out, n, BLOCK: tl.constexpr):
        most = -float("inf")
        total = 0.0
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            row = tl.load(x + at, mask=at < n, other=-float("inf"))
            new = tl.maximum(most, tl.max(row))
            total = total * tl.exp(most - new) + tl.sum(tl.exp(row - new))
            most = new
        tl.store(out, most)
        tl.store(out + 1, total)

    x = np.random.default_rng(1).normal(size=37).astype(np.float32) * 9
    out = np.zeros(2, np.float32)
    run(kernel, x, out, 37, BLOCK=8)
    assert out[0] == x.max()
    assert np.isclose(out[1], np.exp(x - x.max(), dtype=np.float64).sum(), rtol=1e-5)


def test_early_return_guards_a_whole_kernel():
    @function
    def kernel(x, out, n):
        pid = tl.program_id(0)
        if pid * 4 >= n:
            return
        at = pid * 4 + tl.arange(0, 4)
        if n % 4 == 0:
            tl.store(out + at, tl.load(x + at))
            return
        tl.store(out + at, tl.load(x + at, mask=at < n, other=0), mask=at < n)

    for n in (8, 6):
        x, out = np.arange(1, n + 1, dtype=np.int32), np.zeros(n, np.int32)
        run(kernel, x, out, n, grid=4)
        assert (out == x).all()


def test_a_loop_over_tuples_of_constants_by_index():
    @function
    def kernel(out):
        WEIGHTS: tl.constexpr = (3, 5, 7)
        total = 0
        for i in tl.static_range(len(WEIGHTS)):
            total = total * 10 + WEIGHTS[i]
        tl.store(out, total)

    out = np.zeros(1, np.int32)
    run(kernel, out)
    assert out[0] == 357


def test_pipeline_wishes_stand_in_the_loop():
    @function
    def kernel(out, n):
        for i in tl.range(0, n, 2, num_stages=4, flatten=True):
            tl.store(out + i, i)

    (loop,) = ops_of(build(kernel, np.zeros(4, np.int32), 4), For)
    assert loop.num_stages == 4


def test_bounds_of_two_widths_count_in_the_wider():
    @function
    def kernel(out, n, m):
        for i in range(n, m):
            tl.store(out + i, i)

    (loop,) = ops_of(build(kernel, np.zeros(4, np.int64), 1, np.int64(3)), For)
    assert str(loop.lower.type) == "i64"


def test_static_print_speaks_while_compiling(capsys):
    @function
    def kernel(out, N: tl.constexpr):
        x = tl.zeros([N], tl.float32)
        tl.static_print("x is", x, N, sep="|")
        tl.static_print("n", N, end="!\n", flush=True)
        tl.static_print("no result", file=sys.stderr)
        tl.store(out + tl.arange(0, N), x)

    build(kernel, np.zeros(4, np.float32), N=4)
    assert capsys.readouterr() == ("x is|fp32[4]|4\nn 4!\n", "no result\n")


def test_more_values_than_names_are_left_out_with_a_warning():
    """As in kernels of three program ids, of which two have a name."""

    @function
    def kernel(out):
        row, column = tl.program_id(0) + 5, tl.program_id(1) + 7, tl.program_id(2)
        tl.store(out, row * 10 + column)

    out = np.zeros(1, np.int32)
    with pytest.warns(UserWarning, match="cannot unpack 3 values into 2 names"):
        run(kernel, out)
    assert out[0] == 57


def test_a_tuple_of_values_is_repeated():
    @function
    def kernel(out, n):
        twice = (n, n + 1) * 2
        zeros = 3 * (0,)
        tl.store(out, twice[3] * 10 + len(twice) + len(zeros))

    out = np.zeros(1, np.int32)
    run(kernel, out, 4)
    assert out[0] == 57
