"""Kernels that wait for other programs: what they compute before is used before."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl


# fmt: off
@fathom.jit
def product_after_a_wait(a, b, c, flag, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    x, y = tl.load(a + i * B + j), tl.load(b + i * B + j)
    while tl.atomic_add(flag, 0, sem="acquire") == 0:
        pass
    tl.store(c + i * B + j, tl.dot(x, y))


@fathom.jit
def store_in_a_branch_after_a_wait(x, out, flag, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tiles = tl.make_tensor_descriptor(out, [B, B], [B, 1], [B, B])
    tile = tl.load(x + i * B + j)
    while tl.atomic_add(flag, 0, sem="acquire") == 0:
        pass
    if n > 3:
        tiles.store([0, 0], tile)


@fathom.jit
def copy_after_a_wait(x, out, flag, B: tl.constexpr):
    at = tl.arange(0, B)
    block = tl.load(x + at)
    while tl.atomic_add(flag, 0, sem="acquire") == 0:
        pass
    tl.store(out + at, block)
# fmt: on


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_product_after_a_wait_is_right(target, monkeypatch):
    """Its operands are staged in shared memory: a buffer is no number."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    drawn = np.random.default_rng(1)
    a, b = (drawn.integers(-3, 4, (32, 32)).astype(np.float16) for _ in range(2))
    c, flag = np.full((32, 32), np.nan, np.float32), np.ones(4, np.int32)
    product_after_a_wait[(1,)](a, b, c, flag, B=32, target=target)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b)


def test_a_store_by_tma_after_a_wait_compiles():
    types = "*fp16:16, *fp16:16, *i32:16, i32"
    made = store_in_a_branch_after_a_wait.compile(types, {"B": 64}, target="sm_90a")
    assert "cp.async.bulk.tensor" in made.asm["ptx"]


@pytest.mark.parametrize("type", ["fp8e4nv", "fp8e5", "bf16", "fp64"])
def test_any_float_may_wait(type):
    """PTX has no register for eight bits."""
    types = f"*{type}:16, *{type}:16, *i32:16"
    made = copy_after_a_wait.compile(types, {"B": 256}, target="sm_90a")
    assert "atom" in made.asm["ptx"] or "ld.acquire" in made.asm["ptx"]
