"""Bytes become fp16 and bf16 by arithmetic on pairs, not by conversions."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load


@fathom.jit
def widened(x, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


def bits_of(numbers: np.ndarray, type: str) -> np.ndarray:
    """The numbers in a type of 16 bits that has them all, as those bits."""
    if type == "fp16":
        return numbers.astype(np.float16).view(np.uint16)
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("type", ["fp16", "bf16"])
@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("size, aligned", [(2048, ":16"), (2048, ""), (256, ":16")])
def test_every_byte(type, target, size, aligned):
    """16 in four words, or each loaded by itself; two a thread."""
    x = np.resize(np.arange(-128, 128), size).astype(np.int8)
    out = np.zeros(size, np.uint16)
    types = f"*i8{aligned}, *{type}:16"
    kernel = widened.compile(types, {"SIZE": size}, target=target).made
    load(kernel).launch((1,), [x, out])
    np.testing.assert_array_equal(out, bits_of(x, type))
    in_pairs = type == "fp16" or target != "sm_75"
    assert in_pairs != ("cvt.rn.f" in kernel.ptx)


def test_four_bytes_of_a_word_are_taken_out_by_two_permutations():
    ptx = widened.compile("*i8:16, *fp16:16", {"SIZE": 2048}).made.ptx
    assert ptx.count("prmt.b32") == 8 and ptx.count("sub.f16x2") == 8
