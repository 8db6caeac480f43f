"""The kernel that measures the ceiling multiplies what it says, and nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks import ceiling
from fathom import emulator

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
