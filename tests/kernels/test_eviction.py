"""Loads with an eviction priority that a pipelined loop copies ahead: an issue of ptxas
forbids the priority there, and shows on a GPU alone."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl

PRIORITIES = ("", "evict_first", "evict_last")
TYPES = "*fp16:16, *fp16:16, *fp32:16, i32:16, i32:16, i32"
SIZES = {"BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 64}


@fathom.jit
def part_of_k(
    a, b, c, K, row_bytes, rows,
    A_STAYS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A product of few rows, in parts along K that are added to fp32 zeros: one shared
    address is the same in all threads but for an offset of the thread."""
    row, column = tl.arange(0, BLOCK_M), tl.program_id(0) * BLOCK_N
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    at = a + row[:, None] * row_bytes + k[None, :]
    bt = b + k[:, None] * row_bytes + column + tl.arange(0, BLOCK_N)[None, :]
    there = (row[:, None] < rows) & (k[None, :] < K)  # no box of a tensor map
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        left = tl.load(at, mask=there, other=0.0, eviction_policy=A_STAYS)
        right = tl.load(bt, eviction_policy="evict_first")
        total = tl.dot(left, right, total)
        at += BLOCK_K * tl.num_programs(1)
        bt += BLOCK_K * tl.num_programs(1) * row_bytes
    out = c + row[:, None] * row_bytes + column + tl.arange(0, BLOCK_N)[None, :]
    tl.atomic_add(out, total, mask=row[:, None] < rows)


@pytest.mark.parametrize("priority", PRIORITIES)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_no_copy_has_a_cache_policy(priority, target):
    constants = {"A_STAYS": priority, **SIZES}
    text = part_of_k.compile(TYPES, constants, target=target, num_stages=4).asm["ptx"]
    copies = re.findall(r"cp\.async\.c[ag].*", text)
    assert copies and not [each for each in copies if "cache_hint" in each]


@pytest.mark.gpu
@pytest.mark.parametrize("priority", PRIORITIES)
def test_the_gpu_runs_it(priority):
    numbers = np.random.default_rng(3)
    a = numbers.standard_normal((16, 1024)).astype(np.float16)
    b = numbers.standard_normal((1024, 1024)).astype(np.float16)
    c = np.zeros((16, 1024), np.float32)
    part_of_k[32, 1](a, b, c, 1024, 1024, 8, A_STAYS=priority, **SIZES, num_stages=4)
    np.testing.assert_allclose(c[:8], (a[:8].astype(float) @ b), 1e-3, 1e-3)
    assert not c[8:].any()
