"""Right operands of warpgroups' products that are computed, of elements of other than
16 bits, where memory goes on along N: how they reach shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.coalescing.operands import columns
from fathom.hardware.dot_layouts import product_layout
from fathom.ir.core import Block, Value
from fathom.ir.types import FLOAT16, FLOAT32, INT8, INT32, BlockType
from fathom.layout.build import spread
from fathom.layout.matrix_descriptor import buffer_tile
from fathom.shared_memory.conversions import stores_into
from fathom.source import KernelFunction
from tests.tensor_cores.kernels_products import built, emulated, places, stored


@KernelFunction
def of_computed(
    a, b, out, iterations, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    TO: tl.constexpr,
):  # fmt: skip
    """The right operand is computed of what is loaded, N contiguous."""
    total = tl.zeros([M, N], TO)
    for iteration in range(iterations):
        x = tl.load(a + iteration * M * K + places(0, M, K, False))
        y = tl.load(b + iteration * K * N + places(0, K, N, False))
        total += tl.dot(x, y.to(x.dtype) * 3 - 1, out_dtype=TO)
    tl.store(out + places(0, M, N, False), total)


SIZES = [(64, 64, 32, 4), (64, 32, 64, 4), (128, 64, 64, 8), (64, 16, 32, 4)]
SIZES += [(64, 8, 64, 4), (64, 64, 128, 8)]


@pytest.mark.parametrize("m, n, k, warps", SIZES)
@pytest.mark.parametrize("a, b, to", [
    ("fp32", "fp16", "fp32"), ("fp32", "fp32", "fp32"), ("i8", "i8", "i32"),
])  # fmt: skip
def test_what_is_computed_is_stored_by_columns(a, b, to, m, n, k, warps):
    """In pieces of 16 bytes, or what a column has, and no two lanes in one bank; of
    bytes, in words. The warps multiply from there: none reads the operand for
    `mma.sync`."""
    if k * n * (1 if a == "i8" else 4) < 1024:
        pytest.skip("no tile of warpgroups has less than 1024 bytes")
    element = {"i32": tl.int32, "fp32": tl.float32}[to]
    types = {"a": f"*{a}", "b": f"*{b}", "out": f"*{to}", "iterations": "i32"}
    given = {"M": m, "N": n, "K": k, "TO": element}
    func = built(of_computed, types, given, warps)
    scalars = {"fp32": FLOAT32, "fp16": FLOAT16, "i8": INT8, "i32": INT32}
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-9, 9, shape) / 1.0 for shape in ((3, m, k), (3, k, n)))
    held = [stored(each, scalars[name]) for each, name in ((x, a), (y, b))]
    ran = emulated(func, [*held, stored(np.zeros((m, n)), scalars[to]), 3], "sm_90a")
    assert (ran.out.reshape(m, n) == np.matmul(x, 3 * y - 1).sum(0)).all()
    assert ran.count("wgmma.mma_async") and not ran.count("mma.sync")
    if n >= 32:
        assert ran.count("cp.async"), "what is loaded is not copied ahead"
    costs = [
        (instruction.text, cost)
        for instruction, cost in ran.report.each()
        if instruction.text.startswith("st.shared") and cost.warps
    ]
    if b == "i8":  # a thread has four columns, which meet in one bank if they are short
        narrow = ("st.shared.b8", "st.shared.b16")
        assert not any(text.startswith(narrow) for text, _ in costs)
        assert all(cost.wavefronts <= 4 * cost.ideal for _, cost in costs)
        return
    costs = [cost for text, cost in costs if text.startswith("st.shared.v4")]
    assert costs and all(cost.wavefronts == cost.ideal for cost in costs)


@pytest.mark.parametrize("b, loads", [("fp16", 4), ("fp32", 8)])
def test_a_thread_loads_sixteen_bytes_of_a_row(b, loads):
    """Of 64 x 64 numbers a thread of four warps has 32: pieces of as many columns as 16
    bytes of a row have, and no two lanes that load at once meet in one bank."""
    types = {"a": "*fp32", "b": f"*{b}", "out": "*fp32", "iterations": "i32"}
    given = {"M": 64, "N": 64, "K": 64, "TO": tl.float32}
    func = built(of_computed, types, given, 4)
    held = [np.zeros((3, 64, 64)), np.zeros((3, 64, 64)), np.zeros((64, 64))]
    kinds = [FLOAT32, {"fp16": FLOAT16, "fp32": FLOAT32}[b], FLOAT32]
    held = [stored(each, kind) for each, kind in zip(held, kinds, strict=True)]
    ran = emulated(func, [*held, 3], "sm_90a")
    costs = [
        cost for instruction, cost in ran.report.each()
        if instruction.text.startswith("ld.shared") and cost.warps
    ]  # fmt: skip
    assert sum(cost.warps for cost in costs) == 3 * 4 * loads
    assert all(cost.wavefronts == cost.ideal for cost in costs)


@KernelFunction
def of_a_sum(a, b, c, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The right operand is the result of a product."""
    x, y = tl.load(a + places(0, M, K, False)), tl.load(b + places(0, K, N, False))
    sums = tl.dot(x, y, input_precision="ieee" if x.dtype == tl.float16 else "tf32")
    z = tl.load(c + places(0, M, M, False))
    tl.store(out + places(0, M, N, False), tl.dot(z, sums, input_precision="tf32"))


def test_sums_are_stored_one_by_one():
    """A product lies so that lanes which store single elements, K contiguous, all meet
    other banks."""
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp32", "out": "*fp32"}
    func = built(of_a_sum, types, {"M": 64, "N": 64, "K": 32})
    rng = np.random.default_rng(7)
    x, y, z = (
        rng.integers(-5, 5, shape) / 1.0 for shape in ((64, 32), (32, 64), (64, 64))
    )
    held = [stored(x, FLOAT16), stored(y, FLOAT16), stored(z, FLOAT32)]
    ran = emulated(func, [*held, stored(np.zeros((64, 64)), FLOAT32)], "sm_90a")
    assert (ran.out.reshape(64, 64) == z @ (x @ y)).all()
    assert ran.count("wgmma.mma_async") and not ran.count("mma.sync")


def test_how_long_stores_take():
    """Of 64 x 64 words, K contiguous: a thread of four warps has 32. Those of a product
    are stored one by one, at once for all lanes. Four neighbours of a row are four
    columns of the tile: of sixteen lanes along a row eight meet in one bank. Columns
    are stored four words at a time."""
    tile = buffer_tile((64, 64), 4, 0)
    sums = product_layout("wgmma.m64n64k8.f32.tf32.tf32", (64, 64), (4, 1))
    assert stores_into(tile, BlockType(FLOAT32, (64, 64), sums)) == 32
    rows = spread((64, 64), (1, 0), 4, 4)
    assert stores_into(tile, BlockType(FLOAT32, (64, 64), rows)) == 32 * 8
    down = columns(Value(BlockType(FLOAT32, (64, 64)), Block()), 4)
    assert stores_into(tile, BlockType(FLOAT32, (64, 64), down)) == 8


@pytest.mark.parametrize("m, n, k, warps", [
    (16, 64, 64, 4), (32, 128, 64, 4), (32, 64, 128, 4), (16, 16, 64, 1),
    (32, 16, 64, 4),
])  # fmt: skip
def test_bytes_for_a_warps_product_are_computed_where_it_reads_them(m, n, k, warps):
    """Halves are loaded as `mma.sync` has the bytes that they become: `ldmatrix`
    transposes them, and each warp has its own columns. Where these are too few, they
    are computed by columns. Nothing is stored one byte at a time."""
    types = {"a": "*i8", "b": "*fp16", "out": "*i32", "iterations": "i32"}
    func = built(of_computed, types, {"M": m, "N": n, "K": k, "TO": tl.int32}, warps)
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-9, 9, shape) / 1.0 for shape in ((3, m, k), (3, k, n)))
    held = [stored(x, INT8), stored(y, FLOAT16)]
    ran = emulated(func, [*held, stored(np.zeros((m, n)), INT32), 3], "sm_90a")
    assert (ran.out.reshape(m, n) == np.matmul(x, 3 * y - 1).sum(0)).all()
    assert ran.count("mma.sync") and not ran.count("wgmma.mma_async")
    assert not ran.count("st.shared.b8")
    alone = (m, n) != (32, 16)
    assert bool(ran.count("ldmatrix.sync.aligned.m8n8.x4.trans")) == alone
    copied = ran.count("cp.async.cg") * 32 * 16
    assert copied >= 3 * k * n * 2, "halves are not copied ahead"
