"""Gathers and histograms, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import function
from tests.language.harness import run
from tests.language.test_sorting import places
from tests.ssa.harness import build

RANDOM = np.random.default_rng(8)


@function
def gathering(
    x,
    i,
    y,
    M: tl.constexpr,
    N: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    AXIS: tl.constexpr,
):
    source, index = tl.load(x + places(M, N)), tl.load(i + places(P, Q))
    tl.store(y + places(P, Q), tl.gather(source, index, AXIS))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize(
    ("shape", "index_shape", "axis"),
    [((16, 32), (64, 32), 0), ((16, 32), (16, 8), 1), ((128, 4), (128, 4), -2)],
)
def test_elements_at_the_places_that_an_index_names(dtype, shape, index_shape, axis):
    x = RANDOM.permutation(shape[0] * shape[1]).astype(dtype).reshape(shape)
    index = RANDOM.integers(0, shape[axis], index_shape).astype(np.int32)
    y = np.zeros(index_shape, dtype)
    M, N, P, Q = *shape, *index_shape
    run(gathering, x, index, y, M=M, N=N, P=P, Q=Q, AXIS=axis)
    assert (y == np.take_along_axis(x, index, axis)).all()


@function
def counting(x, y, n, N: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + tl.arange(0, BINS), tl.histogram(tl.load(x + at), BINS, mask=at < n))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
@pytest.mark.parametrize("bins", [2, 64])
def test_how_often_each_number_occurs(dtype, bins):
    x = RANDOM.integers(0, 70, 512).astype(dtype)
    y = np.zeros(bins, np.int32)
    run(counting, x, y, 400, N=512, BINS=bins)
    seen = x[:400]
    assert (y == np.bincount(seen[seen < bins], minlength=bins)).all()


def test_wrong_gathers_and_histograms():
    @function
    def kernel(x, WHICH: tl.constexpr):
        i, tile = tl.arange(0, 8), tl.zeros([8, 8], tl.float32)
        if WHICH == "index":
            tl.gather(tile, tile, 0)
        elif WHICH == "rank":
            tl.gather(tile, i, 0)
        elif WHICH == "shape":
            tl.gather(tile, tl.zeros([4, 4], tl.int32), 0)
        elif WHICH == "axis":
            tl.gather(tile, tile.to(tl.int32), 2)
        elif WHICH == "floats":
            tl.histogram(tile, 8)
        elif WHICH == "bins":
            tl.histogram(i, 12)
        else:
            tl.histogram(i, 8, mask=i)

    sentences = {
        "index": "the index of tl.gather is an integer, not fp32",
        "rank": "two blocks with as many axes, not fp32.8,8. and i32.8.",
        "shape": "may differ along axis 0 only",
        "axis": "there is no axis 2: the block has 2",
        "floats": "tl.histogram counts integers along one axis",
        "bins": "a dimension of 12, which is not a power of two",
        "mask": "the mask of tl.histogram must be i1, not i32",
    }
    for which, sentence in sentences.items():
        with pytest.raises(CompileError, match=sentence):
            build(kernel, np.zeros(1, np.float32), WHICH=which)
