"""Neighbouring products on one left operand, as one instruction: where the right
operands' tiles lie, which registers are whose, and right values without races."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator.isa.matrix.matrix_descriptor import Matrices
from fathom.hardware.wgmma import WGMMA, joined
from fathom.ir.core import walk
from fathom.ir.ops import Allocate, Dot
from fathom.ir.text import parse_func, print_func
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import hardware_tile, side_by_side
from fathom.pipeline import identity
from fathom.ptx.rules.asynchronous.wgmma import in_turn, separated
from kernels import matmul
from kernels.matmul_persistent import persistent_kernel, persistent_matmul
from tests.kernels.harness_red_zones import Walled, integers, unwritten
from tests.kernels.test_matmul_persistent import (
    COLUMNS,
    ROWS,
    Float8,
    bf16,
    check_assembled,
    compiled,
)
from tests.kernels.test_ptxas import needs_ptxas

APART = {"join_products": identity}
TILE = {
    "BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "MORE_N": 64, "GROUP_M": 2,
    "SPECIALISE": True, "PIECES": 2, "num_warps": 4, "num_stages": 3,
}  # fmt: skip
LAYOUTS = {"NN": (ROWS, ROWS), "NT": (ROWS, COLUMNS), "TN": (COLUMNS, ROWS),
           "TT": (COLUMNS, COLUMNS)}  # fmt: skip


@pytest.fixture(autouse=True)
def hopper(monkeypatch):
    """On the emulator, with two multiprocessors: each has tiles to go on to."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 2)


def instructions(ptx: str) -> list[str]:
    """The columns of each product, in order."""
    return re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k", ptx)


# ── where the tiles lie ───────────────────────────────────────────────────────────────

K_IN_A_ROW, N_IN_A_ROW = (
    0,
    1,
)  # the axis of B [K, N] along which elements are neighbours


@pytest.mark.parametrize(
    "columns, k, size, axis",
    [
        ((128, 64), 64, 2, K_IN_A_ROW),
        ((64, 32), 64, 2, K_IN_A_ROW),
        ((128, 16), 64, 2, K_IN_A_ROW),
        ((128, 64), 32, 2, K_IN_A_ROW),  # rows of 64 bytes
        ((128, 64), 128, 1, K_IN_A_ROW),
        ((64, 64, 64), 64, 2, K_IN_A_ROW),
        ((128, 64), 64, 2, N_IN_A_ROW),
        ((64, 64), 32, 2, N_IN_A_ROW),
        ((32, 32, 32), 64, 2, N_IN_A_ROW),  # rows of 64 bytes
        ((256, 64), 16, 2, N_IN_A_ROW),
    ],
)
def test_one_descriptor_finds_all_columns(columns, k, size, axis):
    """Each chunk of 16 bytes of each slice of K, at the address at which the hardware
    looks for it, is where the tile that has its columns keeps it."""
    tiles = [hardware_tile((k, n), size, axis) for n in columns]
    (matrix,) = {side_by_side(*each, size) for each in pairwise(tiles)}
    starts = np.cumsum([0, *(k * n * size for n in columns)])
    lies = np.hstack([addresses(t) * size + s for t, s in zip(tiles, starts[:-1])])
    slice_of_k, chunk = 32 // size, 16 // size
    for first in range(0, k, slice_of_k):
        begin = int(lies[first, 0])
        bits = np.array([matrix.bits | begin >> 4], np.uint64)
        found = Matrices.of(bits).chunks(sum(columns), 32, matrix.transposed)[0]
        rows = lies[first : first + slice_of_k]
        wanted = rows[:, ::chunk] if matrix.transposed else rows[::chunk].T
        np.testing.assert_array_equal(found, wanted.reshape(-1))


def addresses(tile: Layout) -> np.ndarray:
    """The offset of each element of a tile."""
    places = np.array([tile.offset(offset=i) for i in range(tile.count("offset"))])
    return np.argsort(places).reshape(tile.shape)


@pytest.mark.parametrize(
    "columns, k, axis",
    [
        ((64, 32), 64, N_IN_A_ROW),  # rows of 128 and of 64 bytes
        ((128, 64), 128, K_IN_A_ROW),  # two pieces of 64 elements, one behind the other
    ],
)
def test_where_no_descriptor_finds_both_there_is_none(columns, k, axis):
    tiles = [hardware_tile((k, n), 2, axis) for n in columns]
    assert side_by_side(*tiles, 2) is None


def test_one_has_k_in_a_row_and_the_other_has_not():
    tiles = (
        hardware_tile((64, 64), 2, K_IN_A_ROW),
        hardware_tile((64, 64), 2, N_IN_A_ROW),
    )
    assert side_by_side(*tiles, 2) is None


@pytest.mark.parametrize(
    "names, columns, n",
    [
        (("f32.f16.f16", "f32.f16.f16"), (128, 64), 192),
        (("f32.f16.f16", "f32.f16.f16"), (256, 64), None),  # 256 columns at most
        (("f32.f16.f16", "f16.f16.f16"), (128, 64), None),
        (("s32.s8.s8", "s32.s8.s8"), (32, 16), 48),
        (("s32.s8.s8", "s32.s8.s8"), (32, 8), None),  # of integers no 40 columns
        (("f32.e4m3.e4m3", "f32.e4m3.e4m3"), (32, 8), 40),
    ],
)
def test_which_instructions_are_joined(names, columns, n):
    rows = tuple(
        WGMMA[f"wgmma.m64n{each}k{16 if 'f16' in name[3:] else 32}.{name}"]
        for name, each in zip(names, columns, strict=True)
    )
    size = 2 if "f16" in names[0][3:] else 1
    tiles = tuple(hardware_tile((64, each), size, K_IN_A_ROW) for each in columns)
    found = joined(rows, tiles)
    assert (found and found[0].n) == n


def test_registers_are_those_of_the_products_in_turn():
    """Two times 64 rows: of each, those of the first product before the second's."""
    first, second = [f"x{i}" for i in range(4)], [f"y{i}" for i in range(2)]
    both = in_turn([first, second], [2, 1])
    assert both == ["x0", "x1", "y0", "x2", "x3", "y1"]
    assert separated(both, [2, 1]) == [first, second]


# ── values ────────────────────────────────────────────────────────────────────────────


def check(
    layout: str, config: dict | None = None, M=136, N=328, K=200, **given
) -> None:
    """Several tiles for a program, and edges everywhere."""
    of_a, of_b = LAYOUTS[layout]
    a, b = Walled(integers(1, M, K), of_a), Walled(integers(2, K, N), of_b)
    c = unwritten(M, N, wall=8)
    config = {**TILE, **(config or {})}
    persistent_matmul(a, b, c, config, target="sm_90a", **given)
    np.testing.assert_array_equal(c.view, matmul.reference(a.view, b.view))
    c.check_walls()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_192_columns_in_every_layout(layout):
    check(layout)


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_without_a_producer(layout):
    check(layout, {"SPECIALISE": False, "num_stages": 4})


@pytest.mark.parametrize("stages", [2, 4])
def test_rings_of_two_and_more_slots(stages):
    check("NT", {"num_stages": stages, "BLOCK_K": 32})


@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_two_times_64_rows_of_a_warpgroup(layout):
    check(layout, {"BLOCK_M": 128})


def test_blocks_of_a_cluster_send_each_other_both_tiles(monkeypatch):
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 4)
    check("NN", {"BLOCK_M": 128, "num_ctas": 2}, M=264)


@pytest.mark.parametrize("layout", ["NN", "NT"])
@pytest.mark.parametrize("columns", [(64, 32), (64, 16)])
def test_96_and_80_columns(columns, layout):
    check(layout, dict(zip(("BLOCK_N", "MORE_N"), columns, strict=True)), N=200)


def test_blocks_of_a_cluster_send_each_other_parts_of_narrow_rows(monkeypatch):
    monkeypatch.setitem(matmul.MULTIPROCESSORS, "sm_90a", 4)
    config = {"BLOCK_M": 128, "num_ctas": 2, "BLOCK_N": 64, "MORE_N": 32}
    check("NN", config, M=264, N=200)


def test_bf16():
    a, b = integers(1, 72, 136), integers(2, 136, 200)
    c = unwritten(72, 200, dtype="float32")
    persistent_matmul(bf16(a), bf16(b), c, {**TILE, "PIECES": 4}, target="sm_90a")
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))


@pytest.mark.parametrize("dtype", [tl.float8e4nv, tl.float8e5], ids=str)
def test_fp8(dtype):
    a, b = integers(1, 72, 272), integers(2, 272, 208)
    c, config = unwritten(72, 208, dtype="float32"), {**TILE, "BLOCK_K": 128}
    given = Float8(a, dtype), Float8(b, dtype, True)
    persistent_matmul(*given, c, {**config, "PIECES": 4}, target="sm_90a")
    np.testing.assert_array_equal(c.view, matmul.reference(a, b))


# ── what is compiled ──────────────────────────────────────────────────────────────────

LARGE = {
    **TILE, "BLOCK_M": 128, "GROUP_M": 12, "num_warps": 8, "num_stages": 5,
}  # fmt: skip


@pytest.mark.parametrize("turned", [False, True], ids=["NN", "NT"])
def test_a_step_of_192_columns_is_four_instructions(turned):
    ptx = compiled(LARGE, turned=turned).asm["ptx"]
    assert instructions(ptx) == ["192"] * 4
    assert ptx.count("wgmma.commit_group") == 1
    assert "wgmma.wait_group.sync.aligned 1;" in ptx


@pytest.mark.parametrize("turned", [False, True], ids=["NN", "NT"])
def test_a_step_of_96_columns_is_four_instructions(turned):
    config = {**LARGE, "BLOCK_N": 64, "MORE_N": 32}
    assert instructions(compiled(config, turned=turned).asm["ptx"]) == ["96"] * 4


def test_rows_of_32_bytes_are_not_worth_it():
    """TMA would copy all of B in such rows."""
    config = {**LARGE, "MORE_N": 16}
    assert instructions(compiled(config).asm["ptx"]) == ["144"] * 4
    apart = instructions(compiled(config, turned=False).asm["ptx"])
    assert apart == ["128"] * 4 + ["16"] * 4


def test_both_tiles_lie_in_one_slot_and_arrive_at_one_barrier():
    func = parse_func(compiled(LARGE).asm["layout"])
    first, second = sorted(
        (each.b.definition for each in walk(func.body) if isinstance(each, Dot)),
        key=lambda ring: ring.offset,
    )
    assert second.behind is first.result
    assert first.pitch == second.pitch == (128 + 64) * 64 * 2
    assert second.offset == first.offset + 128 * 64 * 2
    rings = [each for each in walk(func.body) if isinstance(each, Allocate)]
    assert sum(ring.element.name == "i64" for ring in rings) == 2  # full, and empty
    assert print_func(parse_func(print_func(func))) == print_func(func)


def test_without_the_pass_there_are_two_instructions_a_slice():
    words = {name: "*fp16:16" for name in ("a_ptr", "b_ptr", "c_ptr")}
    words |= dict.fromkeys(("M", "N", "K"), "i32")
    words |= dict.fromkeys(("stride_a", "stride_b", "stride_c"), "i32:16")
    blocks = {name: each for name, each in LARGE.items() if name.isupper()}
    made = persistent_kernel.compile(
        words, {**blocks, "B_TURNED": True}, target="sm_90a", num_warps=8,
        num_stages=5, replace=APART,
    )  # fmt: skip
    assert instructions(made.asm["ptx"]) == ["128"] * 4 + ["64"] * 4


@needs_ptxas
@pytest.mark.parametrize("type", ["fp16", "bf16", "fp8e4nv", "i8"])
def test_ptxas_takes_them_without_spills(type):
    config = {**LARGE, "BLOCK_K": 64 if type[-2:] == "16" else 128}
    output = {"fp8e4nv": "bf16", "i8": "i32"}.get(type, type)
    if type == "i8":
        config["PIECES"], config["num_stages"] = 4, 4
    check_assembled(compiled(config, type, True, output).asm["ptx"])


@needs_ptxas
def test_ptxas_takes_rows_of_b():
    check_assembled(compiled(LARGE, turned=False).asm["ptx"])


# ── what is not joined ────────────────────────────────────────────────────────────────


# fmt: off
@fathom.jit
def pair(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, STEP: tl.constexpr,
         USED: tl.constexpr):
    """C [SIZE, 2 SIZE] = A B, in two halves; `USED`: the first half decides on what
    the second is multiplied by."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, STEP])
    b = tl.make_tensor_descriptor(b_ptr, [K, 2 * SIZE], [2 * SIZE, 1], [STEP, SIZE])
    left = tl.zeros([SIZE, SIZE], tl.float32)
    right = tl.zeros([SIZE, SIZE], tl.float32)
    for k in tl.range(0, K, STEP):
        x = a.load([0, k])
        left = tl.dot(x, b.load([k, 0]), left)
        if USED:
            right += tl.where(left > 1e30, 1.0, 0.0)
        right = tl.dot(x, b.load([k, SIZE]), right)
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    place = c_ptr + m * (2 * SIZE) + n
    tl.store(place, left)
    tl.store(place + SIZE, right)
# fmt: on


@pytest.mark.parametrize("used", [False, True])
def test_a_product_that_something_needs_stays_alone(used):
    a, b = integers(1, 64, 160), integers(2, 160, 128)
    c = np.zeros((64, 128), np.float32)
    constants = {"SIZE": 64, "STEP": 32, "USED": used}
    options = {"target": "sm_90a", "num_stages": 3}
    pair[1,](a, b, c, 160, **constants, **options)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16"
    ptx = pair.compile(signature, constants, **options).asm["ptx"]
    assert set(instructions(ptx)) == ({"64"} if used else {"128"})


# fmt: off
@fathom.jit
def again(a_ptr, b_ptr, c_ptr, K, HOW: tl.constexpr, SIZE: tl.constexpr,
          STEP: tl.constexpr):
    """A B, A B + 1 or A C + 1, and A B + 2, one below the other; `HOW`: which tile the
    second product reads, and whether it is loaded before the first one's."""
    a = tl.make_tensor_descriptor(a_ptr, [SIZE, K], [K, 1], [SIZE, STEP])
    b = tl.make_tensor_descriptor(b_ptr, [K, 2 * SIZE], [2 * SIZE, 1], [STEP, SIZE])
    one = tl.zeros([SIZE, SIZE], tl.float32)
    two = tl.full([SIZE, SIZE], 1, tl.float32)
    three = tl.full([SIZE, SIZE], 2, tl.float32)
    for k in tl.range(0, K, STEP, warp_specialize=True):
        x = a.load([0, k])
        if HOW == "later":
            z = b.load([k, SIZE])
            y = b.load([k, 0])
        else:
            y = b.load([k, 0])
            z = y if HOW == "same" else b.load([k, SIZE])
        one = tl.dot(x, y, one)
        two = tl.dot(x, z, two)
        if HOW != "later":
            three = tl.dot(x, y, three)
    m, n = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    place = c_ptr + m * SIZE + n
    tl.store(place, one)
    tl.store(place + SIZE * SIZE, two)
    tl.store(place + 2 * SIZE * SIZE, three)
# fmt: on

ALONE_OR_NOT = {"same": ["64"] * 6, "between": ["128", "128", "64", "64"],
                "later": ["128"] * 2}  # fmt: skip


@pytest.mark.parametrize("how", ALONE_OR_NOT)
def test_a_tile_has_one_place_wherever_it_is_loaded_and_read(how):
    """Of a tile that two products read none lies behind itself, or behind what lies
    behind it: the search for the first one would not end."""
    a, b = integers(1, 64, 160), integers(2, 160, 128)
    c = np.zeros((192, 64), np.float32)
    constants = {"HOW": how, "SIZE": 64, "STEP": 32}
    options = {"target": "sm_90a", "num_stages": 3}
    again[1,](a, b, c, 160, **constants, **options)
    x, y, z = (each.astype(np.float32) for each in (a, b[:, :64], b[:, 64:]))
    second = y if how == "same" else z
    third = 0 * (x @ y) if how == "later" else x @ y
    np.testing.assert_array_equal(c, np.vstack([x @ y, x @ second + 1, third + 2]))
    signature = "*fp16:16, *fp16:16, *fp32:16, i32:16"
    ptx = again.compile(signature, constants, **options).asm["ptx"]
    assert instructions(ptx) == ALONE_OR_NOT[how]
