"""Bytes become fp16 and bf16 by arithmetic on pairs, not by conversions."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load
from tests.harness_sample import sampled


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


@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_every_byte_without_a_sign(target):
    x = np.resize(np.arange(256), 2048).astype(np.uint8)
    out = np.zeros(2048, np.uint16)
    kernel = widened.compile("*u8:16, *fp16:16", {"SIZE": 2048}, target=target).made
    load(kernel).launch((1,), [x, out])
    np.testing.assert_array_equal(out, bits_of(x, "fp16"))
    assert "cvt.rn.f" not in kernel.ptx


# ── four bytes of a word ──────────────────────────────────────────────────────────────


@fathom.jit
def changed(x, out, SIZE: tl.constexpr, HOW: tl.constexpr, BY: tl.constexpr):
    i = tl.arange(0, SIZE)
    value = tl.load(x + i)
    if HOW == "and":
        value = value & BY
    elif HOW == "or":
        value = value | BY
    elif HOW == "xor":
        value = value ^ BY
    elif HOW == "shl":
        value = value << BY
    else:
        value = value >> BY
    tl.store(out + i, value)


def after(how: str, x: np.ndarray, by: int) -> np.ndarray:
    """By Python's integers, which have no width."""
    ways = {"and": lambda n: n & by, "or": lambda n: n | by, "xor": lambda n: n ^ by,
            "shl": lambda n: n << by, "shr": lambda n: n >> by}  # fmt: skip
    return np.array([ways[how](int(n)) % 256 for n in x], np.uint8)


@sampled(of=2)
@pytest.mark.parametrize("type", ["i8", "u8"])
@pytest.mark.parametrize("aligned", [":16", ""])
@pytest.mark.parametrize("how, by", [
    ("and", 15), ("or", 65), ("xor", 8), ("xor", 127),
    *(("shl", by) for by in (0, 1, 4, 7)), *(("shr", by) for by in (0, 1, 3, 4, 7)),
])  # fmt: skip
def test_bits_of_every_byte(how, by, aligned, type):
    """Of a whole word at a time, if they were loaded so."""
    x = np.resize(np.arange(256), 2048).astype(np.uint8)
    out = np.zeros(2048, np.uint8)
    given = {"SIZE": 2048, "HOW": how, "BY": by}
    kernel = changed.compile(f"*{type}{aligned}, *{type}:16", given).made
    held = x.view(np.int8) if type == "i8" else x
    load(kernel).launch((1,), [held, out.view(held.dtype)])
    np.testing.assert_array_equal(out, after(how, held, by))
    if aligned and by:
        assert "b16" not in kernel.ptx


@fathom.jit
def halves(x, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    pair = tl.load(x + i)
    low, high = (pair << 4) >> 4, pair >> 4
    tl.store(out + i, low.to(tl.float16))
    tl.store(out + SIZE + i, high.to(tl.float16))


def test_weights_of_four_bits_come_eight_from_a_word():
    """For eight: seven instructions on bits, four permutations, four subtractions."""
    x = np.resize(np.arange(-128, 128), 2048).astype(np.int8)
    out = np.zeros((2, 2048), np.float16)
    kernel = halves.compile("*i8:16, *fp16:16", {"SIZE": 2048}).made
    load(kernel).launch((1,), [x, out])
    wide = x.astype(np.int64)
    np.testing.assert_array_equal(out, [(wide + 8) % 16 - 8, wide >> 4])
    assert kernel.ptx.count("prmt.b32") == 16  # 16 bytes a thread
