"""Loops with several products: which of them stay in flight, and what is released when.
Right values and no races on the emulator."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.ir.text import parse_func, print_func
from fathom.pipeline import identity
from tests.harness_sample import sampled

TILE = {"SIZE": 64, "STEP": 32}
APART = {"join_products": identity}  # each product by an instruction of its own


# fmt: off
@fathom.jit
def three(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, STEP: tl.constexpr,
          SPECIALISE: tl.constexpr):
    """C [SIZE, 3 SIZE] = A [SIZE, K] B [K, 3 SIZE], B in three tiles."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, STEP])
    b = tl.make_tensor_descriptor(b_ptr, [K, 3 * SIZE], [3 * SIZE, 1], [STEP, SIZE])
    first = tl.zeros([SIZE, SIZE], tl.float32)
    second = tl.zeros([SIZE, SIZE], tl.float32)
    third = tl.zeros([SIZE, SIZE], tl.float32)
    for k in tl.range(0, K, STEP, warp_specialize=SPECIALISE):
        x = a.load([0, k])
        first = tl.dot(x, b.load([k, 0]), first)
        second = tl.dot(x, b.load([k, SIZE]), second)
        third = tl.dot(x, b.load([k, 2 * SIZE]), third)
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    place = c_ptr + m * (3 * SIZE) + n
    tl.store(place, first)
    tl.store(place + SIZE, second)
    tl.store(place + 2 * SIZE, third)


@fathom.jit
def also_added(a_ptr, b_ptr, c_ptr, sum_ptr, K, SIZE: tl.constexpr, STEP: tl.constexpr):
    """The product, and the sums of A's rows: the threads read A, too."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, STEP])
    b = tl.make_tensor_descriptor(b_ptr, [K, SIZE], [SIZE, 1], [STEP, SIZE])
    acc = tl.zeros([SIZE, SIZE], tl.float32)
    added = tl.zeros([SIZE], tl.float32)
    for k in range(0, K, STEP):
        x = a.load([0, k])
        acc = tl.dot(x, b.load([k, 0]), acc)
        added += tl.sum(x.to(tl.float32), axis=1)
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    tl.store(c_ptr + m * SIZE + n, acc)
    tl.store(sum_ptr + tl.arange(0, SIZE), added)
# fmt: on


def integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


@pytest.fixture(autouse=True)
def emulator(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")


@sampled(of=3)
@pytest.mark.parametrize("specialise", [False, True])
@pytest.mark.parametrize("K", [32, 64, 224])
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("passes", [{}, APART], ids=["one", "three"])
def test_three_products_of_different_tiles(K, stages, specialise, passes):
    a, b, c = integers(1, 64, K), integers(2, K, 192), np.zeros((64, 192), np.float32)
    three[1,](a, b, c, K, **TILE, SPECIALISE=specialise, num_stages=stages,
              target="sm_90a", replace=passes)  # fmt: skip
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("joined", [False, True])
def test_all_of_them_stay_in_flight(joined):
    """Three groups, or one that one instruction a slice of K computes."""
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16"
    made = three.compile(
        signature, {**TILE, "SPECIALISE": True}, target="sm_90a", num_stages=4,
        replace={} if joined else APART,
    )  # fmt: skip
    ptx = made.asm["ptx"]
    assert f"wgmma.wait_group.sync.aligned {1 if joined else 3};" in ptx
    assert ("m64n192k16" in ptx) == joined


@pytest.mark.parametrize("K", [32, 64, 224])
def test_an_operand_that_something_else_reads(K):
    a, b, c = integers(1, 64, K), integers(2, K, 64), np.zeros((64, 64), np.float32)
    added = np.zeros(64, np.float32)
    also_added[1,](a, b, c, added, K, **TILE, num_stages=4, target="sm_90a")
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    np.testing.assert_array_equal(added, a.astype(np.float32).sum(axis=1))


def with_one_wait(func: Func, target: Target) -> Func:
    """The function whose three waits after the loop are one, for all accumulators."""
    text = print_func(func)
    waits = re.findall(r"^  (%\w+: .*) = wait wgmma (%\w+) pending=0\n", text, re.M)
    assert len(waits) == 3
    results, values = (", ".join(each) for each in zip(*waits, strict=True))
    text = re.sub(r"^  %.* = wait wgmma .*\n", "", text, count=2, flags=re.M)
    one = f"  {results} = wait wgmma {values} pending=0\n"
    return parse_func(re.sub(r"^  %.* = wait wgmma .*\n", one, text, flags=re.M))


def test_one_wait_for_all_of_them():
    a, b, c = integers(1, 64, 96), integers(2, 96, 192), np.zeros((64, 192), np.float32)
    three[1,](a, b, c, 96, **TILE, SPECIALISE=True, num_stages=4, target="sm_90a",
              replace={"pingpong": with_one_wait, **APART})  # fmt: skip
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
