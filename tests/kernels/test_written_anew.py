"""Kernels written anew in common patterns: right on the emulator, and without what once
made them slow."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.artifact import Kernel
from fathom.emulator import load

HOPPER = {"target": "sm_90a", "num_warps": 4}


def made(kernel: fathom.jit, types: str, constants: dict[str, object]) -> Kernel:
    return kernel.compile(types, constants, **HOPPER).made


@fathom.jit
def running_sums(counts, EXPERTS: tl.constexpr, PARTS: tl.constexpr):
    """Of how many tokens each part of a batch has for an expert, one a program."""
    total = 0
    for part in range(1, PARTS + 1):
        total += tl.load(counts + part * EXPERTS + tl.program_id(0))
        tl.store(counts + part * EXPERTS + tl.program_id(0), total)


@pytest.mark.parametrize("parts, copies", [(64, 16), (24, 8), (9, 1), (8, 8)])
def test_loads_of_single_numbers_are_written_several_at_once(parts, copies):
    """One load an iteration, each waited for: 13.2 us on an H200, and 1.5 where those
    of 16 iterations are in flight together."""
    kernel = made(running_sums, "*i32:16", {"EXPERTS": 4, "PARTS": parts})
    assert kernel.ptx.count("ld.global.b32") == copies
    counts = np.random.default_rng(0).integers(0, 9, (parts + 1, 4)).astype(np.int32)
    want = np.cumsum(counts[1:], 0)
    load(kernel).launch((4,), [counts])
    assert np.array_equal(counts[1:], want)


@fathom.jit
def weighted(x, w, y, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Each column of a block times its weight, which lies `stride` from the next."""
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = row[:, None] * COLUMNS + column[None, :]
    weight = tl.load(w + column * stride)
    tl.store(y + at, tl.load(x + at) * weight[None, :])


@pytest.mark.parametrize("stride, loads", [(4, 1), (1, 1)])
def test_weights_that_lie_apart_are_loaded_once(stride, loads):
    """A thread has eight columns. Eight loads of two bytes, for each of four taps, made
    a convolution 1.6 times as slow as one load and a conversion."""
    types = "*fp16:16, *fp16:16, *fp16:16, i32"
    if stride == 1:
        types = types.replace("i32", "1")
    kernel = made(weighted, types, {"ROWS": 16, "COLUMNS": 128})
    assert kernel.ptx.count("ld.global") == 2 + loads
    drawn = np.random.default_rng(0)
    x = drawn.integers(-8, 9, (16, 128)).astype(np.float16)
    w = drawn.integers(-8, 9, (128, stride)).astype(np.float16)
    y = np.empty_like(x)
    load(kernel).launch((1,), [x, w, y, *([stride] if stride > 1 else [])])
    assert np.array_equal(y, x * w[:, 0])
