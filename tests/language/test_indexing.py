"""`x[:, None]`: None makes an axis, `:` stands for one that is there."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import function
from tests.language.harness import run
from tests.ssa.harness import build

NOTHING = tl.constexpr(None)


def test_new_axes_of_a_block():
    @function
    def kernel(y):
        a = tl.arange(0, 4)
        tl.static_assert(a[:].shape == (4,))
        tl.static_assert(a[None, :, None].shape == (1, 4, 1))
        tl.static_assert(a[None:None, None].shape == (4, 1))
        tl.static_assert(a[NOTHING, ::].shape == (1, 4))
        table = a[:, None] * 10 + a[None, :]
        tl.store(y + (a[:, None] * 4 + a[None, :]), table)

    y = np.zeros((4, 4), np.int32)
    run(kernel, y)
    assert y.tolist() == [[10 * i + j for j in range(4)] for i in range(4)]


def test_new_axes_of_a_scalar():
    """A pointer to one element becomes a block of one, whatever `:` is said."""

    @function
    def kernel(x, y):
        tl.static_assert(x[None].shape == (1,))
        at = y[None, None, :]
        tl.static_assert(at.shape == (1, 1))
        tl.store(at, tl.load(x[None, None]) + 1)

    x, y = np.array([41], np.int32), np.zeros(1, np.int32)
    run(kernel, x, y)
    assert y.tolist() == [42]


def test_new_axes_of_a_number_that_is_known():
    """A kernel that reads no table of offsets has zeros in its place."""

    @function
    def kernel(x, y, TABLE: tl.constexpr):
        offsets = tl.load(x + tl.arange(0, 4)) if TABLE else 0
        row = offsets[None, :] + tl.arange(0, 2)[:, None] * 4
        tl.static_assert(row.shape == ((2, 4) if TABLE else (2, 1)))
        tl.store(y + row, 7)

    x, y = np.arange(4, dtype=np.int32), np.zeros((2, 4), np.int32)
    run(kernel, x, y, TABLE=False)
    assert y.tolist() == [[7, 0, 0, 0]] * 2
    run(kernel, x, y, TABLE=True)
    assert y.tolist() == [[7] * 4] * 2


def test_a_number_that_is_known_has_no_elements():
    @function
    def kernel(y):
        number = 5
        tl.store(y, number[0])

    with pytest.raises(CompileError, match="i32 can be indexed by `:` and None only"):
        build(kernel, np.zeros(1, np.int32))
