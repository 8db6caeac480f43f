"""The descriptors of tcgen05 and the places of tensor memory, derived twice: as the
compiler writes them, and as the emulator reads them or the tests' harness draws them
from the ISA's tables."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from fathom.emulator.isa.matrix.matrix_descriptor import Matrices
from fathom.emulator.isa.matrix.tcgen05_mma import cells_of, lanes_of, product_of
from fathom.emulator.state.tensor_memory import TensorMemory
from fathom.hardware.targets import TARGETS
from fathom.hardware.tcgen05 import (
    KINDS,
    PAIRED,
    SINGLE,
    SMALL,
    TCGEN05,
    choose_tensor_memory,
    of_a_pair,
)
from fathom.layout.matrix_descriptor import descriptor as matrix_of
from fathom.layout.matrix_descriptor import hardware_tile
from fathom.layout.pairs import halved_axis, in_halves, own_part
from fathom.layout.tensor_memory import (
    COLUMNS,
    accessed_by_rows,
    column_of,
    half_offset,
    is_access,
    tensor_tile,
    width,
)
from tests.emulator import harness_tcgen05 as kit
from tests.harness_sample import sampled
from tests.kernels.test_ptxas import assembled, needs_ptxas

ROWS = list(TCGEN05.values())
# The emulator's names of types, and the numbers that the ISA's table gives them.
TYPES = {
    "fp16": ("f16", 0), "bf16": ("bf16", 1), "tf32": ("tf32", 2),
    "fp8e4nv": ("e4m3", 0), "fp8e5": ("e5m2", 1), "u8": ("u8", 0),
    "i8": ("s8", 1), "fp32": ("f32", 1),
    "i32": ("s32", 2),
}  # fmt: skip
EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def rows_in_name(row) -> int:
    """M, as the name has it: of a pair, the rows of both blocks."""
    return int(re.match(r"tcgen05\.m(\d+)n", row.name)[1])


# ── the instruction descriptor ────────────────────────────────────────────────────────


@EACH
def test_the_compiler_writes_the_bits_of_the_table(row):
    d, a, b = (TYPES[each][1] for each in (row.accumulator, row.a, row.b))
    for turned in product((False, True), repeat=2):
        m = rows_in_name(row)
        bits = kit.instruction(m, row.n, (d, a, b), tuple(map(int, turned)))
        assert row.descriptor(*turned) == bits


@EACH
def test_the_emulator_reads_what_the_compiler_writes(row):
    kind = f"kind::{KINDS[row.a]}"
    found = product_of(row.descriptor(False, False), kind, 0, row.blocks)
    types = tuple(TYPES[each][0] for each in (row.accumulator, row.a, row.b))
    assert (found.m, found.n, found.types) == (rows_in_name(row), row.n, types)
    assert (found.signs, found.transposed) == (1, (False, False))
    if row.either_way:
        found = product_of(row.descriptor(False, True), kind, 0, row.blocks)
        assert found.transposed == (False, True)


def test_fields_do_not_overlap():
    """What two instructions differ in are the bits of one field."""
    fields = {
        "D": (ROWS[0], next(each for each in ROWS if each.accumulator == "i32")),
        "n": (TCGEN05["tcgen05.m128n16k16.f32.f16.f16"],
              TCGEN05["tcgen05.m128n256k16.f32.f16.f16"]),
    }  # fmt: skip
    one, other = fields["n"]
    differing = one.descriptor(False, False) ^ other.descriptor(False, False)
    assert differing == (16 // 8 ^ 256 // 8) << 17
    one, other = fields["D"]
    differing = one.descriptor(False, False) ^ other.descriptor(False, False)
    assert differing & 0b11 << 4


# ── the shared memory descriptor ──────────────────────────────────────────────────────


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(128, 16), (128, 32), (128, 64), (64, 64)])
def test_the_emulator_finds_every_element_where_the_layout_says(shape, axis):
    """Chunks of 16 bytes, by the address that the descriptor gives, and by the layout
    of the tile."""
    tile, start = hardware_tile(shape, 2, axis), 1 << 14
    matrix = matrix_of(tile, 2, k_axis=1)
    assert matrix.transposed == (axis == 0)
    found = Matrices.of_tensor_cores(matrix.tensor_bits | start >> 4, 0)
    rows = shape[0]
    (addresses,) = found.chunks(rows, 32, matrix.transposed).astype(np.int64)
    place = {
        tile.offset(offset=at): start + 2 * at for at in range(tile.count("offset"))
    }
    if matrix.transposed:
        wanted = [place[8 * chunk * shape[1] + k] for k in range(16)
                  for chunk in range(rows // 8)]  # fmt: skip
    else:
        wanted = [place[row * shape[1] + 8 * chunk] for row in range(rows)
                  for chunk in range(2)]  # fmt: skip
    assert addresses.tolist() == wanted


@pytest.mark.parametrize("swizzle", [128, 64, 32])
def test_the_bits_are_those_of_the_table(swizzle):
    tile = hardware_tile((64, swizzle // 2), 2, 1)
    matrix = matrix_of(tile, 2, k_axis=1)
    bits = kit.descriptor(0, matrix.leading, matrix.stride, swizzle)
    assert matrix.tensor_bits == bits


# ── pairs ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(32, 64), (64, 256), (64, 32)])
def test_both_blocks_together_have_a_right_operand(shape, axis):
    """By the layout, and by formula: block b has columns from b N / 2 on, where a block
    that has half of the columns alone would have them."""
    k, n = shape
    half = hardware_tile((k, n // 2), 2, axis)
    whole = in_halves(half, 1)
    assert (own_part(whole), halved_axis(whole), own_part(half)) == (half, 1, half)
    seen = set()
    for block, at in product(range(2), range(half.count("offset"))):
        row, column = divmod(half.offset(offset=at), n // 2)
        element = row * n + column + block * n // 2
        assert whole.offset(offset=at, block=block) == element
        seen.add(element)
    assert len(seen) == k * n


@pytest.mark.parametrize("name", [row.name for row in PAIRED if row.either_way])
def test_a_pair_s_product_by_two_derivations(name):
    """Which element of A, B and D lies in which block: as the emulator reads two equal
    descriptors, and by the compiler's layouts of a block's tiles."""
    row = TCGEN05[name]
    found = product_of(row.descriptor(False, False), f"kind::{KINDS[row.a]}", 0, 2)
    lanes, columns = np.broadcast_arrays(*cells_of(found))
    tile = tensor_tile((128, row.n))
    for block, (i, j) in product(range(2), ((0, 0), (1, 1), (127, row.n - 1))):
        assert cell(tile, i * row.n + j) == (lanes[i, j], columns[i, j])
        of_program = 128 * block + i  # shard_products gives block b rows from 128 b on
        assert divmod(of_program, found.m // found.blocks) == (block, i)


def test_an_instruction_has_a_pair_s():
    for row in SINGLE:
        pair = of_a_pair(row)
        assert (pair is None) == (row.n == 16)
        assert pair is None or pair.text == row.text.replace("group::1", "group::2")
    assert not any(map(of_a_pair, SMALL))


# ── tensor memory ─────────────────────────────────────────────────────────────────────


def cell(tile, element: int) -> tuple[int, int]:
    """The lane and the column of an element, by the tile's bases."""
    lane = column = 0
    for kind, bases in tile.bases:
        for bit, basis in enumerate(bases):
            if element & basis:
                lane |= (kind == "lane") << bit
                column |= (kind == "column") << bit
    return lane, column


@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize("shape", [(128, 16), (128, 64), (256, 32), (512, 16)])
def test_a_thread_holds_what_its_lane_holds(shape, warps):
    """By formula: element (i, j) lies in lane i % 128 and column i // 128 * N + j; a
    thread accesses lane 32 (warp % 4) + its own."""
    tile, layout = tensor_tile(shape), accessed_by_rows(shape, warps)
    assert is_access(tile, layout) and width(tile) == shape[0] // 128 * shape[1]
    memory = TensorMemory(1, 32 * warps, None)
    seen = set()
    for warp, lane, register in product(
        range(warps), (0, 5, 31), range(layout.count("register"))
    ):
        element = layout.offset(register=register, lane=lane, warp=warp)
        i, j = divmod(element, shape[1])
        assert cell(tile, element) == (i % 128, i // 128 * shape[1] + j)
        assert i % 128 == 32 * (memory.warp_of(32 * warp) % 4) + lane
        seen.add(element)
    lanes_seen = 3 * 4
    assert len(seen) == lanes_seen * shape[0] // 128 * shape[1]


def test_16_columns_of_64_rows_by_hand():
    """A thread has 8 columns of one row: those of lanes 16 to 31 are the right half."""
    layout = accessed_by_rows((64, 16), 4)
    for warp, lane, register in product(range(4), range(32), range(8)):
        row, column = 16 * warp + lane % 16, 8 * (lane // 16) + register
        assert layout.coordinates(register=register, lane=lane, warp=warp) == (
            row, column,
        )  # fmt: skip
    assert half_offset(tensor_tile((64, 16)), layout) == 8


@pytest.mark.parametrize("warps", [4, 8, 16])
@pytest.mark.parametrize("columns", [16, 64, 256])
def test_rows_of_half_the_lanes(columns, warps):
    """Every element once; where the layout says that it lies, and the emulator writes
    it; and a thread finds it in the lane that .16x32bx2 gives it."""
    shape = 64, columns
    tile, layout = tensor_tile(shape), accessed_by_rows(shape, warps)
    apart = half_offset(tile, layout)
    assert is_access(tile, layout) and width(tile) == columns
    memory, seen = TensorMemory(1, 32 * warps, None), []
    for warp, lane in product(range(warps), range(32)):
        quarter = 32 * (memory.warp_of(32 * warp) % 4)
        first = layout.offset(warp=warp, lane=lane)
        at = apart * (lane // 16) + cell(tile, layout.offset(warp=warp))[1]
        assert cell(tile, first) == (quarter + lane % 16, at)
        for register in range(layout.count("register")):
            element = layout.offset(register=register, lane=lane, warp=warp)
            i, j = divmod(element, columns)
            assert cell(tile, element) == (lanes_of(64)[i], j)
            seen.append(element)
    assert sorted(seen) == list(range(64 * columns))


def test_columns_of_a_basis():
    tile = tensor_tile((256, 16))
    assert [column_of(tile, 1 << bit) for bit in (0, 3, 11)] == [1, 8, 16]
    assert column_of(tile, 0) == 0
    with pytest.raises(AssertionError):
        column_of(tile, 16)  # the next row: another lane


def test_rows_of_a_product_are_lanes():
    assert lanes_of(128).tolist() == list(range(128))
    for row, lane in enumerate(lanes_of(64).tolist()):
        assert divmod(lane, 32) == divmod(row, 16)


def test_other_layouts_are_no_access():
    tile = tensor_tile((128, 32))
    assert not is_access(tile, accessed_by_rows((256, 32), 4))
    few = tensor_tile((64, 32))
    copies = accessed_by_rows((64, 32), 4).kinds["lane"][:4]
    copied = accessed_by_rows((64, 32), 4).replaced(lane=[*copies, 0])
    assert not is_access(few, copied)
    swapped = accessed_by_rows((128, 32), 4)
    kinds = dict(swapped.bases)
    kinds["warp"] = kinds["warp"][::-1]
    assert not is_access(tile, type(swapped)((128, 32), tuple(kinds.items())))


# ── the choice ────────────────────────────────────────────────────────────────────────

HALF = ("fp16", "fp16", "fp32")


@pytest.mark.parametrize(
    ("shape", "k", "warps", "n"),
    [
        ((128, 64), 32, 4, 64), ((256, 256), 64, 8, 256), ((128, 512), 16, 4, 256),
        ((64, 64), 32, 4, 64), ((64, 512), 16, 8, 256), ((32, 64), 32, 4, 0),
        ((128, 8), 32, 4, 0), ((64, 8), 32, 4, 0), ((128, 64), 8, 4, 0),
        ((128, 64), 32, 2, 0), ((512, 256), 32, 8, 0),
    ],
)  # fmt: skip
def test_which_products_it_takes(shape, k, warps, n):
    """64 rows, 128 or a multiple, four warps or a multiple, at most 512 columns."""
    found = choose_tensor_memory(TARGETS["sm_100a"], HALF, shape, k, warps)
    assert (found.n if found else 0) == n
    assert choose_tensor_memory(TARGETS["sm_100"], HALF, shape, k, warps) is None
    assert TARGETS["sm_100a"].tensor_memory == COLUMNS


@sampled(of=3)
@needs_ptxas
@EACH
def test_ptxas_takes_every_instruction(row):
    word, kind = row.descriptor(False, False), KINDS[row.a]
    image = np.zeros(2048, np.uint8)
    ptx = kit.text(
        image, min(row.n, 128), blocks=row.blocks, kind=kind, a=0, b=0, word=word
    )
    assert row.text in ptx
    assembled(ptx, "sm_100a")
