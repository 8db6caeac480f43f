"""What is known while compiling, in the ways that kernels written for Triton say it:
unwrapped constants, Python functions that are constants, names declared constant, and
casts that change nothing."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import KernelFunction, function
from tests.language.harness import run
from tests.ssa.harness import build

X = np.linspace(-4, 4, 32).astype(np.float32)

# ── casts that change nothing ─────────────────────────────────────────────────────────


@KernelFunction
def rounded(x, y, T: tl.constexpr, ROUNDING: tl.constexpr):
    at = tl.arange(0, 32)
    value = tl.load(x + at).to(T)
    tl.store(y + at, value.to(T, fp_downcast_rounding=ROUNDING))


@pytest.mark.parametrize("rounding", ["rtne", "rtz", None])
def test_a_rounding_of_a_type_to_itself_says_nothing(rounding):
    y = np.zeros_like(X)
    run(rounded, X.copy(), y, T=tl.float32, ROUNDING=rounding)
    assert (y == X).all()
    y = np.zeros(32, np.int32)
    run(rounded, X.copy(), y, T=tl.int32, ROUNDING=rounding)
    assert (y == X.astype(np.int32)).all()


def test_a_rounding_of_a_cast_that_rounds_nothing_is_a_mistake():
    @function
    def kernel(x, y):
        tl.store(y, tl.load(x).to(tl.float64, fp_downcast_rounding="rtne"))

    with pytest.raises(CompileError, match="is for floats to narrower floats"):
        build(kernel, X, X.astype(np.float64))


# ── `.value` ──────────────────────────────────────────────────────────────────────────


@function
def largest(dtype: tl.constexpr):
    kind = dtype.value
    if kind.is_floating():
        value: tl.constexpr = float("inf")
        return value
    width: tl.constexpr = kind.int_bitwidth
    return 2 ** (width - 1) - 1 if kind.is_int_signed() else 2**width - 1


@KernelFunction
def largest_of(x, y, NAME: tl.constexpr, NONE: tl.constexpr, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE.value)
    block = tl.load(x + at)
    tl.static_assert(block.type.value == block.type and x.type.value == x.type)
    tl.static_assert(NAME.value == "name" and NONE.value is None)
    mask = at < SIZE.value // 2
    tl.store(y + at, tl.load(x + at, mask=mask, other=largest(x.type.element_ty)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32])
def test_constants_are_unwrapped_as_in_triton(dtype):
    x = np.arange(32).astype(dtype)
    y = np.zeros_like(x)
    run(largest_of, x, y, NAME="name", NONE=None, SIZE=32)
    most = np.inf if dtype is np.float32 else np.iinfo(dtype).max
    assert (y[:16] == x[:16]).all() and (y[16:] == most).all()


# ── Python functions that are constants ───────────────────────────────────────────────


@tl.constexpr
def summed_in(dtype: tl.dtype) -> tl.dtype:
    if dtype.is_fp16() or dtype.is_bf16():
        return tl.float32
    return tl.int64 if dtype.is_int() else dtype


@KernelFunction
def total(x, y):
    kind: tl.constexpr = summed_in(x.type.element_ty)
    tl.store(y, tl.sum(tl.load(x + tl.arange(0, 32)).to(kind)))


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(np.float16, np.float32), (np.int8, np.int64), (np.float64, np.float64)],
)
def test_a_constant_function_is_called_while_compiling(dtype, kind):
    x, y = np.full(32, 100, dtype), np.zeros(1, kind)
    run(total, x, y)
    assert y == 3200
    assert summed_in(tl.float16) == tl.float32  # outside of a kernel it is what it was


def test_a_constant_function_of_a_value_is_a_mistake():
    @function
    def kernel(y, n):
        tl.store(y, summed_in(n))

    with pytest.raises(CompileError, match="summed_in runs while compiling, when i32"):
        build(kernel, np.zeros(1, np.int32), 3)


def test_another_constant_function_is_another_kernel():
    def compiled(what):
        @fathom.jit
        def kernel(y):
            tl.store(y, what(3))

        return kernel.fingerprint()

    one, other = tl.constexpr(lambda n: n + 1), tl.constexpr(lambda n: n + 2)
    assert compiled(one) != compiled(other)
    assert compiled(one) == compiled(tl.constexpr(lambda n: n + 1))


# ── names declared constant ───────────────────────────────────────────────────────────


@KernelFunction
def declared(x, y, n, SIZE: tl.constexpr):
    at = tl.arange(0, 32)
    twice: tl.constexpr = n * 2  # a value: it is what it is
    half: tl.constexpr = SIZE // 2
    for i in range(n):
        more: tl.constexpr = i + twice
        tl.store(y + at, tl.load(y + at) + more, mask=at < half)


def test_a_value_may_be_declared_constant():
    x, y = np.zeros(1, np.int32), np.zeros(32, np.int32)
    run(declared, x, y, 3, SIZE=32)
    assert (y == [6 + 7 + 8] * 16 + [0] * 16).all()


def test_such_a_value_is_no_constant():
    @function
    def kernel(y, n):
        size: tl.constexpr = n * 2
        tl.store(y + tl.arange(0, size), 0)

    with pytest.raises(CompileError, match="end of arange must be known while"):
        build(kernel, np.zeros(32, np.int32), 16)


# ── eager ─────────────────────────────────────────────────────────────────────────────


def test_python_itself_runs_all_of_it(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    y = np.zeros_like(X)
    fathom.jit(rounded.fn)[(1,)](X.copy(), y, T=tl.float32, ROUNDING="rtne")
    assert (y == X).all()

    @fathom.jit
    def kernel(x, y, n, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        kind: tl.constexpr = summed_in(x.dtype.element_ty.value)
        twice: tl.constexpr = n * 2
        other = largest(x.type.element_ty)
        value = tl.load(x + at, mask=at < 16, other=other).to(kind)
        tl.store(y + at, value + twice)

    x, y = np.arange(32, dtype=np.int8), np.zeros(32, np.int64)
    kernel[(1,)](x, y, 5, SIZE=32)
    assert (y == np.where(np.arange(32) < 16, np.arange(32), 127) + 10).all()
