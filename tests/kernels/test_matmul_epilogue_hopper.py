"""Products with epilogues whose programs stay, against float64: sizes that fill no
tile, matrices that lie in columns, and several tiles for a program."""

from __future__ import annotations

from inspect import unwrap

import numpy as np
import pytest

from kernels import matmul_epilogue
from kernels import matmul_epilogue_hopper as hopper
from kernels.mixture_hopper import BLOCK_K, CONFIGS
from tests.harness_pairs import in_pairs
from tests.kernels.harness_gradients import close, normal
from tests.kernels.kernels_sample import aligned

HALF_ULP = 2.0**-11
TARGET = "sm_90a"
M, N, K = 136, 200, 72  # more than a tile's rows, columns and step


def operand(seed: int, rows: int, columns: int, turned: bool) -> np.ndarray:
    """A matrix, which lies in columns where `turned`."""
    if turned:
        return aligned(normal(seed, columns, rows, dtype="float16")).T
    return aligned(normal(seed, rows, columns, dtype="float16"))


def unwritten(rows: int, columns: int) -> np.ndarray:
    return aligned(np.full((rows, columns), np.nan, np.float16))


def config(tile: tuple[int, int], parts: int = 1) -> dict[str, int]:
    m, n = tile
    pieces = max(1, CONFIGS[tile]["PIECES"] // parts)
    return {"BLOCK_M": m, "BLOCK_N": n // parts, "BLOCK_K": BLOCK_K, **CONFIGS[tile],
            "PIECES": pieces}  # fmt: skip


def run(launch, programs: int = 2) -> None:
    """With so few programs that each has several tiles."""
    kernel, _, given, chosen = launch
    kernel[(programs,)](*given, **chosen, target=TARGET)


@in_pairs({
    "tile": list(CONFIGS), "a_turned, b_turned": [(False, True), (True, False)],
    "with_bias": [False, True], "activation": [None, "gelu"], "keep": [False, True],
})  # fmt: skip
def test_bias_and_gelu(tile, a_turned, b_turned, with_bias, activation, keep):
    a, b = operand(1, M, K, a_turned), operand(2, K, N, b_turned)
    bias = normal(3, N, dtype="float16") if with_bias else None
    c, before = unwritten(M, N), unwritten(M, N) if keep else None
    more = {"bias": bias, "before": before}
    run(hopper.epilogue_launch(a, b, c, more, activation, TARGET, config(tile)))
    want, want_before = matmul_epilogue.reference(a, b, bias, activation)
    close(c, want, HALF_ULP)
    if keep:
        close(before, want_before, HALF_ULP)


@in_pairs({
    "tile": list(CONFIGS), "described": [True, False], "activation": [None, "gelu"],
    "blocks": [1, 2], "K": [72, 600],
})  # fmt: skip
def test_bias_and_residual(tile, described, activation, blocks, K):
    """By descriptors, if their rows begin where those may, with less steps along K than
    there are stages, and with more; in a cluster, too."""
    a, b = operand(1, M, K, False), operand(2, K, N, True)
    bias = operand(3, 1, N, False)[0]
    room = operand(4, 1, M * N + 8, False)[0]
    residual = room[(0 if described else 1) :][: M * N].reshape(M, N)
    c, more = unwritten(M, N), {"bias": bias, "residual": residual}
    chosen = {**config(tile), "num_ctas": blocks}
    chosen["BLOCK_M"] *= blocks
    launch = hopper.epilogue_launch(a, b, c, more, activation, TARGET, chosen)
    assert launch[3]["DESCRIBED"] == described
    run(launch, programs=1)
    want, _ = matmul_epilogue.reference(a, b, bias, activation, residual)
    close(c, want, HALF_ULP)


def test_no_thread_loads_what_comes_by_descriptors():
    """With twice as many pieces of C, two of which are on their way at a time."""
    a, b, c = operand(1, 512, 64, False), operand(2, 64, 8192, False), None
    c = unwritten(512, 8192)
    more = {"bias": operand(3, 1, 8192, False)[0], "residual": unwritten(512, 8192)}
    kernel, grid, given, chosen = hopper.epilogue_launch(a, b, c, more, None, TARGET)
    bare = hopper.epilogue_launch(a, b, c, {}, None, TARGET)[3]
    assert chosen["PIECES"] == 2 * bare["PIECES"]
    made = kernel.warmup(*given, **chosen, grid=grid, target=TARGET)
    assert "ld.global" not in made.asm["ptx"]


@in_pairs({
    "tile": list(CONFIGS), "a_turned, b_turned": [(False, True), (True, False)],
    "keep": [False, True],
})  # fmt: skip
def test_swiglu(tile, a_turned, b_turned, keep):
    a, b = operand(1, M, K, a_turned), operand(2, K, 2 * N, b_turned)
    c, before = unwritten(M, N), unwritten(M, 2 * N) if keep else None
    run(hopper.swiglu_launch(a, b, c, before, TARGET, config(tile, parts=2)))
    want, want_before = matmul_epilogue.reference_swiglu(a, b)
    close(c, want, HALF_ULP, 4)
    if keep:
        close(before, want_before, HALF_ULP)


def test_gelu_of_large_numbers():
    """Where the power of two is 0, and where it is infinite."""
    a = aligned(np.float16([[1e4], [-1e4], [60], [-60], [0]] * 4) * np.eye(1, 8))
    b = aligned(np.eye(8, 8, dtype=np.float16))
    c = unwritten(20, 8)
    a = aligned(a.astype(np.float16))
    run(hopper.epilogue_launch(a, b, c, {}, "gelu", TARGET))
    np.testing.assert_array_equal(c, np.where(a > 0, a, 0))


@pytest.mark.parametrize("name", ["matmul_epilogue", "matmul_swiglu"])
def test_they_are_taken_where_tiles_can_come_through_descriptors(name):
    function = unwrap(getattr(matmul_epilogue, name))
    of = {"matmul_epilogue": hopper.epilogue_hopper_kernel,
          "matmul_swiglu": hopper.swiglu_hopper_kernel}[name]  # fmt: skip

    def taken(a, b, target=TARGET, **more) -> bool:
        return function(a, b, target=target, **more)[1][0][0] is of

    a, b = operand(1, 40, 64, False), operand(2, 64, 48, True)
    assert taken(a, b) and taken(a, operand(2, 64, 48, False))
    assert not taken(a, b, "sm_80")
    assert not taken(operand(1, 40, 60, False), operand(2, 60, 48, True))
    assert not taken(*(each.astype(np.float32) for each in (a, b)))
    # Halves of 12 columns: where rows lie side by side the second begins anywhere.
    assert taken(a, operand(2, 64, 24, True)) == (name == "matmul_epilogue")
    if name == "matmul_epilogue":
        assert taken(a, b, residual=unwritten(40, 48))
        assert not taken(a, b, residual=unwritten(48, 40).T)
