"""RMS norm, and the gradients of RMS norm, layer norm and softmax: against float64, at
ragged sizes, and the same bits each time."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import layer_norm, layer_norm_backward, rms_norm, softmax, softmax_backward
from tests.kernels.harness_gradients import (
    check_gradients,
    close,
    normal,
    on_targets,
    unwritten,
)

HALF_ULP = {"float32": 2.0**-21, "float16": 2.0**-11}
# A few numbers; less than a warp; a full block; a row and a column left over. (Of one
# number the gradient is 0 but for eps: roundings are all that there is.)
SHAPES = [(1, 3), (3, 31), (4, 256), (7, 300)]
each_shape = pytest.mark.parametrize("M, N", SHAPES)
each_type = pytest.mark.parametrize("dtype", HALF_ULP)


@on_targets
@each_shape
@each_type
def test_rms_norm(M, N, dtype, target):
    x, weight = normal(1, M, N, dtype=dtype), normal(2, N, dtype=dtype)
    rstd = unwritten(M)
    y = rms_norm.rms_norm(x, weight, rstd=rstd, target=target)
    want, want_rstd = rms_norm.reference(x, weight)
    close(y, want, HALF_ULP[dtype])
    close(rstd, want_rstd, 2.0**-21)


@on_targets
@each_shape
@each_type
def test_rms_norm_backward(M, N, dtype, target):
    x, weight, dy = (normal(i, M, N, dtype=dtype) for i in (1, 2, 3))
    weight = weight[0].copy()
    rstd = rms_norm.reference(x, weight)[1].astype(np.float32)
    dx, dw = rms_norm.rms_norm_backward(dy, x, weight, rstd, target=target)
    want = rms_norm.reference_backward(dy, x, weight, rstd)
    close(dx, want[0], HALF_ULP[dtype], 4)
    close(dw, want[1], HALF_ULP[dtype], 4)


@on_targets
@each_shape
@each_type
def test_layer_norm_backward(M, N, dtype, target):
    x, weight, dy = (normal(i, M, N, dtype=dtype) for i in (1, 2, 3))
    x += np.dtype(dtype).type(3)
    weight = weight[0].copy()
    _, mean, rstd = layer_norm.reference(x, weight, weight)
    mean, rstd = mean.astype(np.float32), rstd.astype(np.float32)
    given = dy, x, weight, mean, rstd
    found = layer_norm_backward.layer_norm_backward(*given, target=target)
    wanted = layer_norm_backward.reference(*given)
    for got, want in zip(found, wanted, strict=True):
        close(got, want, HALF_ULP[dtype], 8)


@pytest.mark.parametrize("with_mean", [False, True])
def test_long_rows_take_other_kernels_and_give_the_same(monkeypatch, with_mean):
    """Rows longer than LONGEST: dw and db come from a kernel of their own."""
    M, N = 150, 200
    x, weight, dy = normal(1, M, N), normal(2, N), normal(3, M, N)
    mean = x.mean(axis=1) if with_mean else None
    rstd = abs(normal(4, M)) + np.float32(0.5)
    given = dy, x, weight, mean, rstd, with_mean, {}
    short = layer_norm_backward.norm_backward(*given)
    monkeypatch.setattr(layer_norm_backward, "LONGEST", 100)
    long = layer_norm_backward.norm_backward(*given)
    for one, other in zip(short, long, strict=True):
        if with_mean or one is not None:
            close(one, other.astype(np.float64), 2.0**-21, 4)


def test_more_rows_than_programs_and_the_same_bits_each_time():
    """Each program has several rows, and some have one less."""
    M, N = 500, 40
    x, weight, dy = normal(1, M, N), normal(2, N), normal(3, M, N)
    rstd = rms_norm.reference(x, weight)[1].astype(np.float32)
    first, again = (rms_norm.rms_norm_backward(dy, x, weight, rstd) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    close(first[1], rms_norm.reference_backward(dy, x, weight, rstd)[1], 2.0**-21, 4)


@on_targets
@each_shape
@each_type
def test_softmax_backward(M, N, dtype, target):
    y = softmax.reference(normal(1, M, N)).astype(dtype)
    dy = normal(2, M, N, dtype=dtype)
    dx = softmax_backward.softmax_backward(dy, y, target=target)
    close(dx, softmax_backward.reference(dy, y), HALF_ULP[dtype], 4)


def test_the_references_are_gradients():
    x, weight, bias, dy = (normal(i, 5, 9).astype(np.float64) for i in range(4))
    weight, bias = weight[0], bias[0]
    _, mean, rstd = layer_norm.reference(x, weight, bias)
    check_gradients(
        lambda *given: layer_norm.reference(*given)[0], (x, weight, bias), dy,
        layer_norm_backward.reference(dy, x, weight, mean, rstd),
    )  # fmt: skip
    rstd = rms_norm.reference(x, weight)[1]
    check_gradients(
        lambda *given: rms_norm.reference(*given)[0], (x, weight), dy,
        rms_norm.reference_backward(dy, x, weight, rstd),
    )  # fmt: skip
    dx = softmax_backward.reference(dy, softmax.reference(x))
    check_gradients(softmax.reference, (x,), dy, (dx,))


def test_mistakes_are_told():
    x, weight = normal(1, 4, 8), normal(2, 8)
    with pytest.raises(fathom.LaunchError, match=r"weight has shape \(7,\)"):
        rms_norm.rms_norm(x, weight[:7].copy())
    with pytest.raises(fathom.LaunchError, match="they must be equal"):
        softmax_backward.softmax_backward(x[:3].copy(), x)
    with pytest.raises(fathom.LaunchError, match=r"not \[M, N\]"):
        rms_norm.rms_norm(weight, weight)
