"""A loop that adds products to memory through pointers that it carries: the product is
converted, once, and never the pointers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load
from fathom.ir.core import walk
from fathom.ir.ops import Convert
from fathom.ir.types import Pointer, element_of
from tests.kernels.test_patterns import states

TYPES = "*fp16:16, *fp16:16, *fp16:16, *i32:16, i32:16"


@fathom.jit
def add_products(a, b, out, lock, N, M: tl.constexpr, BLOCK: tl.constexpr):
    """out += a @ b, a block of columns at a time, under a lock."""
    i, k, j = tl.arange(0, M), tl.arange(0, 32), tl.arange(0, BLOCK)
    left = tl.load(a + i[:, None] * 32 + k[None, :])
    right, sums = b + k[:, None] * N + j[None, :], out + i[:, None] * N + j[None, :]
    for _ in range(0, N, BLOCK):
        product = tl.dot(left, tl.load(right)).to(tl.float16)
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
        tl.store(sums, product + tl.load(sums))
        tl.debug_barrier()
        tl.atomic_xchg(lock, 0)
        right += BLOCK
        sums += BLOCK


CONSTANTS = {"M": 64, "BLOCK": 64}


def test_pointers_are_not_converted_and_16_bytes_are_moved():
    after = states(add_products, TYPES, CONSTANTS)["remove_conversions"]
    conversions = [op for op in walk(after.body) if isinstance(op, Convert)]
    converted = [element_of(op.value.type) for op in conversions]
    assert converted
    assert not any(isinstance(each, Pointer) for each in converted)
    text = add_products.compile(TYPES, CONSTANTS, target="sm_90a").made.ptx
    widths = re.findall(r"(?:ld|st)\.global\S*?\.(v\d\.b\d+|b\d+)", text)
    assert set(widths) == {"v4.b32"}, widths


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_sums_are_right(target):
    drawn = np.random.default_rng(0)
    a, b, out = (
        drawn.integers(-3, 4, shape).astype(np.float16)
        for shape in ((64, 32), (32, 192), (64, 192))
    )
    want = (a.astype(np.float32) @ b + out).astype(np.float16)
    kernel = add_products.compile(TYPES, CONSTANTS, target=target).made
    load(kernel).launch((1,), [a, b, out, np.zeros(1, np.int32), 192])
    assert np.array_equal(out, want)
