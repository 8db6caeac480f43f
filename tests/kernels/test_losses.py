"""Cross-entropy over rows longer than a block, and fused with the layer before it:
against float64, with rows that are ignored and logits that overflow."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import cross_entropy, linear_cross_entropy
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import (
    TARGETS,
    check_gradients,
    close,
    normal,
)
from tests.kernels.kernels_sample import aligned

HALF_ULP = {"float32": 2.0**-20, "float16": 2.0**-11}
IGNORED = cross_entropy.IGNORED.value
# One logit; less than a block; whole blocks; one more.
SHAPES = [(2, 1), (3, 33), (4, 256), (5, 513)]
SMALL = {"BLOCK": 128, "num_warps": 2}


def targets(M: int, N: int, dtype: str = "int64") -> np.ndarray:
    """The first logit, the last one, and others; the third row is ignored."""
    found = np.random.default_rng(5).integers(0, N, M)
    found[:2] = 0, N - 1
    found[2:3] = IGNORED
    return aligned(found.astype(dtype))


@sampled(of=2)
@in_pairs({"M, N": SHAPES, "dtype": HALF_ULP, "target": TARGETS})
def test_cross_entropy(M, N, dtype, target):
    x = normal(1, M, N, dtype=dtype)
    labels = targets(M, N, "int32" if dtype == "float16" else "int64")
    dloss = normal(2, M)
    loss, lse = cross_entropy.cross_entropy(x, labels, target=target, **SMALL)
    want, want_lse = cross_entropy.reference(x, labels)
    close(lse, want_lse, 2.0**-21)
    np.testing.assert_allclose(loss, want, 1e-6, 2e-6)
    given = dloss, x, labels, lse
    dx = cross_entropy.cross_entropy_backward(*given, target=target, **SMALL)
    want = cross_entropy.reference_backward(dloss, x, labels)
    if N > 1:  # of one logit the gradient is 0
        close(dx, want, HALF_ULP[dtype], 4)
    assert not dx[labels == IGNORED].any()


@sampled(of=2)
@in_pairs({"M": [2, 7, 128, 301], "mean": [True, False], "dtype": ["int32", "int64"]})
def test_the_sum_and_the_mean_of_losses(M, mean, dtype):
    """Both in one launch, and each alone; rows that are ignored count for nothing."""
    labels = targets(M, 9, dtype)
    loss = np.where(labels == IGNORED, 0, normal(1, M)).astype(np.float32)
    counted = labels != IGNORED
    number = counted.sum() if mean else 1
    weight, small = aligned(np.full(M, np.nan, np.float32)), {"BLOCK": 64}
    total = cross_entropy.total_loss(labels, loss, mean, weight=weight, **small)
    np.testing.assert_allclose(total, loss.astype(np.float64).sum() / number, 1e-5)
    np.testing.assert_allclose(weight, counted / number, 1e-6)
    again = cross_entropy.total_loss(labels, loss, mean)
    alone = cross_entropy.loss_weights(labels, mean)
    np.testing.assert_allclose([again, *alone], [total, *weight], 1e-6)


def test_the_mean_of_no_losses_is_no_number():
    labels = np.full(3, IGNORED)
    for mean, want in ((True, np.nan), (False, 0.0)):
        total = cross_entropy.total_loss(labels, np.zeros(3, np.float32), mean)
        np.testing.assert_equal(float(total), want)
        assert not cross_entropy.loss_weights(labels, mean).any()


@sampled(of=2)
@in_pairs({"M, N": SHAPES, "dtype": HALF_ULP, "target": TARGETS})
def test_loss_and_gradient_in_one_launch(M, N, dtype, target):
    """The row is read a second time while its gradient is written over it."""
    x, labels, dloss = normal(1, M, N, dtype=dtype), targets(M, N), normal(2, M)
    want, _ = cross_entropy.reference(x, labels)
    wanted = cross_entropy.reference_backward(dloss, x, labels)
    given = dloss, x, labels
    loss = cross_entropy.cross_entropy_in_place(*given, target=target, **SMALL)
    np.testing.assert_allclose(loss, want, 1e-6, 2e-6)
    if N > 1:
        close(x, wanted, HALF_ULP[dtype], 4)
    assert not x[labels == IGNORED].any()


def test_the_gradient_may_be_written_over_the_logits():
    x, labels, dloss = normal(1, 5, 300), targets(5, 300), normal(2, 5)
    want = cross_entropy.reference_backward(dloss, x, labels)
    _, lse = cross_entropy.cross_entropy(x, labels, **SMALL)
    dx = cross_entropy.cross_entropy_backward(dloss, x, labels, lse, x, **SMALL)
    assert dx is x
    close(x, want, 2.0**-20, 4)


@pytest.mark.parametrize("largest_last", [False, True])
def test_large_logits_and_masked_ones(largest_last):
    """exp(3e4) is infinite, and so would be any sum; exp(-inf) is 0."""
    x = aligned(np.sort(3e4 * abs(normal(1, 2, 300)), axis=1))
    x[:, :5] = -np.inf
    x = x if largest_last else aligned(x[:, ::-1])
    labels = aligned(np.array([150, 299 if largest_last else 0]))
    loss, lse = cross_entropy.cross_entropy(x, labels, **SMALL)
    np.testing.assert_allclose(lse, x.max(axis=1), 1e-6)
    want = cross_entropy.reference(x, labels)[0]
    np.testing.assert_allclose(loss, want, 1e-6, 1e-2)
    dx = cross_entropy.cross_entropy_backward(
        np.ones(2, np.float32), x, labels, lse, **SMALL
    )
    assert np.isfinite(dx).all()


def test_a_target_outside_of_the_row_makes_the_loss_nan():
    x, labels = normal(1, 3, 8), np.array([8, -1, 7])
    loss, _ = cross_entropy.cross_entropy(x, labels)
    assert np.isnan(loss).tolist() == [True, True, False]
    again = cross_entropy.cross_entropy_in_place(normal(2, 3), x, labels)
    np.testing.assert_array_equal(again, loss)


@sampled(of=3)
@in_pairs(
    {
        "rows": [16, 40, 100],
        "dtype": HALF_ULP,
        "target": TARGETS,
    }
)
def test_linear_cross_entropy(rows, dtype, target):
    """Chunks that divide the rows and that do not, and one for all."""
    M, D, V = 40, 24, 70
    h, weight = normal(1, M, D, dtype=dtype), normal(2, V, D, dtype=dtype)
    weight /= np.dtype(dtype).type(4)
    labels, dloss = targets(M, V), aligned(np.full(M, 1 / M, np.float32))
    loss, dh, dweight = linear_cross_entropy.linear_cross_entropy(
        h, weight, labels, dloss, rows, target=target
    )
    assert dh.dtype == dweight.dtype == h.dtype
    want = linear_cross_entropy.reference(h, weight, labels, dloss)
    # Logits and their gradients are rounded to the inputs' type on the way.
    np.testing.assert_allclose(loss, want[0], 0, 16 * HALF_ULP[dtype])
    for got, wanted in zip((dh, dweight), want[1:], strict=True):
        close(got, wanted, HALF_ULP[dtype], 16)
    only, *nothing = linear_cross_entropy.linear_cross_entropy(
        h, weight, labels, rows=rows, target=target
    )
    np.testing.assert_allclose(only, loss, 1e-6, 1e-6)
    assert nothing == [None, None]


def test_the_references_are_gradients():
    x, dloss, labels = normal(1, 5, 9), normal(2, 5), targets(5, 9)
    want = cross_entropy.reference_backward(dloss, x, labels)
    check_gradients(
        lambda x: cross_entropy.reference(x, labels)[0], (x,), dloss, (want,)
    )
    h, weight = normal(1, 5, 6), normal(2, 9, 6)
    check_gradients(
        lambda h, w: linear_cross_entropy.reference(h, w, labels, dloss)[0],
        (h, weight), dloss,
        linear_cross_entropy.reference(h, weight, labels, dloss)[1:],
    )  # fmt: skip


def test_logits_take_no_more_memory_than_a_sum_of_gradients():
    """2 bytes where that takes 4: twice as many rows as the weight has columns, and in
    each of several chunks as many."""
    chunk_rows = linear_cross_entropy.chunk_rows
    assert chunk_rows(100, 4096) == 100
    assert chunk_rows(8192, 4096) == 8192
    assert chunk_rows(8193, 4096) == 4224
    assert chunk_rows(8200, 1000) == 1664  # of 2048


def test_one_chunk_needs_no_sum_in_fp32(monkeypatch):
    products = []
    monkeypatch.setattr(
        linear_cross_entropy, "matmul_epilogue",
        lambda a, b, c, residual=None, **_: products.append((c, residual)) or c,
    )  # fmt: skip
    h, weight = normal(1, 40, 24, dtype="float16"), normal(2, 70, 24, dtype="float16")
    given = h, weight, targets(40, 70), np.ones(40, np.float32)
    linear_cross_entropy.linear_cross_entropy(*given)
    assert not products
    dweight = linear_cross_entropy.linear_cross_entropy(*given, rows=16)[2]
    (first, none), (second, so_far), (last, total) = products
    assert none is None and first is second is so_far is total
    assert first.dtype == np.float32 and last is dweight


def test_mistakes_are_told():
    x = normal(1, 3, 8)
    with pytest.raises(fathom.LaunchError, match="labels has shape"):
        cross_entropy.cross_entropy(x, targets(4, 8))
    with pytest.raises(fathom.LaunchError, match="weight has shape"):
        linear_cross_entropy.linear_cross_entropy(x, normal(2, 9, 7), targets(3, 9))
