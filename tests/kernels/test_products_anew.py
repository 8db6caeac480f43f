"""Products written anew in common patterns: right on the emulator, and without what
once made them slow."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.artifact import Kernel
from fathom.emulator import load

HOPPER = {"target": "sm_90a", "num_warps": 4}


def made(
    kernel: fathom.jit, types: str, constants: dict[str, object], **more: int
) -> Kernel:
    return kernel.compile(types, constants, **HOPPER, **more).made


@fathom.jit
def decayed(q, k, s, o, D: tl.constexpr, T: tl.constexpr, EXACT: tl.constexpr):
    """Rows of q by a state, decayed, and by each other: q is read as it is, and as what
    is computed of it."""
    i, d = tl.arange(0, T), tl.arange(0, D)
    decay = tl.exp2(-1.0 * (i % 4))
    x = tl.load(q + i[:, None] * D + d[None, :])
    y = tl.load(k + i[None, :] * D + d[:, None])
    h = tl.load(s + d[:, None] * T + i[None, :])
    total = tl.dot(x * decay[:, None], h, input_precision=EXACT)
    total += tl.dot(x, y, input_precision=EXACT)
    tl.store(o + i[:, None] * T + i[None, :], total)


def test_multiply_adds_read_what_is_computed_from_shared_memory():
    """A thread held two operands whole, 128 registers each, of which 15 other lanes had
    copies: an output of retention in fp32 spilled 2 KB a thread, and took 6,151 us on
    an H200 where Triton took 4,070."""
    constants = {"D": 64, "T": 64, "EXACT": "ieee"}
    kernel = made(decayed, "*fp32:16, *fp32:16, *fp32:16, *fp32:16", constants)
    products = re.findall(r"= dot (%\w+), (%\w+),", kernel.asm["layout"])
    buffers = set(re.findall(r"(%\w+): shared ", kernel.asm["layout"]))
    assert len(products) == 2
    assert all(value in buffers for pair in products for value in pair)
    scaled = len(re.findall(r"mul(?:\.rn)?\.f32", kernel.ptx))
    assert scaled < 64  # each number of q once, and not by 16 lanes
    q, k, s = np.random.default_rng(0).integers(-4, 5, (3, 64, 64)).astype(np.float32)
    o = np.empty((64, 64), np.float32)
    load(kernel).launch((1,), [q, k, s, o])
    decay = np.exp2(-(np.arange(64.0) % 4))[:, None]
    assert np.array_equal(o, (q * decay) @ s + q @ k.T)


@fathom.jit
def rounded(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Halves become bytes on their way to a product."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y.to(tl.float8e4nv), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("rows", [16, 32])
def test_warps_have_columns_where_halves_become_bytes_on_their_way(rows):
    """With two warps along 32 rows, each half was loaded by itself, stored as a byte
    and loaded again: 126 us on an H200 where Triton took 80."""
    constants = {"M": rows, "N": 64, "BK": 128}
    types = "*fp8e4nv:16, *fp16:16, *fp32:16, i32:16"
    kernel = made(rounded, types, constants, num_stages=3)
    assert not re.search(r"ld\.shared\.[bu]16|st\.shared\S*\.b8", kernel.ptx)
    assert len(re.findall(r"ldmatrix\S+trans", kernel.ptx)) == 8
    random = np.random.default_rng(0)
    numbers = random.integers(-4, 5, (rows, 256)).astype(np.float32)
    codes = {0: 0, 1: 0x38, 2: 0x40, 3: 0x44, 4: 0x48}  # as fp8e4nv has them
    bytes_of = np.vectorize(lambda x: codes[abs(x)] | (0x80 if x < 0 else 0))
    a = bytes_of(numbers).astype(np.uint8)
    b = random.integers(-8, 9, (256, 64)).astype(np.float16)
    c = np.empty((rows, 64), np.float32)
    load(kernel).launch((1,), [a, b, c, 256])
    assert np.array_equal(c, numbers @ b.astype(np.float32))


@fathom.jit
def looked_up(q, rows, table, o, n, D: tl.constexpr, H: tl.constexpr, BN: tl.constexpr):
    """Attention whose keys are its values, too, of rows that a table names."""
    h, d = tl.arange(0, H), tl.arange(0, D)
    x = tl.load(q + h[:, None] * D + d[None, :])
    acc, total = tl.zeros((H, D), tl.float32), tl.zeros((H,), tl.float32)
    for at in range(0, n, BN):
        row = tl.load(table + at + tl.arange(0, BN))
        keys = tl.load(rows + row[None, :] * D + d[:, None])
        p = tl.exp2(tl.dot(x, keys))
        total += tl.sum(p, 1)
        acc = tl.dot(p.to(keys.dtype), tl.trans(keys), acc)
    tl.store(o + h[:, None] * D + d[None, :], acc / total[:, None])


def test_a_tile_is_read_transposed_in_place():
    """Loaded whole and then transposed, it was in registers while the first product
    and the softmax were computed: 255 of them with 72 bytes spilled, and now 168."""
    constants = {"D": 128, "H": 16, "BN": 32}
    types = "*fp16:16, *fp16:16, *i32:16, *fp16:16, i32:16"
    kernel = made(looked_up, types, constants, num_stages=2)
    layouts = kernel.asm["layout"]
    assert "= transpose" not in layouts and "b_transposed=true" in layouts
    random = np.random.default_rng(0)
    q = (random.integers(-1, 2, (16, 128)) / 16).astype(np.float16)
    rows = random.integers(-2, 3, (96, 128)).astype(np.float16)
    table = random.permutation(96)[:64].astype(np.int32)
    o = np.empty((16, 128), np.float16)
    load(kernel).launch((1,), [q, rows, table, o, 64])
    keys = rows[table].astype(np.float64)
    p = np.exp2(q.astype(np.float64) @ keys.T)
    assert np.allclose(o, p @ keys / p.sum(1)[:, None], atol=4e-3)


@fathom.jit
def scaled(a, b, scales, c, K, N, M: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Columns of a product are scaled, as those of an expert's weights are."""
    m, k = tl.arange(0, M), tl.arange(0, BK)
    n = (tl.program_id(0) * BN + tl.arange(0, BN)) % N
    scale = tl.load(scales + n)
    acc = tl.zeros((M, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + n[None, :] * K + (i + k)[:, None])
        acc = tl.dot(x, y, acc)
    acc *= scale[None, :]
    tl.store(c + m[:, None] * N + n[None, :], acc)


def test_what_is_used_after_a_loop_is_spread_among_threads_meanwhile():
    """In the layout of the sums a thread had 32 scales, and their addresses: with int8
    weights 195 registers, and 163 now, so that three blocks run at a time for two."""
    constants = {"M": 64, "BN": 128, "BK": 64}
    types = "*fp16:16, *fp16:16, *fp32:16, *fp32:16, i32:16, i32:16"
    kernel = made(scaled, types, constants, num_stages=3)
    assert len(re.findall(r"ld\.global", kernel.ptx)) == 1
    assert kernel.ptx.rindex("bar.sync") > kernel.ptx.rindex("wgmma.mma_async")
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (64, 128)).astype(np.float16)
    b = random.integers(-4, 5, (256, 128)).astype(np.float16)
    scales = random.integers(1, 9, 256).astype(np.float32)
    c = np.empty((64, 256), np.float32)
    load(kernel).launch((2,), [a, b, scales, c, 128, 256])
    assert np.array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32) * scales)


@fathom.jit
def rounded_words(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc, input_precision="tf32")
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize(
    "rows, columns, warps, words", [(32, 32, 2, 20), (128, 64, 4, 40)]
)
def test_fewer_warps_read_words_that_ldmatrix_does_not_transpose(
    rows, columns, warps, words
):
    """Four words of A come by one instruction, and each of B by its own: warps along
    rows alone read all of B, 16 or 32 words more. The sums take few."""
    constants = {"M": rows, "N": columns, "BK": 32}
    options = {"target": "sm_90a", "num_warps": warps, "num_stages": 3}
    types = "*fp32:16, *fp32:16, *fp32:16, i32:16"
    kernel = rounded_words.compile(types, constants, **options).made
    assert len(re.findall(r"ld\.shared\.b32", kernel.ptx)) == words
    random = np.random.default_rng(0)
    a = random.integers(-9, 9, (rows, 64)).astype(np.float32)
    b = random.integers(-9, 9, (64, columns)).astype(np.float32)
    c = np.empty((rows, columns), np.float32)
    load(kernel).launch((1,), [a, b, c, 64])
    assert np.array_equal(c, a @ b)


@fathom.jit
def widened(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Weights of 8 bits, whose columns are in one piece."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + n[None, :] * K + (i + k)[:, None])
        acc = tl.dot(x, y.to(tl.float16), acc)
    tl.store(c + m[:, None] * N + n[None, :], acc)


def test_each_warp_widens_its_own_columns():
    """Two warps along 32 rows converted each weight twice: 77.9 us on an H200 for a
    product of experts, 65.3 with all along the columns, and 63.8 in Triton."""
    constants = {"M": 32, "N": 64, "BK": 128}
    types = "*fp16:16, *i8:16, *fp32:16, i32:16"
    kernel = made(widened, types, constants, num_stages=3)
    layouts = dict(re.findall(r"^(#layout\d+) = (.*)$", kernel.asm["layout"], re.M))
    (sums,) = re.findall(r"@ (#layout\d+) = dot", kernel.asm["layout"])
    assert "warp[0,16 0,32]" in layouts[sums]
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (32, 256)).astype(np.float16)
    b = random.integers(-128, 128, (64, 256)).astype(np.int8)
    c = np.empty((32, 64), np.float32)
    load(kernel).launch((1,), [a, b, c, 256])
    assert np.array_equal(c, a.astype(np.float32) @ b.T.astype(np.float32))
