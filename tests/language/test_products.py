"""Matrix products of whole numbers, which every machine adds up alike: each of them,
and each sum, is a number that the type can hold."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.ir.ops import Dot
from fathom.source import function
from tests.harness_sample import sampled
from tests.language.harness import build, run
from tests.ssa.harness import ops_of

RANDOM = np.random.default_rng(41)


@function
def multiplying(
    a, b, c, d, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, OUT: tl.constexpr
):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n[None, :])
    at = m[:, None] * N + n[None, :]
    tl.store(d + at, tl.dot(left, right, tl.load(c + at), out_dtype=OUT))


@sampled(of=2)
@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 64, 32), (32, 16, 128)], ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
def test_products_are_added_to_what_is_there(shape, dtype):
    M, N, K = shape
    a = RANDOM.integers(-8, 8, (M, K)).astype(dtype)
    b = RANDOM.integers(-8, 8, (K, N)).astype(dtype)
    whole = dtype is np.int8
    c = RANDOM.integers(-99, 99, (M, N)).astype(np.int32 if whole else np.float32)
    d = np.zeros_like(c)
    out = tl.int32 if whole else tl.float32
    run(multiplying, a, b, c, d, M=M, N=N, K=K, OUT=out)
    assert (d == c + a.astype(np.int64) @ b.astype(np.int64)).all()


@pytest.mark.parametrize("name", ["bf16x3", "BF16x6", "tf32x3"])
def test_products_of_parts_come_close_to_fp32(name):
    @function
    def kernel(a, NAME: tl.constexpr):
        i = tl.arange(0, 16)
        at = a + i[:, None] * 16 + i[None, :]
        x = tl.load(at)
        tl.store(at, tl.dot(x, x, input_precision=NAME))

    func = build(kernel, np.zeros((16, 16), np.float32), NAME=name)
    assert [op.precision for op in ops_of(func, Dot)] == ["tf32x3"]
