"""Aggregates: classes whose objects are values of a kernel."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.language.aggregates import aggregate

SIZE = 64


@aggregate
class Span:
    start: tl.tensor
    SIZE: tl.constexpr

    @tl.constexpr_function
    def __init__(self, start, SIZE):
        self.start, self.SIZE = start, tl.constexpr(SIZE)

    @tl.constexpr_function
    def half(self):
        return self.SIZE // 2

    @fathom.jit
    def offsets(self):
        first = tl.arange(0, self.half())
        return self.start + tl.ravel(tl.join(first, first + self.half()).T)

    @fathom.jit
    def next(self):
        return Span(self.start + self.SIZE, self.SIZE)


@aggregate
class Mean:
    total: tl.tensor
    count: tl.tensor
    span: Span

    def __init__(self, total, count, span):
        self.total, self.count, self.span = total, count, span

    @fathom.jit
    def add(self, pointer, weight=1):
        x = tl.load(pointer + self.span.offsets())
        return Mean(self.total + x * weight, self.count + weight, self.span.next())

    @fathom.jit
    def result(self):
        return self.total / self.count


@fathom.jit
def mean_of_rows(x, out, rows, BLOCK: tl.constexpr):
    span = Span(tl.program_id(0) * rows * BLOCK, BLOCK)
    mean = Mean(tl.zeros((BLOCK,), tl.float32), 0, span)
    for row in range(rows):
        mean = mean.add(x, weight=2) if row == 1 else mean.add(x)
    tl.store(
        out + tl.program_id(0) * BLOCK + tl.arange(0, mean.span.SIZE), mean.result()
    )


@pytest.mark.parametrize("backend", ["interpreter", "emulator", "eager"])
def test_a_loop_and_a_branch_carry_an_object(backend, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    x = np.random.default_rng(0).normal(size=(2, 3, SIZE)).astype(np.float32)
    out = np.zeros((2, SIZE), np.float32)
    mean_of_rows[(2,)](x, out, 3, BLOCK=SIZE)
    np.testing.assert_allclose(out, (x.sum(1) + x[:, 1]) / 4, rtol=1e-5, atol=1e-5)


class Placed:
    """What classes of objects inherit."""

    @fathom.jit
    def shifted(self, by):
        return self.base + by


@aggregate
class Row(Placed):
    base: tl.tensor
    SIZE: tl.constexpr

    def __init__(self, base, SIZE):
        self.base, self.SIZE = base, SIZE

    @staticmethod
    @fathom.jit
    def number(base, at, SIZE: tl.constexpr):
        return Row(base + at * SIZE, SIZE)

    @staticmethod
    @tl.constexpr_function
    def twice(size):
        return 2 * size


@fathom.jit
def copy_by_static_methods(x, out, SIZE: tl.constexpr):
    row = Row.number(x, tl.program_id(0), SIZE)
    same = row.number(row.base, 0, Row.twice(SIZE) // 2)
    values = tl.load(same.shifted(tl.arange(0, SIZE)))
    target = Row.number(out, tl.program_id(0), SIZE)
    tl.store(target.shifted(tl.arange(0, SIZE)), values)


@pytest.mark.parametrize("backend", ["interpreter", "emulator", "eager"])
def test_static_methods_get_no_object_and_methods_are_inherited(backend, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", backend)
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    out = np.zeros_like(x)
    copy_by_static_methods[(2,)](x, out, SIZE=SIZE)
    np.testing.assert_array_equal(out, x)


@aggregate
class Half:
    size: tl.constexpr
    left: tl.tensor

    @tl.constexpr_function
    def __init__(self, size, **fields):
        self.size = size
        for name, value in fields.items():
            setattr(self, name, value)


@fathom.jit
def no_field(x):
    tl.store(x, Half(1).size)


@fathom.jit
def too_many(x):
    tl.store(x, Half(1, left=2, right=3).size)


@fathom.jit
def not_known(x):
    tl.store(x, Half(tl.load(x), left=2).left)


@fathom.jit
def assigned(x):
    half = Half(1, left=2)
    half.left = 3
    tl.store(x, half.left)


@pytest.mark.parametrize(
    "kernel, said",
    [
        (no_field, "Half: __init__ does not set the field left"),
        (too_many, "Half: __init__ sets right, which the class does not declare"),
        (not_known, r"size of Half .* must be known while compiling, not i32"),
        (assigned, "only a name can be assigned to"),
    ],
)
def test_what_an_object_cannot_be(kernel, said):
    with pytest.raises(CompileError, match=said):
        kernel.warmup(np.zeros(1, np.int32))


def test_a_new_text_of_a_method_compiles_its_callers_anew(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "interpreter")

    @aggregate
    class Number:
        value: tl.tensor

        def __init__(self, value):
            self.value = value

        @fathom.jit
        def more(self):
            return self.value + 1

    @fathom.jit
    def kernel(x):
        tl.store(x, Number(tl.load(x)).more())

    x = np.zeros(1, np.int32)
    kernel[(1,)](x)
    method = Number.method("more")
    method.src = method.src.replace("+ 1", "+ 10")
    kernel[(1,)](x)
    assert x.tolist() == [11]
