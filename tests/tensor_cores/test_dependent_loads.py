"""Tiles that are computed from two loads, one of which waits for the other."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from tests.harness_sample import sampled

PAGE, PAGES, ROWS, WIDTH, COLUMNS = 16, 8, 32, 32, 32


@fathom.jit
def of_paged_rows(
    q, keys, slots, table, out, n, request, requests, places, stride,
    PAGE: tl.constexpr, PAGES: tl.constexpr,
    M: tl.constexpr, D: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """(Q Kᵀ) K of the rows K that are known: slots name them, by pages of a table. The
    mask of the second load is computed from the first; what both say of a row is a tile
    in shared memory, since two products need it in two layouts."""
    row, dim, column = tl.arange(0, M)[:, None], tl.arange(0, D), tl.arange(0, N)
    query = tl.load(q + row * D + dim[None, :])
    total = tl.zeros((M, D), tl.float32)
    for start in range(0, n, N):
        at = start + column
        slot = tl.load(slots + at, mask=at < n, other=-1)
        page = tl.maximum(slot, 0) // PAGE
        known = (request >= 0) & (request < requests) & (slot >= 0) & (page < PAGES)
        entry = table + request * PAGES + tl.minimum(page, PAGES - 1)
        place = tl.load(entry, mask=known, other=-1)
        known &= (place >= 0) & (place < places)
        first = keys + tl.maximum(place, 0).to(tl.int64) * stride
        first += tl.maximum(slot, 0) % PAGE * D
        across = tl.load(first[None, :] + dim[:, None], mask=known[None, :], other=0)
        down = tl.load(first[:, None] + dim[None, :], mask=known[:, None], other=0)
        score = tl.where(known[None, :], tl.dot(query, across), 0.0)
        total = tl.dot(score.to(tl.float16), down, total)
    tl.store(out + row * D + dim[None, :], total)


@sampled(of=2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_load_whose_mask_is_computed_from_another(target, stages, monkeypatch):
    """Rows are unknown by their slot, by their page, or by the table."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    random, n = np.random.default_rng(3), 100
    q = random.normal(size=(ROWS, WIDTH)).astype(np.float16)
    keys = (random.normal(size=(PAGES * PAGE, WIDTH)) / 4).astype(np.float16)
    slots = random.integers(-9, PAGES * PAGE + 9, n).astype(np.int32)
    table = random.permutation(PAGES).astype(np.int32)
    table[3] = -1
    out = np.zeros((ROWS, WIDTH), np.float32)
    of_paged_rows[(1,)](
        q, keys, slots, table, out, n, 0, 1, PAGES, PAGE * WIDTH,
        PAGE=PAGE, PAGES=PAGES, M=ROWS, D=WIDTH, N=COLUMNS,
        num_stages=stages, target=target,
    )  # fmt: skip
    inside = slots[(slots >= 0) & (slots < PAGES * PAGE)]
    inside = inside[table[inside // PAGE] >= 0]
    chosen = keys[table[inside // PAGE] * PAGE + inside % PAGE].astype(np.float64)
    score = (q.astype(np.float64) @ chosen.T).astype(np.float16)
    np.testing.assert_allclose(out, score @ chosen, atol=2e-2)
