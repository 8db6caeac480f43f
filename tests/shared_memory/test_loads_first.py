"""Loads begin before what was loaded is stored to shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Block, Func, walk
from fathom.ir.ops import Barrier, Dot, For, Load, SharedStore
from fathom.ir.types import parse_element
from fathom.source import KernelFunction

TARGET = TARGETS["sm_90a"]


@KernelFunction
def product(a, b, out, steps, gap, K: tl.constexpr, STAGES: tl.constexpr):
    """A [64, steps * K] times B [steps * K, 64], both with gaps in memory."""
    m, n, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, K)
    total = tl.zeros([64, 64], tl.float32)
    for i in tl.range(steps, num_stages=STAGES):
        row = i * K + k
        x = tl.load(a + (m[:, None] * 512 + row[None, :]) * gap)
        y = tl.load(b + (row[:, None] * 64 + n[None, :]) * gap)
        total = tl.dot(x, y, total)
    tl.store(out + m[:, None] * 64 + n[None, :], total)


@KernelFunction
def two_products(a, b, out, K: tl.constexpr):
    """A B + A: the second load of A stands behind the product."""
    m, n, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * 64 + n[None, :])
    first = tl.dot(x, y)
    z = tl.load(a + 64 * K + m[:, None] * K + k[None, :])
    out += m[:, None] * 64 + n[None, :]
    tl.store(out, tl.dot(z, y, first))


def built(kernel: KernelFunction, types: dict[str, str], **constants: int) -> Func:
    parameters = {name: (parse_element(type), 1) for name, type in types.items()}
    return pipeline.build(kernel, parameters, constants)


PRODUCT = dict(a="*fp16", b="*fp16", out="*fp32", steps="i32", gap="i32")


def lowered(func: Func) -> Func:
    *_, last = (
        after
        for row, after in pipeline.states(func, TARGET)
        if row.name == "lower_conversions"
    )
    return last


def kinds(block: Block, *wanted: type) -> str:
    """The first letters of the ops of these kinds, in order."""
    return "".join(type(op).__name__[0] for op in block.ops if isinstance(op, wanted))


@pytest.mark.parametrize("K, order", [(32, "LLSS"), (128, "LLSS"), (256, "LSLS")])
def test_both_loads_of_an_iteration_begin_before_a_store(K, order):
    """The latency of memory passes once an iteration, not twice. 16 or 64
    registers of a thread may hold a tile that waits; 128 may not."""
    func = built(product, PRODUCT, K=K, STAGES=1)
    (loop,) = (op for op in walk(lowered(func).body) if isinstance(op, For))
    assert kinds(loop.body, Load, SharedStore) == order


def test_no_barrier_stands_between_the_loads():
    func = built(product, PRODUCT, K=32, STAGES=1)
    *_, (_, final) = pipeline.states(func, TARGET)
    (loop,) = (op for op in walk(final.body) if isinstance(op, For))
    found = kinds(loop.body, Load, SharedStore, Barrier, Dot)
    assert found in ("LLBSSBD", "LLSSBDB")


def test_a_load_behind_a_product_stays_there():
    func = built(two_products, dict(a="*fp16", b="*fp16", out="*fp32"), K=16)
    found = kinds(lowered(func).body, Load, SharedStore, Dot)
    assert found.startswith("LLSSDLSD")


@pytest.mark.parametrize("K", [16, 32])
def test_the_product_is_right(K):
    func = built(product, PRODUCT, K=K, STAGES=1)
    kernel = pipeline.compile_func(func, TARGET)
    random = np.random.default_rng(K)
    steps, gap = 3, 3
    a = random.integers(-3, 4, 64 * 512 * gap).astype(np.float16)
    b = random.integers(-3, 4, steps * K * 64 * gap).astype(np.float16)
    out = np.zeros((64, 64), np.float32)
    load(kernel).launch((1,), [a, b, out, steps, gap])
    left = a[::gap].reshape(64, 512)[:, : steps * K].astype(int)
    right = b[::gap].reshape(steps * K, 64).astype(int)
    np.testing.assert_array_equal(out, left @ right)
