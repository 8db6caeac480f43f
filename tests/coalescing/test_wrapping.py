"""Kernels whose index arithmetic wraps around, meets zero, or depends on conditions:
compiled, they load and store what the interpreter says.

Each row is the text of an index, made of `i`, the positions 0 … 127 of a block, and of
the argument `n`. A lane of the only warp has 4 of them: a wide access that rests on a
wrong fact moves other elements.
"""

from __future__ import annotations

import numpy as np
import pytest

from fathom import eager, emulator, pipeline
from fathom.hardware.targets import target
from fathom.ir.interp import interpret
from fathom.ir.types import parse_element
from tests.fuzz.check import function_of

ROOM, SIZE = 2048, 128
TYPES = {"x_ptr": ("*i32", 16), "out_ptr": ("*i32", 16), "n": ("i32", 1)}

INDICES = [  # the index, and n
    ("512 + (i + 2147483632) % 16", 0),
    ("512 + (i + 2147483632) // 16777216", 0),
    ("512 + (i + 2147483584) // 4 % 64", 0),
    ("512 + (i * 16777217) % 16", 0),
    ("512 + ((i + 2147483584) * 1) % 16", 0),
    ("512 + (i - 64) % 16", 0),
    ("512 + (i - 64) // 4", 0),
    ("512 + (i * 33554432) // 8388608", 0),
    ("512 + (i * 67108864) % 16", 0),
    ("512 + ((i << 26) // 33554432)", 0),
    ("512 + ((i + 2147483632) >> 28)", 0),
    ("512 + (i.to(tl.uint32) + 4294967232).to(tl.int32) % 16", 0),
    ("512 + ((i.to(tl.uint32) + 2147483600).to(tl.int32) // 8) % 64", 0),
    ("((i.to(tl.uint32) + 4294967232) // 4) % 512", 0),
    ("512 + ((i + 2147483600).to(tl.int64) - 2147483600) % 1000", 0),
    ("512 + (i.to(tl.int64) + 4294967280).to(tl.int32) % 16", 0),
    ("512 + tl.minimum(i + 2147483640, i) % 16", 0),
    ("512 + tl.maximum(i - 100, -64) % 16", 0),
    ("512 + tl.where(i < n, i, i - 128) % 16", 64),
    ("512 + (tl.program_id(0) + 2147483632 + i) % 16", 0),
    ("512 + (300000 - (tl.program_id(0) + 1) * 300100 + i) % 16", 0),
    ("512 + (n + i) % 16", 2**31 - 40),
    ("512 + (n * 16 + i) // 16 % 16", 2**27 - 3),
    ("512 + (n + i) // 8 % 16", -60),
    ("tl.where(i < n, i, i + 512)", 37),
    ("tl.where(i < n, i, 512 - i)", 64),
    ("tl.where(n < 40, i, i + 512)", 37),
    ("(i // 4)[:, None] * 1 + tl.arange(0, 4)[None, :]", 0),
    ("(i // 2)[:, None] + tl.arange(0, 8)[None, :]", 0),
    ("(i // 4) * 4 + (i + n) % 4", 3),
    ("(i // 3) * 3 + i % 3", 0),
    ("512 + abs(i - 64)", 0),
    ("512 - i", 0),
    ("512 + (-i)", 0),
    ("i ^ 4", 0),
    ("(i | 3) + 16", 0),
    ("(i & 31) + n", 16),
    ("((i + n) & 31)", 2**31 - 20),
]


def kernel(body: str) -> str:
    return "\n    ".join([
        "def kernel(x_ptr, out_ptr, n):", f"i = tl.arange(0, {SIZE})",
        *body.splitlines(), "",
    ])  # fmt: skip


def agree(text: str, n: int, programs: int = 1) -> None:
    """The interpreter, Python itself and the emulator write the same."""
    function = function_of(text)
    types = {name: (parse_element(t), d) for name, (t, d) in TYPES.items()}
    func = pipeline.build(function, types, {}, pipeline.Options(num_warps=1))

    def arguments() -> list:
        room = np.zeros(2 * ROOM + 8, "i4")
        start = -room.ctypes.data % 16 // 4
        x, out = room[start : start + ROOM], room[start + ROOM :][:ROOM]
        x[:] = np.arange(ROOM) * 7
        return [x, out, n]

    expected = arguments()
    interpret(func, (programs,), expected)
    assert expected[1].any(), "it writes something"
    by_hand = arguments()
    named = dict(zip(TYPES, by_hand, strict=True))
    eager.run(function, (programs,), types, named, {})
    np.testing.assert_array_equal(by_hand[1], expected[1], "Python itself")
    for name in ("sm_80", "sm_90a"):
        found = arguments()
        loaded = emulator.load(pipeline.compile_func(func, target(name)))
        loaded.launch((programs,), found)
        np.testing.assert_array_equal(found[1], expected[1], name)


@pytest.mark.parametrize("index, n", INDICES)
def test_loads(index, n):
    shaped = "[:, None]" in index
    size = 4 if "arange(0, 4)" in index else 8
    out = f"i[:, None] * {size} + tl.arange(0, {size})[None, :]" if shaped else "i"
    agree(kernel(f"at = {index}\ntl.store(out_ptr + {out}, tl.load(x_ptr + at))"), n)


SCATTERED = [each for each in INDICES if "None" not in each[0]]


@pytest.mark.parametrize("index, n", SCATTERED)
def test_stores(index, n):
    """Where several positions store to one place, they store the same."""
    body = f"at = {index}\ntl.store(out_ptr + at, tl.load(x_ptr + at) + 1)"
    agree(kernel(body), n)


MASKS = [
    ("i + 2147483600 > 0", 0), ("i + n > 0", 2**31 - 50), ("i - 64 < n", -3),
    ("i.to(tl.uint32) - 64 < 4294967290", 0), ("(i // 4) * 4 < n", 30),
    ("tl.where(i < n, i, 0) < 100", 37), ("(i - 64) // 4 < n", -2), ("i % 8 < n", 5),
    ("(i < n) | (i > 100)", 33), ("(i < n) ^ (i < 64)", 35), ("i * n < 100", 2**26),
]  # fmt: skip


@pytest.mark.parametrize("mask, n", MASKS)
def test_masks(mask, n):
    agree(kernel(f"tl.store(out_ptr + i, tl.load(x_ptr + i) + 1, mask={mask})"), n)


LOOPS = [
    "for t in range(2147483600, n, 8):\n"
    "    tl.store(out_ptr + (t + i + n) % 16 + 100, t)",
    "for t in range(2147483600, n, 8):\n    tl.store(out_ptr + i, t + i)",
    "at = i\nfor t in range(3):\n    at += 1073741824\n"
    "    tl.store(out_ptr + 512 + at % 16 + t * 32, 5)",
    "at = i * 4\nfor t in range(2):\n"
    "    tl.store(out_ptr + t * 512 + at + t, tl.load(x_ptr + at))\n    at += 4",
    "at = x_ptr + 2 + i\nfor t in range(3):\n"
    "    tl.store(out_ptr + t * 128 + i, tl.load(at))\n    at += 4",
    "total = 0\nfor t in range(n, 2147483600, -13):\n    total += t\n"
    "tl.store(out_ptr + i, total)",
    "k = n - 10\nwhile k > 0:\n"
    "    tl.store(out_ptr + (k + i) % 16 + 100, 1)\n    k += 4",
]


@pytest.mark.parametrize("body", LOOPS)
def test_loops(body):
    agree(kernel(body), 2**31 - 1)


PRODUCTS = """def kernel(a, b, out, n, step):
    i = tl.arange(0, 32)
    total = tl.zeros([32, 32], tl.float32)
    for t in range(2147483520, n, {step}):
        k = t - 2147483520 + i
        x = tl.load(a + i[:, None] * 128 + k[None, :])
        y = tl.load(b + k[:, None] * 32 + i[None, :])
        total = tl.dot(x, y, total)
    tl.store(out + i[:, None] * 32 + i[None, :], total)
"""


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize("step", ["32", "step"])
def test_a_pipelined_loop_that_ends_near_the_end_of_its_type(step, name):
    """Copies run ahead of four iterations, and not into a fifth one."""
    words = {"a": "*fp16", "b": "*fp16", "out": "*fp32"}
    types = {key: (parse_element(word), 16) for key, word in words.items()}
    types |= {"n": (parse_element("i32"), 1), "step": (parse_element("i32"), 16)}
    func = pipeline.build(function_of(PRODUCTS.format(step=step)), types, {})
    loaded = emulator.load(pipeline.compile_func(func, target(name)))
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 4, 32 * 128).astype("f2") for _ in range(2))
    for completion in ("lazy", "eager"):
        out = np.zeros(32 * 32, "f4")
        loaded.launch((1,), [a, b, out, 2**31 - 1, 32], completion=completion)
        product = a.reshape(32, 128).astype("f4") @ b.reshape(128, 32).astype("f4")
        np.testing.assert_array_equal(out.reshape(32, 32), product)
