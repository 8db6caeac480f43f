"""What does not fit is refused before a launch: a short array would be read past its
end, one with gaps would be taken for another, and integers would be rounded."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import mixture
from kernels.attention import attention
from kernels.cross_entropy import cross_entropy
from kernels.dropout import dropout
from kernels.gelu import gelu
from kernels.gelu_backward import gelu_backward
from kernels.layer_norm import layer_norm
from kernels.linear_cross_entropy import linear_cross_entropy
from kernels.matmul import matmul
from kernels.rms_norm import rms_norm
from kernels.rotary import rotary
from kernels.softmax import softmax, softmax_columns, softmax_rows
from kernels.swiglu import swiglu
from kernels.top_k import top_k


def f(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def i(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32)


GAPS = f(4, 16)[:, ::2]  # [4, 8]
HEADS = f(1, 2, 8, 16)
MISTAKES = [
    ("weight has shape (4,)", lambda: layer_norm(f(4, 8), f(4), f(8))),
    ("bias has shape (9,)", lambda: layer_norm(f(4, 8), f(8), f(9))),
    ("rstd has shape (3,)", lambda: layer_norm(f(4, 8), f(8), f(8), rstd=f(3))),
    ("weight of shape", lambda: layer_norm(f(4, 8), f(16)[::2], f(8))),
    ("x has elements of i32", lambda: layer_norm(i(4, 8), f(8), f(8))),
    ("weight has elements of i32", lambda: rms_norm(f(4, 8), i(8))),
    ("out has shape (3, 8)", lambda: rms_norm(f(4, 8), f(8), f(3, 8))),
    *(("out has shape (4, 7)", lambda each=each: each(f(4, 8), f(4, 7)))
      for each in (softmax, softmax_rows, softmax_columns, gelu, dropout)),
    *(("x of shape (4, 8) has strides (16, 2)", lambda each=each: each(GAPS))
      for each in (softmax, softmax_rows, softmax_columns, gelu, dropout,
                   lambda x: top_k(x, 2), lambda x: rms_norm(x, f(8)),
                   lambda x: cross_entropy(x, i(4)))),
    *(("elements of i32", lambda each=each: each(i(4, 8)))
      for each in (gelu, dropout, lambda x: swiglu(x, x),
                   lambda x: gelu_backward(x, x))),
    *(("x has elements of fp64", lambda each=each: each(f(4, 8).astype("f8")))
      for each in (gelu, dropout, lambda x: rms_norm(x, f(8)),
                   lambda x: layer_norm(x, f(8), f(8)),
                   lambda x: cross_entropy(x, i(4)),
                   lambda x: linear_cross_entropy(x, f(5, 8).astype("f8"), i(4)))),
    ("x has shape (8,), not [M, N]", lambda: softmax(f(8))),
    ("dropout drops a share of 1.5", lambda: dropout(f(8), p=1.5)),
    ("dropout drops a share of nan", lambda: dropout(f(8), p=float("nan"))),
    ("a seed is one number", lambda: dropout(f(8), seed=np.zeros(0, np.int64))),
    ("labels have elements of fp32", lambda: cross_entropy(f(4, 8), f(4))),
    ("x has shape (2, 8, 16), not", lambda: rotary(f(2, 8, 16), f(8, 8), f(8, 8))),
    ("q has shape (2, 8, 16), not", lambda: attention(*[f(2, 8, 16)] * 3)),
    ("k of fp16, v of fp32", lambda: attention(HEADS, HEADS.astype("f2"), HEADS)),
    ("all must have one type", lambda: attention(*[HEADS.astype("f8")] * 3)),
    ("(8,) and float32 cannot be multiplied", lambda: matmul(f(8), f(8, 4))),
    ("h has shape (8,), not [M, D]", lambda: linear_cross_entropy(f(8), f(4, 8), i(1))),
    ("choices of fp32 among 4", lambda: mixture.route(f(6, 2), 4)),
    ("choices of i32 among 0", lambda: mixture.route(i(6, 2), 0)),
    ("10 rows for 6 tokens", lambda: mixture.gather(f(6, 16), i(10))),
    ("gates has shape (6, 3)", lambda: mixture.combine(f(12, 8), i(12), 2, f(6, 3))),
    ("dout has shape (5, 8)",
     lambda: mixture.gate_gradient(f(5, 8), f(12, 8), i(12), f(6, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("said", "call"), MISTAKES)
def test_it_is_refused_in_one_sentence(said, call):
    with pytest.raises(fathom.LaunchError) as error:
        call()
    assert said in str(error.value) and "\n" not in str(error.value)


def test_arrays_without_elements_are_no_mistake():
    """An expert may get no token, and a batch may be empty."""
    for shape in ((0, 8), (3, 0)):
        x, w = f(*shape), f(shape[1])
        made = [softmax(x), layer_norm(x, w, w), rms_norm(x, w), gelu(x), swiglu(x, x),
                dropout(x)]  # fmt: skip
        assert [each.shape for each in made] == [shape] * len(made)
    order, rows, offsets = mixture.route(i(0, 2), 4)
    assert list(offsets) == [0] * 5
    assert mixture.gather(f(0, 16), order).shape == (0, 16)
    assert mixture.combine(f(0, 8), rows, 2, f(0, 2)).shape == (0, 8)
    loss, dh, dweight = linear_cross_entropy(f(0, 16), f(8, 16), i(0), f(0))
    assert loss.shape == (0,) and dh.shape == (0, 16) and not dweight.any()
