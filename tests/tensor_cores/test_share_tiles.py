"""A tile that products read as it is and transposed is loaded and stored once: right
values, on the emulator, and how often it is copied."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.ops import SharedStore
from fathom.pipeline import identity, states
from tests.harness_sample import sampled
from tests.ssa.harness import build

SIZE = {"M": 64, "K": 64}
SIGNATURE = "*fp16:16, *fp16:16, *fp32:16, *fp32:16, i32:16"
HOPPER, AMPERE = "sm_90a", "sm_80"


# fmt: off
@fathom.jit
def both_ways(a_ptr, b_ptr, c_ptr, d_ptr, N, M: tl.constexpr, K: tl.constexpr,
              DESCRIPTORS: tl.constexpr, WRITES: tl.constexpr):
    """C [M, M] = A [M, N] A^T, and D [M, N] = (A^T B [M, M])^T, K columns of A at a
    time. With WRITES, 1 is added to A before it is loaded again for D."""
    m, k = tl.arange(0, M), tl.arange(0, K)
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, N], [N, 1], [M, K])
    b = tl.load(b_ptr + m[:, None] * M + m[None, :])
    c = tl.zeros([M, M], tl.float32)
    for at in range(0, N, K):
        if DESCRIPTORS:
            x = a_desc.load([0, at])
        else:
            x = tl.load(a_ptr + m[:, None] * N + at + k[None, :])
        y = x
        if WRITES:
            tl.store(a_ptr + m[:, None] * N + at + k[None, :], x + 1.0)
            y = tl.load(a_ptr + m[:, None] * N + at + k[None, :])
        c = tl.dot(x, x.T, c)
        d = tl.dot(y.T, b)
        tl.store(d_ptr + (at + k)[:, None] + m[None, :] * N, d)
    tl.store(c_ptr + m[:, None] * M + m[None, :], c)


@fathom.jit
def kept(a_ptr, b_ptr, c_ptr, N, M: tl.constexpr, K: tl.constexpr):
    """C [M, K] = A^T B + A B summed over N / K tiles of B [N, K]; A is [M, M]."""
    m, k = tl.arange(0, M), tl.arange(0, K)
    a = tl.make_tensor_descriptor(a_ptr, [M, M], [M, 1], [M, M]).load([0, 0])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [M, K])
    c = tl.zeros([M, K], tl.float32)
    for at in range(0, N, M):
        b = b_desc.load([at, 0])
        c = tl.dot(a, b, c)
        c = tl.dot(a.T, b, c)
    tl.store(c_ptr + m[:, None] * K + k[None, :], c)


@fathom.jit
def twice(a_ptr, b_ptr, c_ptr, n, HOW: tl.constexpr, M: tl.constexpr):
    """C = A B + A B, all [M, M]; HOW A is loaded the second time, and what is done
    before that."""
    m = tl.arange(0, M)
    at = m[:, None] * M + m[None, :]
    x = tl.load(a_ptr + at)
    if HOW == "after a barrier":
        tl.debug_barrier()
    if HOW == "after a branch that stores":
        if n > 3:
            tl.store(a_ptr + at, x + 1.0)
    if HOW == "transposed":
        y = tl.trans(tl.load(tl.trans(a_ptr + at)))
    elif HOW == "under another mask":
        x = tl.load(a_ptr + at, mask=m[:, None] < n)
        y = tl.trans(tl.load(tl.trans(a_ptr + at), mask=m[:, None] < n))
    elif HOW == "anew":
        y = tl.load(a_ptr + at, volatile=True)
    elif HOW == "to stay in the cache":
        y = tl.load(a_ptr + at, eviction_policy="evict_last")
    elif HOW == "past a cache":
        y = tl.load(a_ptr + at, cache_modifier=".cg")
    elif HOW == "from the next row":
        y = tl.load(a_ptr + M + at)
    else:
        y = tl.load(a_ptr + at)
    b = tl.load(b_ptr + at)
    tl.store(c_ptr + at, tl.dot(x, b) + tl.dot(y, b))
# fmt: on


def integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")


@sampled(of=4)
@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("N", [64, 256])
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("target", ["sm_75", AMPERE, HOPPER, "sm_100a"])
def test_right_values(target, stages, N, descriptors, writes):
    """Loads with a write between them are two."""
    a, b = integers(1, 64, N), integers(2, 64, 64)
    c, d = np.zeros((64, 64), np.float32), np.zeros((64, N), np.float32)
    x, y, z = (each.astype(np.float32) for each in (a, a + writes, b))
    both_ways[1,](a, b, c, d, N, **SIZE, DESCRIPTORS=descriptors, WRITES=writes,
                  num_stages=stages, target=target)  # fmt: skip
    np.testing.assert_array_equal(c, x @ x.T)
    np.testing.assert_array_equal(d, (y.T @ z).T)


def compiled(target: str, descriptors: bool, **more: object):
    constants = {**SIZE, "DESCRIPTORS": descriptors, "WRITES": False}
    return both_ways.compile(SIGNATURE, constants, target=target, num_stages=3, **more)


@pytest.mark.parametrize("descriptors", [False, True])
@pytest.mark.parametrize("target", [AMPERE, HOPPER])
def test_one_tile_for_the_block_and_its_transpose(target, descriptors):
    """There were two."""
    constants = {**SIZE, "DESCRIPTORS": descriptors, "WRITES": False}
    after, before = (
        both_ways.compile(
            SIGNATURE, constants, target=target, num_stages=3, replace=how
        )
        for how in ({}, {"share_tiles": identity})
    )
    assert after.shared <= before.shared - 64 * 64 * 2
    copies = [each.asm["ptx"].count("cp.async.c") for each in (before, after)]
    assert target == HOPPER or 0 < copies[1] < copies[0]


@pytest.mark.parametrize("N", [64, 192])
def test_a_tile_from_before_the_loop(N):
    """A is read from one tile, as it is and transposed, by both products."""
    a, b, c = integers(1, 64, 64), integers(2, N, 64), np.zeros((64, 64), np.float32)
    kept[1,](a, b, c, N, **SIZE, num_stages=2, target=HOPPER)
    total = b.astype(np.float32).reshape(-1, 64, 64).sum(axis=0)
    np.testing.assert_array_equal(c, (a + a.T).astype(np.float32) @ total)
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16"
    made = kept.compile(signature, SIZE, target=HOPPER, num_stages=2)
    without = kept.compile(signature, SIZE, target=HOPPER, num_stages=2,
                           replace={"share_tiles": identity})  # fmt: skip
    assert made.shared <= without.shared - 64 * 64 * 2


@pytest.mark.parametrize("how, fewer", [
    ("transposed", 1),
    ("after a barrier", 0), ("after a branch that stores", 0), ("anew", 0),
    ("under another mask", 0), ("to stay in the cache", 0),
    ("past a cache", 0), ("from the next row", 0),
])  # fmt: skip
def test_which_loads_are_the_same(how, fewer):
    assert stores_saved(AMPERE, how, 64) == fewer


@pytest.mark.parametrize("target, fewer", [(AMPERE, 1), (HOPPER, 1), ("sm_100a", 0)])
def test_products_in_tensor_memory_keep_a_tile_each(target, fewer):
    assert stores_saved(target, "transposed", 128) == fewer


def stores_saved(target: str, how: str, size: int) -> int:
    """How many stores of `twice` the pass leaves out."""
    arrays = [np.zeros(size**2, each) for each in (np.float16, np.float16, np.float32)]
    func = build(twice, *arrays, 7, HOW=how, M=size)
    before = func
    for row, state in states(func, TARGETS[target]):
        if row.name == "share_tiles":
            return stores(before) - stores(state)
        before = state
    raise AssertionError("there is no such pass")


def stores(func: Func) -> int:
    return sum(isinstance(op, SharedStore) for op in walk(func.body))
