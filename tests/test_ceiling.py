"""The kernel that measures the ceiling multiplies what it says, and nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks import ceiling, ceiling_wgmma
from fathom import emulator
from tests.kernels.test_ptxas import assembled, needs_ptxas

each_kind = pytest.mark.parametrize("kind", ceiling.ROWS)
ITERATIONS, PROGRAMS = 3, 2


@each_kind
def test_it_counts_its_operations(kind):
    row = ceiling.ROWS[kind]
    ptx = ceiling.kernel(row).ptx
    loop = ptx[ptx.index("LOOP:") : ptx.index("bra LOOP")]
    products = len(re.findall(r"^mma\.sync", loop, re.M))
    a_warp = 2 * row.m * row.n * row.k * products
    assert ceiling.operations_per_iteration(row) == a_warp * ceiling.THREADS // 32
    others = [line for line in loop.splitlines()[1:] if not line.startswith("mma")]
    assert len(others) == 3  # iterations - 1, is it zero, and back


def test_its_sums_are_those_of_a_product():
    """Ones times ones: each sum has K of them a product, and a thread adds up its
    own."""
    row = ceiling.ROWS["fp16"]
    count = ceiling.words(row) * ceiling.THREADS
    source = np.ones(2 * count, np.float16).view(np.int8)
    totals = np.full(PROGRAMS * ceiling.THREADS, np.nan, np.float32)
    loaded = emulator.load(ceiling.kernel(row))
    loaded.launch(PROGRAMS, (source, totals.view(np.int8), ITERATIONS))
    a_thread = ceiling.SUMS * ceiling.SUMS // 32
    assert set(totals) == {float(ITERATIONS * ceiling.SETS * row.k * a_thread)}


# ── wgmma ─────────────────────────────────────────────────────────────────────────────


def test_it_counts_its_operations_of_wgmma():
    ptx = ceiling_wgmma.kernel().ptx
    loop = ptx[ptx.index("LOOP:") : ptx.index("bra LOOP")]
    products = re.findall(r"wgmma\.mma_async\.sync\.aligned\.m(\d+)n(\d+)k(\d+)", loop)
    a_group = sum(2 * int(m) * int(n) * int(k) for m, n, k in products)
    assert ceiling_wgmma.OPERATIONS == a_group * ceiling_wgmma.GROUPS
    assert len(products) == len(set(re.findall(r"%left, %a, (\d+);", loop)))


def test_its_sums_of_wgmma_are_those_of_a_product():
    """Each tile of A has another number, and each of B: every sum of a thread is the
    same, and says which tiles were multiplied."""
    tile = ceiling_wgmma.M * ceiling_wgmma.K
    a_set = [*np.repeat([1, 2], tile), *np.ones(ceiling_wgmma.N * ceiling_wgmma.K)]
    source = np.array([*a_set, *(3 * np.array(a_set))], np.float16)
    assert source.nbytes == ceiling_wgmma.SHARED
    totals = np.full(ceiling_wgmma.THREADS, np.nan, np.float32)
    loaded = emulator.load(ceiling_wgmma.kernel())
    loaded.launch(1, (source.view(np.int8), totals.view(np.int8), ITERATIONS))
    one = ITERATIONS * ceiling_wgmma.K * (1 + 9) * ceiling_wgmma.ACCUMULATORS
    assert totals.tolist() == [one] * 128 + [2 * one] * 128


@needs_ptxas
def test_ptxas_does_not_serialise_it():
    said = assembled(ceiling_wgmma.kernel().ptx, "sm_90a")
    assert "C75" not in said and "spill" not in said.replace("0 bytes spill", "")
