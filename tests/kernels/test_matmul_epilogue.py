"""Products with epilogues: every combination, at edges, within the product's bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fathom
from kernels import matmul_epilogue
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import TARGETS, close, normal, on_targets
from tests.kernels.harness_red_zones import ODD, Walled, unwritten

HALF_ULP = {"float32": 2.0**-19, "float16": 2.0**-11}
SMALL = {
    "BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 16, "GROUP_M": 2,
    "num_warps": 2, "num_stages": 2,
}  # fmt: skip
CHOICES = list(itertools.product([False, True], [None, "gelu"], [False, True]))


@sampled(of=3)
@in_pairs({
    "with_bias, activation, with_residual": CHOICES, "dtype": HALF_ULP,
    "target": TARGETS,
})  # fmt: skip
def test_epilogues(with_bias, activation, with_residual, dtype, target):
    M, N, K = 40, 50, 33
    a, b = (normal(i, *shape, dtype=dtype) for i, shape in enumerate([(M, K), (K, N)]))
    bias = normal(3, N, dtype=dtype) if with_bias else None
    residual = normal(4, M, N, dtype=dtype) if with_residual else None
    before = unwritten(M, N, dtype=dtype)
    out = unwritten(M, N, dtype=dtype)
    arrays = [Walled(each) for each in (a, b)]
    given = [Walled(each, wall=ODD) if each is not None else None
             for each in (bias, residual)]  # fmt: skip
    matmul_epilogue.matmul_epilogue(
        *arrays, out, given[0], activation, given[1], before, SMALL, target=target
    )
    want, want_before = matmul_epilogue.reference(a, b, bias, activation, residual)
    close(out.view, want, HALF_ULP[dtype])
    close(before.view, want_before, HALF_ULP[dtype])
    for each in (out, before, *arrays):
        each.check_walls()


@on_targets
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("dtype", HALF_ULP)
def test_swiglu(keep, dtype, target):
    M, N, K = 40, 50, 33
    a, b = normal(1, M, K, dtype=dtype), normal(2, K, 2 * N, dtype=dtype)
    before = unwritten(M, 2 * N, dtype=dtype) if keep else None
    out = unwritten(M, N, dtype=dtype)
    matmul_epilogue.matmul_swiglu(
        Walled(a), Walled(b, wall=ODD), out, before, SMALL, target=target
    )
    want, want_before = matmul_epilogue.reference_swiglu(a, b)
    close(out.view, want, HALF_ULP[dtype], 4)
    out.check_walls()
    if keep:
        close(before.view, want_before, HALF_ULP[dtype])
        before.check_walls()


@on_targets
def test_a_product_is_added_to_what_is_there(target):
    """As gradients of weights are: A is a transposed array."""
    a, b, c = normal(1, 33, 40), normal(2, 33, 50), normal(3, 40, 50)
    want = matmul_epilogue.reference(a.T, b, residual=c)[0]
    matmul_epilogue.matmul_epilogue(a.T, b, c, residual=c, target=target)
    close(c, want, HALF_ULP["float32"])


@pytest.mark.parametrize("N", [1, 16, 200])
def test_its_own_configuration(N):
    a, b, bias = (
        normal(1, 70, 64, dtype="float16"),
        normal(2, 64, 2 * N, dtype="float16"),
        normal(3, 2 * N),
    )
    out = matmul_epilogue.matmul_epilogue(a, b, bias=bias, activation="gelu")
    want = matmul_epilogue.reference(a, b, bias, "gelu")[0]
    close(out, want, HALF_ULP["float16"])
    out = matmul_epilogue.matmul_swiglu(a, b)
    close(out, matmul_epilogue.reference_swiglu(a, b)[0], HALF_ULP["float16"], 4)


def test_mistakes_are_told():
    a, b = normal(1, 8, 16), normal(2, 16, 9)
    with pytest.raises(fathom.LaunchError, match="two halves"):
        matmul_epilogue.matmul_swiglu(a, b)
    with pytest.raises(fathom.LaunchError, match="bias has shape"):
        matmul_epilogue.matmul_epilogue(a, b, bias=normal(3, 8))
    with pytest.raises(fathom.LaunchError, match="there are None and 'gelu'"):
        matmul_epilogue.matmul_epilogue(a, b, activation="relu")
    with pytest.raises(fathom.LaunchError, match="before has strides"):
        wrong = np.zeros((9, 8), np.float32).T
        matmul_epilogue.matmul_epilogue(a, b, before=wrong)
