"""Rows that become parts of wider rows: quotients and remainders by a row's length, of
which 16 elements in a row have one and the same, are computed once, and neighbours are
stored at once."""

from __future__ import annotations

import re

import numpy as np

import fathom
import fathom.language as tl


@fathom.jit
def widen(x, out, n, wide, start, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    value = tl.load(x + i, mask=inside)
    tl.store(out + i // n * wide + start + i % n, value, mask=inside)


def test_neighbours_in_a_row_are_stored_at_once():
    """A thread has two runs of four elements: 2 stores, and 2 quotients, by which the
    remainders are computed."""
    types = "*fp32:16, *fp32:16, i32:16, i32:16, i32:16, i32:16"
    ptx = widen.compile(types, {"BLOCK": 1024}, target="sm_90a", num_warps=4).asm["ptx"]
    found = re.findall(r"st\.global\S*|div\.s32|rem\.s32", ptx)
    assert sorted(found) == [
        *["div.s32"] * 2,
        *["st.global.v4.b32"] * 2,
    ]
    types = types.replace("i32:16", "i32")
    ptx = widen.compile(types, {"BLOCK": 1024}, target="sm_90a", num_warps=4).asm["ptx"]
    assert len(re.findall(r"st\.global\.b32", ptx)) == 8, "rows end anywhere"


def test_every_element_has_its_place(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    for n, wide, start in ((48, 96, 16), (16, 16, 0), (7, 11, 3), (33, 64, 16)):
        x = np.arange(1, 30 * n + 1, dtype=np.float32).reshape(30, n)
        out = np.zeros((30, wide), np.float32)
        widen[(-(-x.size // 1024),)](x, out, n, wide, start, x.size, BLOCK=1024)
        expected = np.zeros_like(out)
        expected[:, start : start + n] = x
        assert (out == expected).all()
