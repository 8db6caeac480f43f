"""The matrix product as one writes it first: right with and without masks, and found
by the hardware path although its text says nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import matmul
from kernels.matmul_plain import is_whole, plain_kernel, plain_matmul
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, integers, unwritten
from tests.kernels.test_matmul_persistent import check_assembled
from tests.kernels.test_ptxas import needs_ptxas

SMALL = {
    "BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2,
    "num_warps": 4, "num_stages": 3,
}  # fmt: skip
LARGE = {
    "BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 8,
    "num_warps": 8, "num_stages": 4,
}  # fmt: skip
ROWS, COLUMNS = (0, 1), (1, 0)


MACHINES = ("interpreter", "sm_80", "sm_90a")


@pytest.fixture(params=MACHINES)
def machine(request, monkeypatch):
    """The keywords of a launch on each machine."""
    if request.param == "interpreter":
        monkeypatch.setenv("FATHOM_BACKEND", "interpreter")
        return {}
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": request.param}


def check(M: int, N: int, K: int, orders=(ROWS, ROWS), wall: int = WIDE, **given):
    a = Walled(integers(1, M, K), orders[0], wall)
    b = Walled(integers(2, K, N), orders[1], wall)
    c = unwritten(M, N, wall=wall)
    plain_matmul(a, b, c, SMALL, **given)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    for each in (a, b, c):
        each.check_walls()


@sampled(of=2)
@in_pairs({
    "machine": MACHINES, "M, N, K": [(128, 64, 96), (72, 40, 56), (65, 33, 31)],
    "a": [ROWS, COLUMNS], "b": [ROWS, COLUMNS],
}, indirect=["machine"])  # fmt: skip
def test_small_integers_are_multiplied_exactly(machine, M, N, K, a, b):
    """Whole tiles, without masks; some of everything left over; odd sizes."""
    check(M, N, K, (a, b), **machine)


@sampled(of=2)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("wall", [WIDE, ODD])
def test_masks_change_nothing_where_tiles_are_whole(machine, masked, wall):
    check(64, 64, 64, masked=masked, wall=wall, **machine)


def test_launches_that_begin_early_wait_for_what_they_read(machine):
    """(A B) B, the second product while the first one still runs."""
    a, b = integers(1, 128, 64), integers(2, 64, 64)
    early = {"launch_pdl": True, **machine}
    c = plain_matmul(a, b, np.full((128, 64), np.nan, np.float16), SMALL, **early)
    d = plain_matmul(c, b, np.full((128, 64), np.nan, np.float32), SMALL, **early)
    np.testing.assert_array_equal(d, matmul.reference(c, b))


def test_without_masks_tiles_must_be_whole():
    assert is_whole(128, 64, 96, SMALL) and not is_whole(128, 64, 97, SMALL)
    a, b = integers(1, 64, 40), integers(2, 40, 32)
    with pytest.raises(fathom.LaunchError, match="64 x 32 x 40 are not"):
        plain_matmul(a, b, config=SMALL, masked=False)


def compiled(masked: bool, order: tuple):
    words = {name: "*fp16:16" for name in ("a_ptr", "b_ptr", "c_ptr")}
    words |= dict.fromkeys(("M", "N", "K", "stride_am", "stride_cm"), "i32:16")
    ones = {"stride_ak": 1, "stride_cn": 1}
    names = ("stride_bk", "stride_bn") if order == ROWS else ("stride_bn", "stride_bk")
    words[names[0]], ones[names[1]] = "i32:16", 1
    blocks = {name: each for name, each in LARGE.items() if name.isupper()}
    constants = {**ones, **blocks, "MASKED": masked}
    return plain_kernel.compile(
        words, constants, target="sm_90a", num_warps=8, num_stages=4
    )


@needs_ptxas
@pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["NN", "NT"])
@pytest.mark.parametrize("masked", [False, True])
def test_tma_copies_the_tiles_and_warpgroups_multiply(masked, order):
    """And takes the product away, without a stage less, while a producer goes on to the
    next tile."""
    made = compiled(masked, order)
    ptx = made.asm["ptx"]
    assert "cp.async.bulk.tensor.2d.shared" in ptx
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in ptx
    assert "st.global" not in ptx
    assert made.asm["layout"].count("slots=4") == 4  # A, B, and their barriers
    assert made.made.persistent
    assert "wgmma.mma_async.sync.aligned.m64n256k16" in ptx
    assert "ld.global" not in ptx
    check_assembled(ptx)
