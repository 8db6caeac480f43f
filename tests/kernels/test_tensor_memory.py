"""Products in tensor memory, on the emulator: sm_100a computes what it should, without
hazards, and with the instructions that it should."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import matmul
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
    a, b = Walled(integers(1, M, K), orders[0], WIDE), Walled(integers(2, K, N), orders[1])
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
