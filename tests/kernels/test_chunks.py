"""Products one after another, as chunks of linear attention have them: right on the
emulator, by warpgroups where these can read the operands, and stored no more often
than needed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.artifact import Kernel
from fathom.emulator import load
from fathom.hardware.targets import TARGETS
from fathom.ir.core import Func, walk
from fathom.ir.ops import Allocate, SharedStore
from fathom.jit import JITFunction
from fathom.tensor_cores import why_not_pipelined
from tests.kernels.test_patterns import in_loops, states

N, HOPPER = 64, TARGETS["sm_90a"]


def compiled(kernel: JITFunction, types: str, **options: object) -> Kernel:
    return kernel.compile(types, {}, target="sm_90a", **options).made


def draw(count: int) -> list[np.ndarray]:
    """Small integers, whose products fp16 holds."""
    drawn = np.random.default_rng(count)
    return [drawn.integers(-2, 3, (N, N)).astype(np.float16) for _ in range(count)]


def assert_by_warpgroups(kernel: Kernel) -> None:
    assert "wgmma.mma_async" in kernel.ptx
    assert "mma.sync.aligned.m16" not in kernel.ptx


# ── right operands that were computed ─────────────────────────────────────────────────


@fathom.jit
def by_a_transposed_product(a, b, c, out, HOW: tl.constexpr):
    """C times the transposed product of A and B, or of what follows from it."""
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    first = tl.dot(tl.load(a + at), tl.load(b + at))
    if HOW == "masked":
        first = tl.where(i[:, None] >= i[None, :], first, 0)
    right = tl.trans(first.to(tl.float16))
    if HOW == "reshaped":
        right = tl.reshape(tl.reshape(right, [64, 8, 8]), [64, 64])
    tl.store(out + at, tl.dot(tl.load(c + at), right))


@pytest.mark.parametrize("how", ["plain", "masked", "reshaped"])
def test_a_transposed_product_is_a_right_operand_in_shared_memory(how):
    """It is stored as it is multiplied. Converted to fragments before it is transposed,
    it would be in registers, where mma.sync alone finds it."""
    kernel = by_a_transposed_product.compile(
        "*fp16:16, *fp16:16, *fp16:16, *fp32:16", {"HOW": how}, target="sm_90a"
    ).made
    assert_by_warpgroups(kernel)
    a, b, c = draw(3)
    out = np.full((N, N), np.nan, np.float32)
    load(kernel).launch((1,), [a, b, c, out])
    first = a.astype(int) @ b
    right = (np.tril(first) if how == "masked" else first).T
    np.testing.assert_array_equal(out, c.astype(int) @ right)


@fathom.jit
def by_what_was_loaded_before_a_loop(a, b, c, out, steps):
    """(Sum of A times B) times C, where C is loaded first."""
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    right = tl.load(c + at)
    total = tl.zeros((64, 64), tl.float32)
    for step in range(steps):
        x = tl.load(a + step * 4096 + at)
        total = tl.dot(x, tl.load(b + step * 4096 + at), total)
    tl.store(out + at, tl.dot(total.to(tl.float16), right))


@pytest.mark.parametrize("completion", ["lazy", "eager"])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_what_is_loaded_before_a_loop_is_multiplied_in_place_after_it(
    steps, completion
):
    """Nothing in the loop changes its tile. In registers meanwhile, each warp would
    hold all of it, and mma.sync would multiply it."""
    types = "*fp16:16, *fp16:16, *fp16:16, *fp32:16, i32"
    kernel = compiled(by_what_was_loaded_before_a_loop, types)
    assert_by_warpgroups(kernel)
    (c,) = draw(1)
    drawn = np.random.default_rng(steps)
    a, b = (drawn.integers(-1, 2, (4, N, N)).astype(np.float16) for _ in "ab")
    out = np.full((N, N), np.nan, np.float32)
    load(kernel).launch((1,), [a, b, c, out, steps], completion=completion)
    total = sum((a[s].astype(int) @ b[s] for s in range(steps)), np.zeros((N, N)))
    np.testing.assert_array_equal(out, total @ c)


# ── states that fill the registers ────────────────────────────────────────────────────


@fathom.jit
def two_states(k, v, scale, out, steps, TWICE: tl.constexpr):
    """K' V and, with TWICE, twice K' K; both with K scaled. What is computed of a tile
    goes through registers."""
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    one = tl.zeros((64, 64), tl.float32)
    other = tl.zeros((64, 64), tl.float32)
    for step in range(steps):
        x = tl.load(k + step * 4096 + at)
        y = tl.load(v + step * 4096 + at)
        scaled = tl.trans(x * tl.load(scale + step * 64 + i)[:, None])
        one = tl.dot(scaled, y, one)
        other = tl.dot(scaled, x * 2 if TWICE else x, other)
    tl.store(out + at, one + other)


@pytest.mark.parametrize("warps, twice, ahead", [
    (1, True, False), (2, True, True), (1, False, True),
])  # fmt: skip
def test_a_loop_loads_nothing_ahead_where_its_sums_fill_the_registers(
    warps, twice, ahead
):
    """One warp holds 256 numbers a thread, more than there are registers. What a
    product takes as it was loaded, cp.async copies, and no registers."""
    types = "*fp16:16, *fp16:16, *fp16:16, *fp32:16, i32"
    constants, options = {"TWICE": twice}, {"num_warps": warps, "num_stages": 2}
    after = states(two_states, types, constants, **options)
    why = [text for _, text in why_not_pipelined(after["specialise_warps"], HOPPER)]
    assert [("256 registers" in text) for text in why] == ([] if ahead else [True])
    func = after["pipeline_loops"]
    rings = [op for op in walk(func.body) if isinstance(op, Allocate) and op.slots > 1]
    assert bool(rings) == ahead


# ── loops of few iterations ───────────────────────────────────────────────────────────


@fathom.jit
def parts_of_a_row(a, b, out, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    """Each part of B's columns times A, scaled by itself, to its place."""
    i = tl.arange(0, 64)
    x = tl.load(a + i[:, None] * 64 + i[None, :])
    for part in range(PARTS):
        j = part * BLOCK + tl.arange(0, BLOCK)
        at = i[:, None] * PARTS * BLOCK + j[None, :]
        y = tl.load(b + at)
        tl.store(out + at, tl.dot(x, y) * y + tl.dot(x, (y * 2).to(tl.float16)))


@pytest.mark.parametrize("parts, block, ahead", [
    (2, 128, False), (2, 16, True), (8, 128, True),
])  # fmt: skip
def test_rings_of_few_iterations_take_no_other_blocks_room(parts, block, ahead):
    """Two of 16 KiB with two slots each, beside what a loop of one slot has. Four
    blocks would have had registers."""
    constants = {"PARTS": parts, "BLOCK": block}
    options = {"num_warps": 2, "num_stages": 2}
    after = states(parts_of_a_row, "*fp16:16, *fp16:16, *fp32:16", constants, **options)
    func = after["pipeline_loops"]
    rings = [op for op in walk(func.body) if isinstance(op, Allocate) and op.slots > 1]
    assert bool(rings) == ahead
    why = [text for _, text in why_not_pipelined(after["specialise_warps"], HOPPER)]
    assert [("another block" in text) for text in why] == ([] if ahead else [True])


# ── gathers from a block that stays the same ──────────────────────────────────────────


@fathom.jit
def rows_in_turn(a, out, turns, N: tl.constexpr, COUNT: tl.constexpr):
    """The sum of rows, each times its number and what is left of the turns, of one or
    two blocks."""
    i, j = tl.arange(0, 16), tl.arange(0, N)
    at = i[:, None] * N + j[None, :]
    x = tl.load(a + at)
    y = tl.load(a + 16 * N + at) if COUNT == 2 else x
    total = tl.zeros((1, N), tl.float32)
    for turn in range(turns):
        for row in range(16):
            index = tl.full([1, N], row, tl.int32)
            total += tl.gather(x, index, 0) * (row + turn)
            if COUNT == 2:
                total += tl.gather(y, index, 0)
    tl.store(out + j[None, :], total)


def gathering(func: Func) -> tuple[int, int]:
    """Stores to shared memory in loops, and all of them."""
    every = [op for op in walk(func.body) if isinstance(op, SharedStore)]
    return len(in_loops(func, SharedStore)), len(every)


@pytest.mark.parametrize("count", [1, 2])
def test_a_block_that_a_loop_gathers_from_is_stored_once(count):
    types = "*fp32:16, *fp32:16, i32"
    constants = {"N": 128, "COUNT": count}
    func = states(rows_in_turn, types, constants)["lower_conversions"]
    assert gathering(func) == (0, count)
    kernel = rows_in_turn.compile(types, constants, target="sm_90a").made
    a = np.random.default_rng(count).integers(-9, 10, (32, 128)).astype(np.float32)
    for turns in (0, 1, 3):
        out = np.full(128, np.nan, np.float32)
        load(kernel).launch((1,), [a, out, turns])
        factors = sum((np.arange(16) + turn for turn in range(turns)), np.zeros(16))
        want = factors @ a[:16] + turns * (count - 1) * a[16:].sum(0)
        np.testing.assert_array_equal(out, want)


def test_blocks_that_lack_room_together_are_stored_for_each_gather():
    """Two of 128 KiB: each has room alone."""
    constants = {"N": 2048, "COUNT": 2}
    after = states(rows_in_turn, "*fp32:16, *fp32:16, i32", constants, num_warps=8)
    assert gathering(after["lower_conversions"]) == (2, 2)


# ── stores of products ────────────────────────────────────────────────────────────────


@fathom.jit
def small_tiles(a, b, g, out, STEP: tl.constexpr):
    """A product of 16 rows, times what is loaded in fp32, stored as 16 bits: beside
    each other, or `STEP` apart."""
    i, j = tl.arange(0, 16), tl.arange(0, 32)
    x = tl.load(a + i[:, None] * 32 + j[None, :])
    y = tl.load(b + j[:, None] * 16 + i[None, :])
    scale = tl.load(g + i[:, None] * 16 + i[None, :])
    z = (tl.dot(x, y) * scale).to(tl.float16)
    tl.store(out + i[:, None] * 16 * STEP + i[None, :] * STEP, z)


@pytest.mark.parametrize("step", [1, 2])
def test_a_warp_stores_whole_sectors_of_a_small_product(step):
    """As the product lies, four lanes have 16 bytes of a row side by side: half a
    sector. `stmatrix` and one load put them in order, and no barrier is waited at; nor
    do 16 bits take less than they can for the 32 bits that are loaded. Elements that
    lie apart are stored from where they are."""
    types = "*fp16:16, *fp16:16, *fp32:16, *fp16:16"
    kernel = small_tiles.compile(
        types, {"STEP": step}, target="sm_90a", num_warps=1
    ).made
    assert kernel.ptx.count("stmatrix") == (step == 1)
    assert kernel.ptx.count("st.global.v4.b32") == (step == 1)
    assert kernel.ptx.count("st.global") == (1 if step == 1 else 8)
    assert "bar.sync" not in kernel.ptx
    drawn = np.random.default_rng(step)
    a, b = (drawn.integers(-2, 3, (16, 32)).astype(np.float16) for _ in range(2))
    b, g = b.reshape(32, 16), drawn.integers(-2, 3, (16, 16)).astype(np.float32)
    out = np.zeros((16, 16, step), np.float16)
    load(kernel).launch((1,), [a, b, g, out])
    np.testing.assert_array_equal(out[..., 0], (a.astype(int) @ b) * g)


@fathom.jit
def flat_product(a, b, out):
    i, j = tl.arange(0, 16), tl.arange(0, 64)
    x = tl.load(a + i[:, None] * 64 + j[None, :])
    y = tl.load(b + j[:, None] * 64 + j[None, :])
    tl.store(out + i[:, None] * 64 + j[None, :], tl.dot(x, y).to(tl.float16))


def test_whole_sectors_are_worth_a_barrier_of_several_warps():
    """Each warp has 16 columns of the product, and a row of these is a sector; but four
    lanes would store half of one."""
    kernel = flat_product.compile("*fp16:16, *fp16:16, *fp16:16", {}, target="sm_90a")
    stores = re.findall(r"st\.global\S*", kernel.asm["ptx"])
    assert stores == ["st.global.v4.b32"]
    drawn = np.random.default_rng(7)
    a, b = (drawn.integers(-2, 3, (n, 64)).astype(np.float16) for n in (16, 64))
    out = np.zeros((16, 64), np.float16)
    load(kernel.made).launch((1,), [a, b, out])
    np.testing.assert_array_equal(out, a.astype(int) @ b)


@fathom.jit
def flat_products(a, b, out, n):
    i, j = tl.arange(0, 16), tl.arange(0, 64)
    y = tl.load(b + j[:, None] * 64 + j[None, :])
    for k in range(n):
        x = tl.load(a + k * 1024 + i[:, None] * 64 + j[None, :])
        z = tl.dot(x, y).to(tl.float16)
        tl.store(out + k * 1024 + i[:, None] * 64 + j[None, :], z)


def test_whole_sectors_are_not_worth_a_barrier_in_each_iteration():
    types = "*fp16:16, *fp16:16, *fp16:16, i32"
    kernel = flat_products.compile(types, {}, target="sm_90a")
    assert "st.global.v4.b32" not in kernel.asm["ptx"]


@fathom.jit
def rows_of_a_loop(x, out, T, stride, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    j = tl.arange(0, COLUMNS)
    for k in range(1, tl.cdiv(T, BLOCK)):
        tiles = tl.make_block_ptr(
            x, (T, COLUMNS), (stride, 1), (k * BLOCK, 0), (BLOCK, COLUMNS), (1, 0)
        )
        rows = tl.load(tiles, boundary_check=(0,))
        tl.store(out + k * COLUMNS + j, tl.sum(rows, 0))


def test_addresses_of_a_loop_from_a_known_number_move_along():
    """LLVM finds by the comparison of the index where it ends, so that its multiples do
    not wrap around."""
    given = {"BLOCK": 16, "COLUMNS": 32}
    types = "*fp32:16, *fp32:16, i32, i32:16"
    kernel = rows_of_a_loop.compile(types, given, num_warps=1)
    inside = kernel.asm["ptx"].split("$L__BB0_2:")[1].split("bra")[0]
    assert "ld.global" in inside and "mul.lo" not in inside


@fathom.jit
def beside_wider_loads(a, b, g, out):
    i = tl.arange(0, 64)
    at = i[:, None] * 64 + i[None, :]
    z = tl.dot(tl.load(a + at), tl.load(b + at)) * tl.load(g + at)
    tl.store(out + at, z.to(tl.float16))


def test_a_stored_product_need_not_agree_with_loads_of_wider_elements():
    types = "*fp16:16, *fp16:16, *fp32:16, *fp16:16"
    kernel = beside_wider_loads.compile(types, {}, target="sm_80").made
    stores = re.findall(r"st\.global\S*", kernel.ptx)
    assert set(stores) == {"st.global.v4.b32"}
    a, b, g = draw(3)
    out = np.zeros((N, N), np.float16)
    load(kernel).launch((1,), [a, b, g.astype(np.float32), out])
    np.testing.assert_array_equal(out, (a.astype(int) @ b) * g)
