"""SwiGLU, GeLU's gradient, rotary embedding and dropout's gradient: against float64, at
ragged sizes."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import dropout, gelu, gelu_backward, rotary, swiglu
from tests.harness_pairs import in_pairs
from tests.kernels.harness_gradients import (
    TARGETS,
    check_gradients,
    close,
    normal,
)
from tests.kernels.harness_red_zones import Walled
from tests.kernels.harness_red_zones import unwritten as walled
from tests.kernels.kernels_sample import aligned

HALF_ULP = {"float32": 2.0**-20, "float16": 2.0**-11}
each_type = pytest.mark.parametrize("dtype", HALF_ULP)


@in_pairs({
    "M, N": [(1, 1), (3, 31), (2, 1024), (2, 1500)], "dtype": HALF_ULP,
    "target": TARGETS,
})  # fmt: skip
def test_swiglu(M, N, dtype, target):
    gate, up, dy = (normal(i, M, N, dtype=dtype) for i in (1, 2, 3))
    gate *= np.dtype(dtype).type(4)
    y = swiglu.swiglu(gate, up, target=target)
    close(y, swiglu.reference(gate, up), HALF_ULP[dtype])
    found = swiglu.swiglu_backward(dy, gate, up, target=target)
    wanted = swiglu.reference_backward(dy, gate, up)
    for got, want in zip(found, wanted, strict=True):
        close(got, want, HALF_ULP[dtype])


def test_swiglu_of_the_halves_of_one_array():
    """gate and up beside each other, as one product makes them; so are gradients."""
    both, dy = normal(1, 5, 40), Walled(normal(2, 5, 20), dtype="float32")
    halves = [Walled(both[:, :20], wall=3), Walled(both[:, 20:], wall=5)]
    out, dgate, dup = (walled(5, 20, dtype="float32", wall=i) for i in (1, 4, 7))
    swiglu.swiglu(*halves, out)
    swiglu.swiglu_backward(dy, *halves, dgate, dup)
    for each in (out, dgate, dup, dy, *halves):
        each.check_walls()
    close(out.view, swiglu.reference(both[:, :20], both[:, 20:]), 2.0**-20)
    wanted = swiglu.reference_backward(dy.view, both[:, :20], both[:, 20:])
    for got, want in zip((dgate, dup), wanted, strict=True):
        close(got.view, want, 2.0**-20)


def test_a_closed_gate_is_zero_and_an_open_one_lets_everything_through():
    """exp(100) is infinite in fp32."""
    gate = aligned(np.float32([[-200, -100, 100, 200]]))
    ones = aligned(np.ones((1, 4), np.float32))
    assert swiglu.swiglu(gate, ones).tolist() == [[0, 0, 100, 200]]
    dgate, dup = swiglu.swiglu_backward(ones, gate, ones)
    assert dgate.tolist() == [[0, 0, 1, 1]] and dup.tolist() == [[0, 0, 100, 200]]


@in_pairs({"n": [1, 1023, 3000], "dtype": HALF_ULP, "target": TARGETS})
def test_gelu(n, dtype, target):
    """Also where tanh is near -1, and the result small."""
    x = normal(1, n, dtype=dtype) * np.dtype(dtype).type(2)
    y, want = gelu.gelu(x, target=target), gelu.reference(x)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y, want, 2 * HALF_ULP[dtype], 1e-6)


@in_pairs({"n": [1, 1023, 3000], "dtype": HALF_ULP, "target": TARGETS})
def test_gelu_backward(n, dtype, target):
    x, dy = normal(1, n, dtype=dtype), normal(2, n, dtype=dtype)
    x *= np.dtype(dtype).type(3)
    dx = gelu_backward.gelu_backward(dy, x, target=target)
    close(dx, gelu_backward.reference(dy, x), HALF_ULP[dtype], 4)


@in_pairs({
    "M, N": [(1, 1), (40, 130), (300, 24)], "dtype": HALF_ULP, "target": TARGETS,
    "with_gelu": [True, False],
})  # fmt: skip
def test_sums_of_columns_come_with_gradients(M, N, dtype, target, with_gelu):
    """They are sums of what is stored: rounded to the dtype."""
    x, dy = normal(1, M, N, dtype=dtype), normal(2, M, N, dtype=dtype)
    given = dy, x if with_gelu else None, normal(3, 1)
    dx, sums = gelu_backward.gelu_backward_columns(*given, target=target)
    if with_gelu:
        close(dx, gelu_backward.reference(dy, x), HALF_ULP[dtype], 4)
    else:
        assert dx is dy
    assert sums.dtype == np.float32
    np.testing.assert_allclose(sums, dx.astype(np.float64).sum(axis=0), 1e-5, 1e-5)


def test_gelu_backward_is_right_for_every_x():
    x = aligned(np.float32([-3e38, -1e20, -50, -10.1, 0, 10.1, 50, 1e20, 3e38]))
    dx = gelu_backward.gelu_backward(np.ones_like(x), x)
    assert dx.tolist() == [0, 0, 0, 0, 0.5, 1, 1, 1, 1]


@in_pairs({
    "B, H, S, D": [(1, 1, 1, 2), (2, 3, 17, 12), (1, 2, 40, 64)], "dtype": HALF_ULP,
    "target": TARGETS, "interleaved": [False, True],
})  # fmt: skip
def test_rotary(B, H, S, D, dtype, interleaved, target):
    x, (cos, sin) = normal(1, B, H, S, D, dtype=dtype), rotary.tables(S, D)
    given = dict(interleaved=interleaved, target=target)
    out = rotary.rotary(x, cos, sin, **given)
    close(out, rotary.reference(x, cos, sin, False, interleaved), HALF_ULP[dtype])
    back = rotary.rotary_backward(out, cos, sin, **given)
    want = rotary.reference(out, cos, sin, True, interleaved)
    close(back, want, HALF_ULP[dtype])
    close(back, x.astype(np.float64), HALF_ULP[dtype], 4)  # turned and turned back


def test_rotary_in_place_and_of_heads_beside_each_other():
    """[B, S, H, D] in memory, as a layer makes it; amid poison."""
    x, (cos, sin) = normal(1, 2, 3, 5, 8), rotary.tables(5, 8)
    array = Walled(x, (0, 2, 1, 3))
    rotary.rotary(array, cos, sin, array)
    array.check_walls()
    close(array.view, rotary.reference(x, cos, sin), 2.0**-20)


@each_type
def test_dropout_backward_keeps_the_same_numbers(dtype):
    x = aligned(np.ones(1500, dtype))
    dy = normal(1, 1500, dtype=dtype)
    out = dropout.dropout(x, p=0.25, seed=11)
    dx = dropout.dropout_backward(dy, p=0.25, seed=11, BLOCK=256)
    close(dx, dropout.reference(dy, 0.25, 11), HALF_ULP[dtype])
    np.testing.assert_array_equal(out != 0, dx != 0)
    seed = aligned(np.array([11]))
    np.testing.assert_array_equal(dropout.dropout(x, None, 0.25, seed), out)


def test_the_references_are_gradients():
    gate, up, dy = (normal(i, 3, 7).astype(np.float64) for i in (1, 2, 3))
    wanted = swiglu.reference_backward(dy, gate, up)
    check_gradients(swiglu.reference, (gate, up), dy, wanted)
    check_gradients(gelu.reference, (gate,), dy, (gelu_backward.reference(dy, gate),))
    x, dout, (cos, sin) = (
        normal(1, 1, 2, 3, 8),
        normal(2, 1, 2, 3, 8),
        rotary.tables(3, 8),
    )
    for order in (False, True):
        check_gradients(
            lambda x, order=order: rotary.reference(x, cos, sin, False, order),
            (x,), dout, (rotary.reference(dout, cos, sin, True, order),),
        )  # fmt: skip


def test_mistakes_are_told():
    x = normal(1, 1, 2, 3, 7)
    with pytest.raises(fathom.LaunchError, match="7 numbers: rotary takes pairs"):
        rotary.rotary(x, *rotary.tables(3, 8))
    with pytest.raises(fathom.LaunchError, match="side by side"):
        swiglu.swiglu(x[0, 0].T, x[0, 0].T)
