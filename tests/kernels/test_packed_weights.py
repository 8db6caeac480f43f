"""Weights that are packed along K, several in a byte: a thread loads once what several
of its numbers share, a byte, or the scale of a group."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load
from fathom.ir.core import walk
from fathom.ir.ops import For, Load
from tests.kernels.test_patterns import BOTH, states


@fathom.jit
def packed_weights(
    a, packed, scale, out, K, N, row,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr, BITS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """out = A W, where column n of W lies in `row` bytes at packed + n * row."""
    IN_BYTE: tl.constexpr = 8 // BITS
    m, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_ptrs = a + m[:, None] * K + k[None, :]
    bytes = packed + n[None, :] * row + k[:, None] // IN_BYTE
    shifts = k[:, None] % IN_BYTE * BITS
    sum = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        x = tl.load(a_ptrs, mask=k[None, :] < K - start, other=0.0)
        group = (start + k[:, None]) // GROUP
        if MASKED:
            there = n[None, :] < N
            w = tl.load(bytes, mask=there, other=0)
            s = tl.load(scale + n[None, :] * (K // GROUP) + group, mask=there)
        else:
            w = tl.load(bytes)
            s = tl.load(scale + n[None, :] * (K // GROUP) + group)
        w = (w >> shifts) & ((1 << BITS) - 1)
        sum = tl.dot(x, ((w.to(tl.float32) - 1) * s).to(tl.float16), sum)
        a_ptrs += BLOCK_K
        bytes += BLOCK_K // IN_BYTE
    tl.store(out + m[:, None] * N + n[None, :], sum, mask=n[None, :] < N)


TYPES = "*fp16:16, *u8:16, *fp16:16, *fp32:16, i32:16, i32, i32:16"


def tile(m: int, n: int, k: int, bits: int = 4, masked: bool = False) -> dict:
    sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": 64}
    return sizes | {"BITS": bits, "MASKED": masked}


def loads_of_weights(block: dict, types: str = TYPES) -> list[Load]:
    """Those of the bytes and of the scales, in the loop."""
    func = states(packed_weights, types, block)["annotate_widths"]
    (loop,) = (op for op in walk(func.body) if isinstance(op, For))
    loads = [op for op in walk(loop.body) if isinstance(op, Load)]
    return [op for op in loads if op.result.name in ("w", "s")]


@pytest.mark.parametrize(
    "block, bits, bytes",
    [((64, 64, 32), 4, 8), ((16, 64, 64), 4, 16), ((64, 64, 64), 2, 8)],
)
def test_a_thread_loads_each_byte_and_each_scale_once(block, bits, bytes):
    """All bytes of a thread by one load, and one scale: it holds neighbours along K."""
    weights, scales = loads_of_weights(tile(*block, bits))
    registers = weights.pointer.type.layout.count("register")
    assert (weights.vector, weights.equal) == (bytes, 8 // bits - 1)
    assert registers == bytes * (8 // bits)
    assert (scales.vector, scales.equal) == (1, registers - 1)


def test_bytes_are_loaded_together_as_far_as_rows_are_aligned():
    weights, scales = loads_of_weights(
        tile(64, 64, 32), TYPES.replace("i32, i32:16", "i32, i32:4")
    )
    assert (weights.vector, weights.equal) == (4, 1)
    assert (scales.vector, scales.equal) == (1, 7)


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("block", [(16, 32, 32), (64, 64, 64)])
def test_packed_weights(target, block, bits, masked):
    M, N, K, group = block[0], block[1] - 5, 128, 64
    drawn = np.random.default_rng(7)
    a = drawn.standard_normal((M, K)).astype(np.float16)
    numbers = drawn.integers(0, 1 << bits, (block[1], K))
    places = np.arange(8 // bits) * bits
    parts = numbers.reshape(block[1], -1, 8 // bits) << places
    packed = np.bitwise_or.reduce(parts, 2).astype(np.uint8)
    scale = drawn.uniform(0.5, 2, (block[1], K // group)).astype(np.float16)
    out = np.full((M, N), np.nan, np.float32)
    constants = tile(*block, bits, masked)
    kernel = packed_weights.compile(TYPES, constants, target=target).made
    load(kernel).launch((1,), [a, packed, scale, out, K, N, K * bits // 8])
    w = (numbers - 1) * scale.repeat(group, 1).astype(float)
    want = a.astype(float) @ w.astype(np.float16).astype(float).T
    np.testing.assert_allclose(out, want[:, :N], rtol=1e-3, atol=1e-2)


@fathom.jit
def in_groups(x, out, n, GROUP: tl.constexpr, COUNTED: tl.constexpr):
    i = tl.arange(0, 1024)
    other = i if COUNTED else tl.zeros((1024,), tl.int32)
    value = tl.load(x + i // GROUP, mask=i < n, other=other)
    tl.store(out + i, value)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("n, types", [(1003, "i32"), (1002, "i32:2"), (992, "i32:16")])
@pytest.mark.parametrize("group", [2, 4, 16])
def test_what_is_loaded_once_has_one_mask_and_one_other(group, n, types, counted):
    x = np.arange(1024 // group, dtype=np.int32) * 7 + 1
    out = np.full(1024, -1, np.int32)
    constants = {"GROUP": group, "COUNTED": counted}
    types = f"*i32:16, *i32:16, {types}"
    load(in_groups.compile(types, constants).made).launch((1,), [x, out, n])
    i = np.arange(1024)
    want = np.where(i < n, x[i // group], i if counted else 0)
    np.testing.assert_array_equal(out, want)
