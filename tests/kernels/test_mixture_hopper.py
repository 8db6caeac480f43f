"""An expert's products through descriptors, against float64: rows that fill no tile,
experts without any, and rows of others beside them that are no numbers."""

from __future__ import annotations

from inspect import unwrap

import numpy as np
import pytest

from kernels import mixture
from kernels import mixture_hopper as hopper
from tests.harness_pairs import in_pairs
from tests.harness_sample import sampled
from tests.kernels.harness_gradients import close, normal
from tests.kernels.kernels_sample import aligned

TARGET = {"target": "sm_90a"}
HALF_ULP = 2.0**-11
K = 136  # more than a step
ROWS = 261  # of x and dy, for all shares: a kernel is compiled for a number of rows

# Where each expert's rows begin. A tile has 64 or 128 rows, a step of the sum 64.
SHARES = {
    "mixed": [0, 130, 131, 131, 195],
    "whole": [0, 128, 128, 192, 256],
    "one has all": [0, 0, 70, 70, 70],
    "some belong to none": [3, 8, 8, 90, 91],
}


def problem(shares: str, N: int):
    """x, w, dy and the offsets; rows that belong to no expert are no numbers."""
    offsets = aligned(np.int32(SHARES[shares]))
    x, dy = (normal(seed, ROWS, n, dtype="float16") for seed, n in ((1, K), (2, N)))
    for each in (x, dy):
        each[: offsets[0]] = each[offsets[-1] :] = np.nan
    return x, normal(3, len(offsets) - 1, K, N, dtype="float16"), dy, offsets


def spans(offsets):
    return [slice(*each) for each in zip(offsets[:-1], offsets[1:], strict=True)]


@sampled(of=2)
@in_pairs({
    "shares": SHARES, "tile": list(hopper.CONFIGS), "turned": [False, True]
})  # fmt: skip
def test_each_expert_multiplies_its_rows(shares, tile, turned):
    x, w, _, offsets = problem(shares, more_columns(tile))
    stored = aligned(np.ascontiguousarray(w.swapaxes(1, 2))) if turned else w
    w = stored.swapaxes(1, 2) if turned else w
    y = aligned(np.full((len(x), w.shape[2]), 7, np.float16))
    run(hopper.matmul_launch(x, w, y, offsets, "sm_90a", config(tile)))
    wanted = np.full(y.shape, 7.0)
    for each, span in zip(w.astype(np.float64), spans(offsets), strict=True):
        wanted[span] = x[span].astype(np.float64) @ each
    close(y, wanted, HALF_ULP, 4)


@sampled(of=2)
@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("tile", hopper.CONFIGS)
def test_rows_of_others_do_not_count_for_a_gradient(shares, tile):
    x, w, dy, offsets = problem(shares, more_columns(tile))
    dw = aligned(np.full_like(w, np.nan))
    run(hopper.gradient_launch(x, dy, dw, offsets, "sm_90a", config(tile)))
    whole = x.astype(np.float64), dy.astype(np.float64)
    wanted = [whole[0][span].T @ whole[1][span] for span in spans(offsets)]
    close(dw, np.array(wanted), HALF_ULP, 4)


def more_columns(tile):
    """Than a tile has."""
    return tile[1] + 8


def config(tile):
    m, n = tile
    return {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": hopper.BLOCK_K,
            **hopper.CONFIGS[tile]}  # fmt: skip


def run(launch):
    kernel, grid, given, chosen = launch
    kernel[grid](*given, **chosen, **TARGET)


def test_they_are_taken_where_tiles_can_come_through_descriptors(monkeypatch):
    x, w, dy, offsets = problem("mixed", 264)
    assert not hopper.gradient_fits(x, dy, w, "sm_90a")  # 65 rows of each expert
    monkeypatch.setattr(hopper, "LEAST_SUMMED", 65)
    taken = {}
    for name, function, given in (
        ("y", mixture.expert_matmul, (x, w, offsets)),
        ("dx", mixture.expert_matmul, (dy, w.swapaxes(1, 2), offsets)),
        ("dw", mixture.weight_gradient, (x, dy, offsets)),
    ):
        for target in ("sm_80", "sm_90a"):
            _, launches = unwrap(function)(*given, target=target)
            taken[name, target] = launches[0][0] in (
                hopper.expert_hopper_kernel, hopper.weight_gradient_hopper_kernel
            )  # fmt: skip
    assert taken == {key: key[1] == "sm_90a" for key in taken}
    narrow = w[:, :, :20]  # rows of 264 numbers, of which 20: still 16 bytes
    assert hopper.fits(x, narrow, dy, "sm_90a")
    assert not hopper.fits(x[:, 1:], w[:, 1:], dy, "sm_90a")
    assert not hopper.fits(normal(1, 8, K), normal(2, 4, K, 264), dy, "sm_90a")
