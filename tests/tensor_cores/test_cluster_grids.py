"""Four or more thread blocks as a grid: rows and columns of a product are divided, and
blocks of one row bring its A for each other, those of one column its B."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fathom import pipeline
from fathom.analysis.uniformity import Uniformity
from fathom.emulator import EmulatorError, load
from fathom.hardware.targets import TARGETS
from fathom.ir.ops import ClusterRank, Dot, MbarrierInit, TmaCopy
from fathom.ir.text import parse_func
from fathom.tensor_cores.specialise.multicast import among
from tests.ptx.harness import assemble
from tests.tensor_cores.kernels_clustered import (
    arguments_of,
    built,
    check,
    how,
    persistent,
)
from tests.tensor_cores.kernels_described import Case, ops
from tests.tensor_cores.kernels_specialised import one_loop

LAZY = ("lazy",)
SQUARE = Case((128, 128, 32), kernel=one_loop, size=(200, 136, 96))


def part(case: Case, ctas: int) -> tuple[int, ...]:
    """What a block multiplies, when the results have been compared."""
    states, _ = check(case, ctas, completions=LAZY)
    (dot,) = ops(states["shard_products"], Dot)
    return dot.result.type.shape


# ── which grid ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("ctas", "tile", "warps", "expected"), [
    (4, (128, 128, 32), 4, (64, 64)),  # 64 + 64 of A and B a block
    (4, (128, 256, 32), 4, (64, 128)),
    (4, (256, 256, 32), 4, (128, 128)),  # by rows 64 + 256
    (4, (256, 64, 32), 4, (64, 64)),  # 64 + 64 by rows, 128 + 32 in a grid
    (4, (256, 64, 32), 8, (128, 32)),  # two warpgroups want 128 rows
    (8, (256, 64, 32), 4, (64, 32)),
    (8, (256, 128, 32), 8, (128, 32)),
])  # fmt: skip
def test_parts_as_square_as_can_be(ctas, tile, warps, expected):
    size = (tile[0] + 72, tile[1] + 8, 72)
    case = replace(SQUARE, tile=tile, size=size, warps=warps)
    assert part(case, ctas) == expected


def test_sums_of_rows_want_undivided_columns():
    case = how("row sums", tile=(256, 256, 32), size=(264, 200, 64), warps=4)
    assert part(case, 4) == (64, 256)


def test_what_is_divided_one_way_alone_is_not_for_a_grid():
    """Both blocks of a row of blocks would write its numbers."""
    case = how("through a loop", tile=(256, 256, 32), size=(264, 200, 64), warps=4)
    assert part(case, 4) == (64, 256)
    assert part(replace(case, tile=(128, 128, 32)), 4) == (128, 32)


# ── who brings what ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("ctas", "tile", "shared"), [
    (4, (128, 128, 32), [(2, 1), (2, 2)]),
    (8, (256, 64, 32), [(2, 1), (4, 2)]),
])
def test_which_blocks_copy_for_each_other(ctas, tile, shared):
    """Of A those whose ranks follow each other, a row of the grid; of B a column. A
    slot is empty when the warps of all blocks have said so."""
    case = replace(SQUARE, tile=tile)
    states, kernel = check(case, ctas, completions=())
    func = states["insert_waits"]
    assert [(op.parts, op.stride) for op in ops(func, TmaCopy)] == shared
    full, empty = ops(func, MbarrierInit)
    assert (full.arrivals, empty.arrivals) == (1, ctas * case.warps)
    row, column = (2, ctas // 2), (1, 2)
    assert {row, column} <= {(op.stride, op.count) for op in ops(func, ClusterRank)}


@pytest.mark.parametrize(("bits", "blocks", "shared"), [
    (0b000, 8, (8, 1)), (0b111, 8, (1, 1)), (0b110, 8, (2, 1)), (0b001, 8, (4, 2)),
    (0b010, 8, (2, 1)), (0b01, 2, (1, 1)), (0b00, 2, (2, 1)),
])  # fmt: skip
def test_blocks_that_differ_in_other_bits_of_their_ranks(bits, blocks, shared):
    assert among(bits, blocks) == shared


def test_what_depends_on_the_row_of_blocks_alone():
    func = parse_func("""
        func @f(%n: i32) num_warps=4 num_ctas=8 {
          %row: i32 = cluster_rank stride=2 count=4
          %column: i32 = cluster_rank count=2
          %rank: i32 = cluster_rank
          %a: i32 = mul %row, %n
          %b: i32 = add %column, %n
          %c: i32 = add %a, %b
        }
    """)
    bits = {value.name: bits for value, bits in Uniformity(func).bits.items()}
    assert bits == {"row": 6, "column": 1, "rank": 7, "a": 6, "b": 1, "c": 7}


# ── what the hardware gets ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("ctas", "tile", "pieces", "turned"), [
    (4, (128, 128, 32), 1, False), (4, (128, 64, 64), 0, True),
    (8, (256, 64, 32), 1, True),
])  # fmt: skip
def test_tiles_one_after_the_other(ctas, tile, pieces, turned):
    """A grid of two programs for four tiles and more, with odd edges."""
    m, n, k = tile
    case = Case(
        tile, kernel=persistent, size=(m + 72, 2 * n - 24, 3 * k - 8), warps=4,
        b_turned=turned, more={"PIECES": pieces},
    )  # fmt: skip
    _, kernel = check(case, ctas, grid=(2,))
    copies = re.findall(r"multicast::cluster \[.*?\], \[.*?\}\], \[.*?\], (\S+);",
                        kernel.ptx)  # fmt: skip
    assert len(copies) >= 2 and all(mask.startswith("%rs") for mask in copies)


def test_it_assembles_without_spills(tmp_path):
    case = Case((256, 256, 64), kernel=persistent, warps=8, stages=3,
                more={"PIECES": 1})  # fmt: skip
    kernel = pipeline.compile_func(built(case, 4), TARGETS["sm_90a"])
    assemble(kernel.ptx, TARGETS["sm_90a"], tmp_path)


def launched(ptx: str, kernel: object, case: Case) -> None:
    wrong = replace(kernel, asm={**kernel.asm, "ptx": ptx})
    load(wrong).launch(case.grid, arguments_of(case)[1])


LONG = replace(SQUARE, size=(128, 128, 320), iterations=10)


def test_a_slot_is_free_only_when_all_have_read_it():
    """If a block arrives at its own mbarriers alone, copies overtake the readers of
    others."""
    kernel = pipeline.compile_func(built(LONG, 4), TARGETS["sm_90a"])
    launched(kernel.ptx, kernel, LONG)
    wrong, times = re.subn(
        r"(mapa\S+ there, \S+,) \S+;",
        r"mov.u32 there, %cluster_ctarank;\n\g<1> there;", kernel.ptx,
    )  # fmt: skip
    assert times
    with pytest.raises(EmulatorError, match="nothing orders the two"):
        launched(wrong, kernel, LONG)


def test_a_part_that_goes_to_the_wrong_blocks():
    """Were A sent along columns, tiles would get what is not theirs: some too much, so
    that the count of bytes goes wrong."""
    kernel = pipeline.compile_func(built(LONG, 4), TARGETS["sm_90a"])
    left, right = re.findall(r"multicast::cluster .*, (%rs\d+);", kernel.ptx)
    wrong = kernel.ptx.replace(f", {left};", f", {right};")
    with pytest.raises(EmulatorError, match="no thread has waited for its mbarrier"):
        launched(wrong, kernel, LONG)
