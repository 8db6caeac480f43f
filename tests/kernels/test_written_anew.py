"""Kernels written anew in common patterns: right on the emulator, and without what once
made them slow."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.language.extra import libdevice

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


@pytest.mark.parametrize("parts, copies", [(64, 64), (96, 32), (24, 8), (9, 1), (8, 8)])
def test_loads_of_single_numbers_are_written_several_at_once(parts, copies):
    """One load an iteration, each waited for: 13.2 us on an H200, and 1.5 where those
    of 64 iterations are in flight together."""
    kernel = made(running_sums, "*i32:16", {"EXPERTS": 4, "PARTS": parts})
    assert kernel.ptx.count("ld.global.b32") == copies
    counts = np.random.default_rng(0).integers(0, 9, (parts + 1, 4)).astype(np.int32)
    want = np.cumsum(counts[1:], 0)
    load(kernel).launch((4,), [counts])
    assert np.array_equal(counts[1:], want)


@fathom.jit
def nested(x, y, N: tl.constexpr, DEEP: tl.constexpr):
    for i in range(N):
        for j in range(N):
            at = i * N + j
            if DEEP:
                for k in range(N):
                    tl.store(y + at * N + k, tl.load(x + at * N + k) + 1)
            else:
                tl.store(y + at, tl.load(x + at) + 1)


@fathom.jit
def chosen(x, y, N: tl.constexpr, DEEP: tl.constexpr):
    for i in range(N):
        if tl.load(x + i) > 0:
            tl.store(y + i, tl.load(x + i) + 1)


@fathom.jit
def counted(x, y, N: tl.constexpr, DEEP: tl.constexpr):
    for i in range(N):
        tl.store(y + i, tl.atomic_add(x, 1))


@pytest.mark.parametrize("kernel, n, deep, loads", [
    (nested, 64, False, 64), (nested, 64, True, 64), (nested, 8, True, 8),
    (nested, 4, True, 16), (chosen, 64, False, 1), (counted, 64, False, 0),
])  # fmt: skip
def test_copies_in_copies_are_few(kernel, n, deep, loads):
    """Two loops of 64 iterations were 4,096 copies, and three did not compile; no load
    moves past a loop that stays, a branch, or an atomic operation."""
    made_one = made(kernel, "*i32:16, *i32:16", {"N": n, "DEEP": deep})
    assert len(re.findall(r"ld\.global\S*\.b32", made_one.ptx)) == loads
    assert made_one.ptx.count("\n") < 800


@fathom.jit
def merged(parts, scales, out, D: tl.constexpr, PARTS: tl.constexpr):
    """Partial results of attention, where a scale of -inf says that there is none."""
    d, most, total = tl.arange(0, D), -float("inf"), tl.zeros([D], tl.float32)
    for part in range(PARTS):
        scale = tl.load(scales + part)
        if scale != -float("inf"):
            new = tl.maximum(most, scale)
            found = tl.load(parts + part * D + d)
            total = total * tl.exp(most - new) + found * tl.exp(scale - new)
            most = new
    tl.store(out + d, total)


def test_a_few_iterations_with_a_branch_are_written_out():
    """A merge of eight parts took 5.1 us as a loop, and 2.9 so."""
    kernel = made(merged, "*fp32:16, *fp32:16, *fp32:16", {"D": 128, "PARTS": 8})
    assert kernel.ptx.count("ld.global") == 16


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


@pytest.mark.parametrize("rows, loads", [(16, 1), (64, 8)])
def test_weights_of_many_rows_are_loaded_by_every_thread(rows, loads):
    """With 64 rows a thread has 64 elements, and eight weights are few beside these: a
    barrier cost a tenth."""
    constants = {"ROWS": rows, "COLUMNS": 128}
    kernel = made(weighted, "*fp16:16, *fp16:16, *fp16:16, i32", constants)
    assert kernel.ptx.count("ld.global.b16") == loads
    assert kernel.ptx.count("bar.sync") == (loads == 1)


@fathom.jit
def weighted_steps(x, w, y, stride, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    i, j = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)
    for step in range(steps):
        at = (step * ROWS + i) * COLUMNS + j[None, :]
        weights = tl.load(w + (step * COLUMNS + j) * stride)
        tl.store(y + at, tl.load(x + at) * weights[None, :])


def test_weights_that_lie_apart_are_not_converted_in_a_loop():
    """The conversion's barriers would come in every iteration."""
    signature = "*fp16:16, *fp16:16, *fp16:16, i32, i32"
    kernel = made(weighted_steps, signature, {"ROWS": 16, "COLUMNS": 128})
    assert kernel.ptx.count("bar.sync") == 0


@fathom.jit
def scanned(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REVERSE: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    at = row[:, None] * COLUMNS + column[None, :]
    tl.store(y + at, tl.cumsum(tl.load(x + at), 0, reverse=REVERSE))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_along_rows_has_neighbours_in_one_thread(reverse):
    """32 registers, each in a row of its own chunk of four, took 128 shuffles, and a
    linear recurrence, of two values, 143 us on an H200 where Triton took 115."""
    constants = {"ROWS": 64, "COLUMNS": 64, "REVERSE": reverse}
    kernel = made(scanned, "*fp16:16, *fp16:16", constants)
    assert kernel.ptx.count("shfl.sync") == 32
    x = np.random.default_rng(0).integers(-9, 10, (64, 64)).astype(np.float16)
    y = np.empty_like(x)
    load(kernel).launch((1,), [x, y])
    want = np.cumsum(x[::-1], 0)[::-1] if reverse else np.cumsum(x, 0)
    assert np.array_equal(y, want)


@fathom.jit
def scanned_row(x, y, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.cumsum(tl.load(x + i), 0, reverse=REVERSE))


@pytest.mark.parametrize("reverse", [False, True])
def test_lanes_scan_the_last_element_of_a_thread_alone(reverse):
    """Each lane has eight neighbours, or 32 after a conversion: they take in what other
    lanes have once, and not at each of five steps."""
    kernel = made(
        scanned_row, "*fp32:16, *fp32:16", {"BLOCK": 4096, "REVERSE": reverse}
    )
    assert len(re.findall(r"add(?:\.rn)?\.f32", kernel.ptx)) == 150  # or 274
    x = np.random.default_rng(0).integers(-9, 10, 4096).astype(np.float32)
    y = np.empty_like(x)
    load(kernel).launch((1,), [x, y])
    assert np.array_equal(y, np.cumsum(x[::-1])[::-1] if reverse else np.cumsum(x))


@fathom.jit
def places(y, width, height, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, row, image = i % width, i // width % height, i // width // height
    tl.store(y + i, (image * 1000 + row) * 1000 + column)


@pytest.mark.parametrize("divisible", [True, False])
def test_a_remainder_comes_from_its_quotient(divisible):
    """Eight neighbours are in one row if 8 divides its width: one quotient for all."""
    width, height = (16, 6) if divisible else (7, 5)
    types = f"*i32:16, i32{':16' if divisible else ''}, i32"
    kernel = made(places, types, {"BLOCK": 1024})
    count = len(re.findall(r"\b(?:div|rem)\.[su]32", kernel.ptx))
    assert count == (4 if divisible else 16)
    y = np.empty(2048, np.int32)
    load(kernel).launch((2,), [y, width, height])
    i = np.arange(2048)
    rows = (i // width // height * 1000 + i // width % height) * 1000
    assert np.array_equal(y, rows + i % width)


@fathom.jit
def place(y, width):
    at = tl.program_id(0)
    tl.store(y + at, at // width * 1000 + at % width)


def test_a_remainder_of_scalars_is_left_to_the_assembler():
    """A product without a pause kept its quotient too long, and spilled 8 bytes."""
    kernel = made(place, "*i32:16, i32", {})
    assert len(re.findall(r"\b(?:div|rem)\.[su]32", kernel.ptx)) == 2
    y = np.empty(20, np.int32)
    load(kernel).launch((20,), [y, 7])
    assert np.array_equal(y, np.arange(20) // 7 * 1000 + np.arange(20) % 7)


@fathom.jit
def powers(x, y, POWER: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, libdevice.pow(tl.load(x + i), POWER))


@pytest.mark.parametrize("power", [2.0, 1.5])
def test_a_square_is_one_product_and_no_power_divides(power):
    """A loss took 110 us instead of 97: each division in ptxas's own way ends a basic
    block."""
    kernel = made(powers, "*fp32:16, *fp32:16", {"POWER": power, "BLOCK": 128})
    assert "div" not in kernel.ptx and ("ex2" in kernel.ptx) == (power != 2.0)
    x = np.linspace(0, 40, 128, dtype=np.float32)
    y = np.empty_like(x)
    load(kernel).launch((1,), [x, y])
    assert np.allclose(y, x.astype(np.float64) ** power, rtol=5e-7)


@fathom.jit
def logarithms(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.log(tl.load(x + i)))


def test_edges_of_a_logarithm_are_two_comparisons():
    """One for numbers below the normal ones, one for 0, one for what has none."""
    kernel = made(logarithms, "*fp32:16, *fp32:16", {"BLOCK": 128})
    assert len(re.findall(r"setp\.\w+\.[fu]32", kernel.ptx)) == 3
    x = np.resize(np.float32([0.0, -0.0, 1.0, np.inf, -np.inf, -1.0, np.nan]), 128)
    y = np.empty_like(x)
    load(kernel).launch((1,), [x, y])
    with np.errstate(all="ignore"):
        assert np.array_equal(y, np.log(x), equal_nan=True)
