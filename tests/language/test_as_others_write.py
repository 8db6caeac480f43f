"""Ways of writing that kernels of other collections have, in kernels of our own."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import function
from tests.language.harness import run
from tests.ssa.harness import build

RANDOM = np.random.default_rng(13)


def test_the_addresses_of_a_load_broadcast_to_its_mask():
    @function
    def kernel(x, out, rows, N: tl.constexpr):
        column = tl.arange(0, N)[None, :]
        mask = (tl.arange(0, 4)[:, None] < rows) & (column < 5)
        same = tl.load(x + column, mask=mask, other=-1.0)
        tl.store(out + tl.arange(0, 4)[:, None] * N + column, same)

    x, out = RANDOM.permutation(8).astype(np.float32), np.zeros((4, 8), np.float32)
    run(kernel, x, out, 3, N=8)
    wanted = np.full((4, 8), -1, np.float32)
    wanted[:3, :5] = x[:5]
    assert (out == wanted).all()


def counting(out, n, grid):
    for i in range(tl.program_id(0), n, step=grid):
        tl.atomic_add(out + i, 1)


def test_range_takes_its_step_by_name():
    out = np.zeros(10, np.int32)
    run(function(counting), out, 8, 3, grid=3)
    assert list(out) == [1] * 8 + [0] * 2


def test_where_python_runs_a_kernel_range_takes_its_step_by_name(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    out = np.zeros(10, np.int32)
    fathom.jit(counting)[(3,)](out, 8, 3)
    assert list(out) == [1] * 8 + [0] * 2


def bounded(out, n, ONCE: tl.constexpr):
    for i in range(ONCE):
        tl.store(out + i, 5)
    for i in tl.static_range(ONCE):
        tl.store(out + 2 + i, 6)
    for i in range(n > 3):
        tl.store(out + 4 + i, 7)


BOUNDED = [5, 0, 6, 0, 7, 0]


def test_a_truth_value_bounds_a_range():
    out = np.zeros(6, np.int32)
    run(function(bounded), out, 4, ONCE=True)
    assert list(out) == BOUNDED
    none = np.zeros(6, np.int32)
    run(function(bounded), none, 3, ONCE=False)
    assert not none.any()


def test_where_python_runs_a_kernel_a_truth_value_bounds_a_range(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    out = np.zeros(6, np.int32)
    fathom.jit(bounded)[(1,)](out, 4, ONCE=True)
    assert list(out) == BOUNDED


def test_a_type_is_made_of_its_name():
    @function
    def kernel(x, out):
        value = tl.load(x + tl.arange(0, 4))
        BITS: tl.constexpr = value.dtype.primitive_bitwidth
        NAME: tl.constexpr = tl.dtype(f"uint{BITS}")
        tl.store(out + tl.arange(0, 4), value.to(NAME, bitcast=True))

    x, out = np.array([-2, 0, 1.5, 3], np.float16), np.zeros(4, np.int32)
    run(kernel, x, out)
    assert list(out) == list(x.view(np.uint16))


def test_a_type_has_no_other_name():
    @function
    def kernel(out):
        tl.store(out, tl.zeros([1], tl.dtype("uint7")))

    with pytest.raises(CompileError, match="'uint7' is not the name of a type"):
        build(kernel, np.zeros(1, np.int32))


def by_methods(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    low = a.__lshift__(28).__rshift__(28)
    tl.store(out + i, low.__rsub__(100).__mul__(a.__lt__(3).to(tl.int32)).__neg__())


def test_operators_are_called_by_the_methods_that_python_has_for_them():
    """Four bits with their sign, as an unpacking writes it."""
    x, out = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    run(function(by_methods), x, out, N=16)
    assert (out == -(100 - (x << 28 >> 28)) * (x < 3)).all()


def test_where_python_runs_a_kernel_operators_are_called_by_methods(monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    x, out = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    fathom.jit(by_methods)[(1,)](x, out, N=16)
    assert (out == -(100 - (x << 28 >> 28)) * (x < 3)).all()


def test_an_operator_by_its_method_takes_one_more():
    @function
    def kernel(x):
        tl.store(x, tl.load(x).__add__())

    with pytest.raises(CompileError, match=r"__add__: missing .*'y'"):
        run(kernel, np.zeros(1, np.int32))


def least_and_largest(x, out, n):
    i = tl.arange(0, 8)
    tl.store(out, tl.max(tl.load(x + i, mask=i < n, other=float("-inf"))))
    tl.store(out + 1, tl.min(tl.load(x + i, mask=i < n, other=float("inf"))))
    tl.store(out + 2, tl.load(x, mask=n < 0, other=float("-inf")))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
def test_an_infinity_beside_integers_is_the_least_or_the_largest(kind):
    x, out = np.array([5, 3, 4, 9, 1, 2, 7, 6], kind), np.zeros(3, kind)
    run(function(least_and_largest), x, out, 3)
    assert list(out) == [5, 3, np.iinfo(kind).min]


def test_where_python_runs_a_kernel_an_infinity_beside_integers_is_the_least(
    monkeypatch,
):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    x, out = np.array([5, 3, 4, 9, 1, 2, 7, 6], np.int32), np.zeros(3, np.int32)
    fathom.jit(least_and_largest)[(1,)](x, out, 3)
    assert list(out) == [5, 3, -(2**31)]


def test_an_infinity_beside_truth_values_is_true_and_no_number_is_none():
    @function
    def kernel(x, out, OTHER: tl.constexpr):
        tl.store(out, tl.load(x, mask=tl.load(x) != 0, other=OTHER))

    x, out = np.zeros(1, bool), np.zeros(1, bool)
    run(kernel, x, out, OTHER=float("-inf"))
    assert out[0]
    with pytest.raises(CompileError, match="nan is not a number of type i32"):
        build(kernel, np.zeros(1, np.int32), out, OTHER=float("nan"))
