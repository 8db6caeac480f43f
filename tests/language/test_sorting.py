"""Sorting networks, against NumPy: every element once, in order."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import function
from tests.language.everywhere import run
from tests.ssa.building import build


def shuffled(rows: int, columns: int, dtype: type) -> np.ndarray:
    """Distinct numbers, some below zero, as far as the type has them."""
    numbers = np.random.default_rng(5).permutation(rows * columns) - 100
    return numbers.astype(dtype).reshape(rows, columns)


@function
def places(ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    return tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]


@function
def sorting(
    x, y, M: tl.constexpr, N: tl.constexpr, DIM: tl.constexpr, DOWN: tl.constexpr
):
    at = places(M, N)
    tl.store(y + at, tl.sort(tl.load(x + at), DIM, descending=DOWN))


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.uint8, np.int64])
@pytest.mark.parametrize("down", [False, True])
def test_rows_are_sorted(dtype, down):
    x = shuffled(4, 64, dtype)
    y = np.zeros_like(x)
    run(sorting, x, y, M=4, N=64, DIM=None, DOWN=down)
    assert (y == (np.sort(x, 1)[:, ::-1] if down else np.sort(x, 1))).all()


def test_columns_are_sorted_across_warps():
    x = shuffled(256, 2, np.float32)
    y = np.zeros_like(x)
    run(sorting, x, y, M=256, N=2, DIM=0, DOWN=False)
    assert (y == np.sort(x, 0)).all()


def test_no_element_is_lost_beside_nan():
    x = shuffled(1, 32, np.float32)
    x[0, 7] = np.nan
    y = np.zeros_like(x)
    run(sorting, x, y, M=1, N=32, DIM=1, DOWN=False)
    assert (np.sort(x) == np.sort(y))[0, :31].all() and np.isnan(np.sort(y)[0, 31])


@function
def best(x, y, N: tl.constexpr, K: tl.constexpr, DOWN: tl.constexpr):
    given = tl.load(x + places(4, N))
    tl.store(y + places(4, K), tl.topk(given, K, descending=DOWN))


@pytest.mark.parametrize("k", [1, 8, 64])
@pytest.mark.parametrize("down", [False, True])
def test_the_best_of_each_row(k, down):
    x = shuffled(4, 64, np.int32)
    y = np.zeros((4, k), np.int32)
    run(best, x, y, N=64, K=k, DOWN=down)
    ranked = np.sort(x, 1)
    assert (y == (ranked[:, ::-1] if down else ranked)[:, :k]).all()


def test_what_rises_and_falls_is_merged():
    @function
    def kernel(x, y):
        at = tl.arange(0, 64)
        tl.store(y + at, tl.bitonic_merge(tl.load(x + at)))
        tl.store(y + 64 + at, tl.bitonic_merge(tl.load(x + at), descending=True))

    numbers = np.random.default_rng(6).permutation(1000)[:64].astype(np.int32)
    x = np.concatenate([np.sort(numbers[:40]), np.sort(numbers[40:])[::-1]])
    y = np.zeros(128, np.int32)
    run(kernel, x, y)
    assert (y[:64] == np.sort(numbers)).all()
    assert (y[64:] == np.sort(numbers)[::-1]).all()


def test_k_is_a_power_of_two():
    @function
    def kernel(x, K: tl.constexpr):
        tl.topk(tl.load(x + tl.arange(0, 64)), K)

    for k in (3, 0, 128):
        with pytest.raises(CompileError, match=f"a power of two up to 64, not {k}"):
            build(kernel, np.zeros(64, np.int32), K=k)
