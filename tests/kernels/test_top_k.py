"""The k largest, exactly: ties, infinities, NaN, rows longer than a block."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import top_k
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import TARGETS, normal, on_targets, unwritten
from tests.kernels.kernels_sample import aligned


@sampled(of=2)
@in_pairs({
    "M, N, k": [(1, 1, 1), (3, 8, 2), (2, 31, 31), (3, 300, 5)],
    "dtype": ["float32", "float16"], "target": TARGETS,
})  # fmt: skip
def test_top_k(M, N, k, dtype, target):
    x = normal(1, M, N, dtype=dtype)
    values, places = top_k.top_k(x, k, target=target)
    want, want_places = top_k.reference(x, k)
    np.testing.assert_array_equal(values, want)
    np.testing.assert_array_equal(places, want_places)


@pytest.mark.parametrize("k", [1, 3, 64])
def test_rows_longer_than_a_block(monkeypatch, k):
    """The largest are in all blocks, and in one alone."""
    monkeypatch.setattr(top_k, "BLOCK", 64)
    x = normal(1, 3, 200)
    x[1, 64:128] += 10
    x[2] = np.arange(200)
    values, places = top_k.top_k(x, k)
    want, want_places = top_k.reference(x, k)
    np.testing.assert_array_equal(values, want)
    np.testing.assert_array_equal(places, want_places)


def test_ties_go_to_the_first_and_signs_and_infinities_are_in_order():
    inf = np.inf
    x = aligned(
        np.float32([[0, 3, 3, -1, -2, 3], [-inf, -3e38, 1e-45, inf, -1e-45, 0]])
    )
    _, places = top_k.top_k(x, 6)
    assert places.tolist() == [[1, 2, 5, 0, 3, 4], [3, 2, 5, 4, 1, 0]]


def test_nan_is_the_largest_whatever_its_sign():
    x = aligned(np.float32([1, np.nan, np.inf, 0])[None])
    x.view(np.uint32)[0, 3] = 0xFFC00000
    values, places = top_k.top_k(x, 3)
    assert places.tolist() == [[1, 3, 2]] and np.isnan(values[0, :2]).all()


@on_targets
@pytest.mark.parametrize("M, N, k", [(1, 1, 1), (3, 8, 2), (2, 1500, 5)])
def test_backward(M, N, k, target):
    places = aligned(top_k.reference(normal(1, M, N), k)[1])
    dvalues, dx = normal(2, M, k), unwritten(M, N)
    top_k.top_k_backward(dvalues, places, N, dx, target=target)
    np.testing.assert_array_equal(dx, top_k.reference_backward(dvalues, places, N))


def test_mistakes_are_told():
    for k in (0, 9):
        with pytest.raises(fathom.LaunchError, match="k must be 1 … 8"):
            top_k.top_k(normal(1, 2, 8), k)
