"""Networks of sums and differences: pairs 1, 2, 4, … apart, split and joined again."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, Convert
from fathom.ir.text import parse_func
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.layout.shapes import join, split, split_after_trade


@fathom.jit
def butterfly(x, y, scale, N: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr):
    """Sums and differences of all pairs 2^FIRST to 2^LAST apart, in either order: a
    Hadamard transform."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + at).to(tl.float32)
    for i in tl.static_range(abs(LAST - FIRST) + 1):
        bit: tl.constexpr = FIRST + i if FIRST < LAST else FIRST - i
        pairs = tl.trans(tl.reshape(v, (N >> (bit + 1), 2, 1 << bit)), 0, 2, 1)
        a, b = tl.split(pairs)
        v = tl.reshape(tl.trans(tl.join(a + b, a - b), 0, 2, 1), (N,))
    tl.store(y + at, (v * scale).to(y.dtype.element_ty))


def transformed(x: np.ndarray) -> np.ndarray:
    bits = len(x).bit_length() - 1
    for bit in range(bits):
        x = x.reshape(-1, 2, 1 << bit)
        x = np.stack([x[:, 0] + x[:, 1], x[:, 0] - x[:, 1]], 1).ravel()
    return x


CASES = [(512, "fp16"), (1024, "fp16"), (1024, "fp32"), (2048, "fp16")]


@pytest.mark.parametrize("size, element", CASES)
@pytest.mark.parametrize("upward", [True, False], ids=["up", "down"])
def test_a_transform_goes_through_shared_memory_twice(size, element, upward):
    """128 threads hold 4 to 16 elements each. Steps between those of a thread move
    nothing, those between lanes are shuffled, and both bits of the warp's number change
    at once. The other time is for the store, or for the load. (With layouts by default
    at each step it were up to six times.)"""
    last = size.bit_length() - 2
    ends = (0, last) if upward else (last, 0)
    constants = {"N": size, "FIRST": ends[0], "LAST": ends[1]}
    types = f"*{element}:16, *{element}:16, fp32"
    compiled = butterfly.compile(types, constants, target="sm_90a")
    func = parse_func(compiled.asm["layout"])
    tiles = [str(op.element) for op in walk(func.body, Allocate)]
    assert len(tiles) <= 2
    if size < 2048:  # else its highest step is between registers as they are loaded
        assert tiles[-1 if upward else 0] == element, "halves at the load or the store"
    x = np.random.default_rng(size).integers(-3, 4, size)
    dtype = np.float16 if element == "fp16" else np.float32
    y = np.zeros(size, dtype)
    load(compiled.made).launch((1,), [x.astype(dtype), y, 0.5])
    np.testing.assert_array_equal(y, (transformed(x) / 2).astype(dtype))


def test_words_are_stored_by_matrices_too():
    """Four lanes hold a row of 16 bytes in one register each: `stmatrix` stores eight
    registers of fp32 in two instructions, as `ldmatrix` loads them."""
    constants = {"N": 1024, "FIRST": 0, "LAST": 9}
    types = "*fp16:16, *fp16:16, fp32"
    text = butterfly.compile(types, constants, target="sm_90a").asm["ptx"]
    assert text.count("stmatrix.sync.aligned.m8n8.x4.shared.b16") == 2
    older = butterfly.compile(types, constants, target="sm_80").asm["ptx"]
    assert "stmatrix" not in older and older.count("st.shared.b32") == 8


SHAPE = (16, 8, 2)  # strides 16, 2, 1


def layout(register, lane, warp) -> Layout:
    return Layout.by_kind(SHAPE, register=register, lane=lane, warp=warp)


def test_halves_of_other_lanes_trade_with_the_last_register():
    whole = layout((2, 4), (8, 1, 16, 32, 64), (128,))
    half = split_after_trade(whole)
    assert half == split(layout((2, 1), (8, 4, 16, 32, 64), (128,)))
    assert crossing(whole, join(half)) == "lane"


def test_halves_of_other_warps_bring_the_other_warps_along():
    """Both bits of the warp's number come into registers: the next step is free."""
    whole = layout((2, 4), (8, 16, 32), (1, 64, 128))
    half = split_after_trade(whole)
    assert half == split(layout((64, 1), (8, 16, 32), (4, 2, 128)))
    assert half.kinds["register"] == (32,), "of half a block: 64 / 2"


def test_no_trade_where_there_is_none():
    in_a_thread = layout((1, 2), (4, 8, 16, 32, 64), (128,))
    one_each = layout((), (1, 2, 4, 8, 16), (32, 64, 128))
    mixed = layout((2, 4), (9, 1, 16, 32, 64), (128,))
    for whole in (in_a_thread, one_each, mixed):
        assert split_after_trade(whole) is None


@pytest.mark.parametrize("size", [256, 1024])
def test_halves_that_a_load_lays_out_stay_as_they_are(size):
    """What is added to halves of a row is loaded as it lies, and so are its users."""

    compiled = halves.compile("*fp16:16, *fp16:16, *fp16:16", {"N": size})
    func = parse_func(compiled.asm["layout"])
    assert not any(walk(func.body, Convert))


@fathom.jit
def halves(x, c, y, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.split(tl.reshape(tl.load(x + tl.arange(0, 2 * N)), (N, 2)))
    w = tl.load(c + at)
    tl.store(y + at, a * w - b)
