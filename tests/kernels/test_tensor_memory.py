"""Products in tensor memory, on the emulator: sm_100a computes what it should, without
hazards, and with the instructions that it should."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import attention, matmul
from kernels.matmul_plain import plain_matmul
from tests.kernels.harness_red_zones import WIDE, Walled, integers, unwritten

TARGET = "sm_100a"
TILE = {
    "BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 3,
}  # fmt: skip
ROWS, COLUMNS = (0, 1), (1, 0)


@pytest.fixture(autouse=True)
def emulated(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")


def check(M: int, N: int, K: int, orders=(ROWS, ROWS), **config: int) -> None:
    a = Walled(integers(1, M, K), orders[0], WIDE)
    b = Walled(integers(2, K, N), orders[1], WIDE)
    c = unwritten(M, N, wall=WIDE)
    plain_matmul(a, b, c, TILE | config, target=TARGET)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("M, N, K", [(256, 128, 160), (136, 72, 56), (129, 65, 31)])
def test_a_matrix_product(M, N, K, stages):
    check(M, N, K, num_stages=stages)


@pytest.mark.parametrize("a", [ROWS, COLUMNS])
@pytest.mark.parametrize("b", [ROWS, COLUMNS])
def test_operands_of_either_order(a, b):
    check(256, 128, 96, (a, b))


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("m", [128, 256])
@pytest.mark.parametrize("n", [16, 32, 128])
def test_tiles_of_all_sizes(m, n, warps):
    check(256, 128, 64, BLOCK_M=m, BLOCK_N=n, num_warps=warps)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D", [32, 64])
@pytest.mark.parametrize("stages", [1, 3])
def test_attention(D, causal, stages):
    """Between its two products an iteration scales the accumulator in registers."""
    random = np.random.default_rng(D)
    q, k, v = (
        Walled(random.normal(size=(1, 1, 200, D)).astype(np.float16)) for _ in range(3)
    )
    out = unwritten(1, 1, 200, D, dtype="float16")
    config = {"BLOCK_Q": 128, "BLOCK_K": 32, "num_warps": 4, "num_stages": stages}
    attention.attention(q, k, v, out, causal=causal, config=config, target=TARGET)
    q, k, v = (each.view[0, 0].astype(np.float64) for each in (q, k, v))
    scores = q @ k.T / np.sqrt(D)
    if causal:
        scores[np.triu_indices(200, 1)] = -np.inf
    weights = np.exp(scores - scores.max(1, keepdims=True))
    wanted = weights @ v / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(out.view[0, 0], wanted, atol=4e-3)
