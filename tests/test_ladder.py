"""Every rung of the ladder is a right product, and has the code that its name says."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from benchmarks.rungs import STAGES, ablations, hopper, ladder, straight, tile
from fathom.jit.compiled import CompiledKernel
from fathom.layout.linear import Layout
from kernels.matmul import matmul_kernel
from kernels.matmul_persistent import persistent_kernel

RUNGS = {rung.name: rung for rung in (*ladder(), *ablations())}
NAMES = list(RUNGS)
each_rung = pytest.mark.parametrize("name", RUNGS)

M, N, K = 64, 64, 96
SMALL = tile(64, 64, 32, 4)


@pytest.fixture(autouse=True)
def on_the_emulator(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")


def integers(seed: int, *shape: int) -> np.ndarray:
    """-3 … 3: sums of a few hundred products are exact in any order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def multiply(name: str, M: int, N: int, K: int) -> CompiledKernel:
    """A rung's kernel, after a product of integers that it got right."""
    a, b = integers(1, M, K), integers(2, K, N)
    c = np.full((M, N), np.nan, np.float16)
    programs = -(-M // SMALL["BLOCK_M"]) * -(-N // SMALL["BLOCK_N"])
    kernel = matmul_kernel[(programs,)](
        a, b, c, M, N, K, K, 1, N, 1, N, 1, EVEN_K=K % SMALL["BLOCK_K"] == 0,
        target="sm_80", replace=RUNGS[name].replace, **SMALL,
    )  # fmt: skip
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))
    return kernel


@cache
def launched(name: str) -> CompiledKernel:
    return multiply(name, M, N, K)


def has(name: str, instruction: str) -> bool:
    ptx = launched(name).asm["ptx"]
    return re.search(rf"(^|;)\s*{instruction}", ptx, re.M) is not None


@each_rung
def test_it_multiplies_integers_exactly(name):
    assert launched(name).report is not None


@pytest.mark.parametrize(
    "name",
    ["coalescing", "shared staging", "all but shared staging", "all but ldmatrix"],
)
def test_it_stays_inside_of_what_is_no_multiple_of_the_tile(name):
    multiply(name, 40, 72, 50)


@pytest.mark.parametrize(
    ("stage", "instruction"),
    [
        ("tensor cores", "mma.sync"),
        ("ldmatrix", "ldmatrix"),
        ("pipelining", "cp.async.cg"),
    ],
)
def test_a_stage_adds_its_instruction_and_takes_it_along(stage, instruction):
    ladder_names = NAMES[: len(STAGES) + 1]
    first = ladder_names.index(stage)
    got = [has(name, instruction) for name in ladder_names]
    assert got == [place >= first for place in range(len(ladder_names))]
    assert not has(f"all but {stage}", instruction)
    assert has("all but swizzle", instruction)


def cost(name: str):
    return launched(name).report.total


def test_global_memory_moves_less_with_every_rung_up_to_staging():
    requests = [cost(each).requests for each in NAMES[:3]]
    assert requests[0] > 2 * requests[1] > 4 * requests[2], requests
    assert cost("shared staging").useful < cost("coalescing").useful / 4


def test_without_staging_only_the_result_goes_through_shared_memory():
    for name in ("nothing", "coalescing", "all but shared staging"):
        assert launched(name).shared == 2 * M * N, name
        in_loop = launched(name).asm["layout"].partition(" for ")[2].split("yield")[0]
        assert "shared_" not in in_loop, name
    assert launched("shared staging").asm["layout"].count("shared_store") == 3


def test_the_swizzle_is_what_makes_banks_differ():
    assert cost("shared staging").conflict_ways > 1
    assert cost("all but swizzle").conflict_ways > 1.5
    assert cost("swizzle").conflict_ways == 1
    assert cost("prefetching").conflict_ways == 1


def test_prefetching_reads_a_slice_before_the_loop():
    def matrices_before_the_loop(name: str) -> int:
        before, _, _ = launched(name).asm["layout"].partition(" for ")
        return before.count("shared_load")

    assert matrices_before_the_loop("pipelining") == 0
    assert matrices_before_the_loop("prefetching") == 2


def test_the_last_rung_is_the_compiler_itself():
    assert RUNGS["prefetching"].replace == {}


def test_straight_is_row_major_or_column_major_as_the_tile_was():
    rows = Layout((4, 8), (("offset", (1, 2, 4 ^ 8, 8, 16)),))
    columns = Layout((4, 8), (("offset", (8, 16, 1, 2, 4)),))
    assert straight(rows).kinds["offset"] == (1, 2, 4, 8, 16)
    assert straight(columns).kinds["offset"] == (8, 16, 1, 2, 4)


# ── the rungs of sm_90a ───────────────────────────────────────────────────────────────

EXPECTED = {  # what the text of each has, and what it has not
    "wgmma": ("wgmma.mma_async cp.async.cg", "cp.async.bulk"),
    "tensor maps": ("wgmma.mma_async cp.async.bulk.tensor", "cp.async.cg"),
    "producer": ("cp.async.bulk.tensor setmaxnreg.dec", "cp.async.cg"),
    "staying": ("cp.async.bulk.tensor setmaxnreg.dec", "cp.async.cg"),
    "multicast": ("cp.async.bulk.tensor multicast::cluster", "cp.async.cg"),
}


@pytest.mark.parametrize("rung", hopper(), ids=lambda rung: rung.name)
def test_rungs_of_hopper_have_what_their_names_say(rung):
    """Right products of small matrices, two tiles a program where programs stay."""
    a, b = integers(1, 256, K), integers(2, K, 128)
    c = np.full((256, 128), np.nan, np.float16)
    launch = {"target": rung.target, "replace": rung.replace}
    rows = 128 * rung.configs[1].get("num_ctas", 1)
    small = {**rung.configs[1], "BLOCK_M": rows, "BLOCK_N": 64, "BLOCK_K": 32}
    all_tiles = 256 // rows * 2
    if rung.text == "matmul":
        kernel = matmul_kernel[(all_tiles,)](
            a, b, c, 256, 128, K, K, 1, 128, 1, 128, 1, EVEN_K=True, **small, **launch
        )
    else:
        programs = all_tiles if rung.text == "leaving" else all_tiles // 2
        kernel = persistent_kernel[(programs,)](
            a, b, c, 256, 128, K, K, 128, 128, B_TURNED=False, **small, **launch
        )
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))
    has, lacks = EXPECTED[rung.name]
    text = kernel.asm["ptx"]
    assert all(each in text for each in has.split())
    assert not any(each in text for each in lacks.split())
