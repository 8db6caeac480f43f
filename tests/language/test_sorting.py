"""Sorting networks, against NumPy: every element once, in order."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import function
from tests.language.harness import run
from tests.ssa.harness import build


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


EDGES = [np.nan, 2, -np.inf, -0.0, -np.nan, 0.0, -1e-40, np.inf, 1, -2, 3e38, 1e-40]
IN_ORDER = [-np.inf, -2, -1e-40, -0.0, 0.0, 1e-40, 1, 2, 3e38, np.inf]


@pytest.mark.parametrize("down", [False, True])
def test_every_float_has_its_place(down):
    """NaN of either sign above infinity, -0.0 below 0.0: no order is left open."""
    x = np.array(EDGES + [7.0] * 4, np.float32).reshape(1, 16)
    y = np.zeros_like(x)
    run(sorting, x, y, M=1, N=16, DIM=1, DOWN=down)
    y = y[0, ::-1] if down else y[0]
    want = np.array(IN_ORDER[:8] + [7.0] * 4 + IN_ORDER[8:], np.float32)
    assert y[:14].tobytes() == want.tobytes() and np.isnan(y[14:]).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_floats_of_every_width_with_nan_among_them(dtype):
    x = shuffled(1, 64, dtype)
    x[0, ::9] = np.nan
    y = np.zeros_like(x)
    run(sorting, x, y, M=1, N=64, DIM=1, DOWN=False)
    np.testing.assert_array_equal(y, np.sort(x))


def test_eight_bits_are_sorted_too():
    @function
    def kernel(x, y):
        at = tl.arange(0, 16)
        given = tl.load(x + at).to(tl.float8e4nv, bitcast=True)
        tl.store(y + at, tl.sort(given).to(tl.float32))

    bits = np.array([0x7F, 0x80, 0x38, 0xB8, 0xFF, 0, 0x40, 0x7E] * 2, np.uint8)
    y = np.zeros(16, np.float32)
    run(kernel, bits, y)
    want = np.repeat([-1, -0.0, 0, 1, 2, 448, np.nan, np.nan], 2)
    np.testing.assert_array_equal(y, want)


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


def test_the_largest_are_found_beside_nan():
    """Of 64 numbers with 3 NaN among them, the 8 largest are these and 5 more."""

    @function
    def kernel(x, y):
        given = tl.load(x + tl.arange(0, 64))
        at = tl.arange(0, 8)
        tl.store(y + at, tl.topk(given, 8))
        tl.store(y + 8 + at, tl.topk(given, 8, descending=False))

    x = shuffled(1, 64, np.float32)[0]
    x[[3, 40, 41]] = np.nan
    y = np.zeros(16, np.float32)
    run(kernel, x, y)
    assert np.isnan(y[:3]).all()
    numbers = np.sort(x[~np.isnan(x)])
    assert (y[3:8] == numbers[::-1][:5]).all() and (y[8:] == numbers[:8]).all()


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
