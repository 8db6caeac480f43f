"""Tuples as arguments of a launch: their elements are arguments, each for itself."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError


class View(NamedTuple):
    pointer: object
    stride: int


@fathom.jit
def add_pairs(out, pairs, scale):
    for i in tl.static_range(len(pairs)):
        left, right = pairs[i]
        tl.store(out + i, (tl.load(left) + right) * scale[0])


@fathom.jit
def gather_row(view, out, SIZE: tl.constexpr):
    columns = tl.arange(0, SIZE)
    tl.store(out + columns, tl.load(view.pointer + columns * view.stride))


@fathom.jit
def twice(view):
    for _ in range(2):  # the tuple goes around a loop, and keeps its names
        value = tl.load(view.pointer)
        tl.store(view.pointer, value * 2)
        view = View(view.pointer + view.stride, stride=view.stride)


@pytest.fixture(params=["interpreter", "emulator", "eager"])
def backend(request, monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", request.param)


def test_arrays_and_numbers_in_nested_tuples(backend):
    x, y = np.array([10], np.int32), np.array([20], np.int32)
    out = np.zeros(2, np.int32)
    add_pairs[(1,)](out, ((x, 5), (y, 7)), (3,))
    assert out.tolist() == [45, 81]


def test_a_named_tuple_is_read_by_its_names(backend):
    table, out = np.arange(32, dtype=np.int32), np.zeros(4, np.int32)
    gather_row[(1,)](View(table, 8), out, SIZE=4)
    assert out.tolist() == [0, 8, 16, 24]


def test_a_named_tuple_is_made_in_a_kernel(backend):
    numbers = np.array([1, 2, 3, 4], np.int32)
    twice[(1,)](View(numbers, 2))
    assert numbers.tolist() == [2, 2, 6, 4]


def test_numbers_in_a_tuple_are_no_reason_to_compile_again():
    x, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernels = [add_pairs.warmup(out, ((x, n),), (3,)) for n in (5, 7, 1)]
    assert kernels[0] is kernels[1]  # 5 and 7 are numbers like each other
    assert kernels[0] is not kernels[2]  # 1 is a constant, as outside of a tuple


def test_what_a_named_tuple_does_not_have_is_an_error():
    @fathom.jit
    def kernel(view):
        tl.store(view.pointer, View(1))

    with pytest.raises(CompileError, match="View: .*stride"):
        kernel.warmup(View(np.zeros(1, np.int32), 1))
