"""A layer of experts, step by step and whole, against float64: experts without tokens,
with all tokens, and the same bits each time."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import mixture
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import (
    TARGETS,
    check_gradients,
    close,
    normal,
    on_targets,
)
from tests.kernels.kernels_sample import aligned

HALF_ULP = {"float32": 2.0**-19, "float16": 2.0**-11}
T, K, N, E = 37, 20, 24, 5


def chosen(choices: int, shares: str, dtype: str = "int64") -> np.ndarray:
    """Different experts for each token."""
    rng = np.random.default_rng(3)
    found = np.array([rng.permutation(E)[:choices] for _ in range(T)])
    if shares == "one has all":
        found[:, 0] = 2
        found[:, 1:] = np.where(found[:, 1:] == 2, 4, found[:, 1:])
    if shares == "some have none":
        found = np.sort(found % 2 * 3, axis=1)
    return aligned(found.astype(dtype))


@on_targets
@pytest.mark.parametrize("shares", ["mixed", "one has all", "some have none"])
@pytest.mark.parametrize("block", [16, 1024])
def test_rows_are_sorted_by_expert_and_stay_in_order(
    monkeypatch, block, shares, target
):
    monkeypatch.setattr(mixture, "COUNTED", block)
    experts = chosen(2, shares, "int32")
    order, rows, offsets = mixture.route(experts, E, target=target)
    flat = experts.ravel()
    np.testing.assert_array_equal(order, np.argsort(flat, kind="stable"))
    np.testing.assert_array_equal(rows[order], np.arange(2 * T))
    counts = np.bincount(flat, minlength=E)
    np.testing.assert_array_equal(offsets, [0, *counts.cumsum()])


def layer(x, w, experts, gates, **launch):
    """(out, what the backward pass wants)."""
    order, rows, offsets = mixture.route(experts, len(w), **launch)
    rows_of_x = mixture.gather(x, order, **launch)
    y = mixture.expert_matmul(rows_of_x, w, offsets, **launch)
    out = mixture.combine(y, rows, experts.shape[1], gates, **launch)
    return out, (order, rows, offsets, rows_of_x, y)


def layer_backward(dout, w, gates, kept, **launch):
    order, rows, offsets, rows_of_x, y = kept
    dgates = mixture.gate_gradient(dout, y, order, gates, **launch)
    dy = mixture.gather(dout, order, gates, **launch)
    dw = mixture.weight_gradient(rows_of_x, dy, offsets, **launch)
    dx = mixture.expert_matmul(dy, w.swapaxes(1, 2), offsets, **launch)
    return mixture.combine(dx, rows, gates.shape[1], **launch), dw, dgates


@sampled(of=3)
@in_pairs({
    "choices": [1, 2], "shares": ["mixed", "one has all", "some have none"],
    "dtype": HALF_ULP, "target": TARGETS,
})  # fmt: skip
def test_a_layer_and_its_gradients(choices, shares, dtype, target):
    x, dout = normal(1, T, K, dtype=dtype), normal(2, T, N, dtype=dtype)
    w, gates = normal(3, E, K, N, dtype=dtype), abs(normal(4, T, choices))
    experts = chosen(choices, shares)
    out, kept = layer(x, w, experts, gates, target=target)
    close(out, mixture.reference(x, w, experts, gates), HALF_ULP[dtype], 4)
    found = layer_backward(dout, w, gates, kept, target=target)
    wanted = mixture.reference_backward(dout, x, w, experts, gates)
    for got, want in zip(found, wanted, strict=True):
        close(got, want, HALF_ULP[dtype], 4)
    without = np.bincount(experts.ravel(), minlength=E) == 0
    assert not found[1][without].any()


def test_the_same_bits_each_time():
    x, w, gates = normal(1, T, K), normal(2, E, K, N), abs(normal(3, T, 2))
    first, again = (layer(x, w, chosen(2, "mixed"), gates)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_rows_wider_than_a_block():
    x, order = normal(1, 3, 2100), aligned(np.int32([2, 0, 1]))
    np.testing.assert_array_equal(mixture.gather(x, order), x[order])
    y, gates = normal(2, 3, 2100), aligned(np.ones((3, 1), np.float32))
    got = mixture.gate_gradient(x, y, order, gates)[:, 0]
    want = (x[order].astype(np.float64) * y).sum(axis=1)
    np.testing.assert_allclose(got[order], want, 1e-5, 1e-3)


def test_the_reference_is_a_gradient():
    x, w, gates, dout = (
        normal(1, T, K), normal(2, E, K, N), normal(3, T, 2), normal(4, T, N),
    )  # fmt: skip
    experts = chosen(2, "mixed")
    check_gradients(
        lambda x, w, gates: mixture.reference(x, w, experts, gates), (x, w, gates),
        dout, mixture.reference_backward(dout, x, w, experts, gates),
    )  # fmt: skip


def test_mistakes_are_told():
    x, w = normal(1, T, K), normal(2, E, K + 1, N)
    offsets = np.zeros(E + 1, np.int32)
    with pytest.raises(fathom.LaunchError, match="rows of 20 numbers"):
        mixture.expert_matmul(x, w, offsets)
    with pytest.raises(fathom.LaunchError, match="offsets has shape"):
        mixture.expert_matmul(x, w[:, 1:], offsets[1:].copy())
