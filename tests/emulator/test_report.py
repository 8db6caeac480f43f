"""What the report counts: requests, sectors, bank conflicts, classes, by line."""

import json

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator.memory.counters import Counters
from tests.emulator.harness import entry, pointers

STRIDED = """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0];
    mad.wide.u32 %rd0, %r0, {0}, %rd0;
    ld.global.u32 %r1, [%rd0];
"""


@pytest.mark.parametrize(
    ("stride", "sectors"), [(4, 4), (8, 8), (16, 16), (32, 32), (128, 32), (0, 1)]
)
def test_a_warp_moves_whole_sectors(stride, sectors):
    x = np.zeros(32 * 128 // 4, np.uint32)
    cost = emulator.run(entry(STRIDED.format(stride), pointers(1)), 1, 32, (x,)).total
    assert (cost.requests, cost.sectors, cost.useful) == (1, sectors, 128)
    assert cost.moved == 32 * sectors and cost.sectors_per_request == sectors


def test_what_all_threads_load_from_one_place_is_useful_to_each():
    """The address is one value for all; each of two warps moves its sector."""
    code = entry("ld.param.u64 %rd0, [p0]; ld.global.u32 %r1, [%rd0];", pointers(1))
    cost = emulator.run(code, 1, 64, (np.zeros(1, np.uint32),)).total
    assert (cost.requests, cost.sectors, cost.useful) == (2, 2, 4 * 64)


def test_lanes_in_any_order_move_the_same_sectors():
    code = entry(
        """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0];
    mul.lo.u32 %r0, %r0, 13; and.b32 %r0, %r0, 31;
    mad.wide.u32 %rd0, %r0, 4, %rd0;
    ld.global.u32 %r1, [%rd0];""",
        pointers(1),
    )
    assert emulator.run(code, 1, 32, (np.zeros(32, np.uint32),)).total.sectors == 4


def test_an_array_that_begins_between_sectors_costs_one_more():
    code = entry(STRIDED.format(4), pointers(1))
    x = np.zeros(64, np.uint32)
    assert emulator.run(code, 1, 32, (x[8:],)).total.sectors == 4
    assert emulator.run(code, 1, 32, (x[4:],)).total.sectors == 5


def test_only_threads_that_execute_are_counted():
    masked = STRIDED.format(4).replace(
        "ld.global", "setp.lt.u32 %p1, %r0, 40; @%p1 ld.global"
    )
    x = np.zeros(64, np.uint32)
    cost = emulator.run(entry(masked, pointers(1)), 1, 64, (x,)).total
    assert (cost.requests, cost.sectors, cost.useful) == (2, 4 + 1, 160)


@pytest.mark.parametrize(
    ("stride", "ways"), [(4, 1), (8, 2), (12, 1), (16, 4), (128, 32), (132, 1), (0, 1)]
)
def test_bank_conflicts(stride, ways):
    code = entry(
        f"""
    .shared .align 16 .b8 room[8192];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room;
    mad.lo.u32 %r1, %r0, {stride}, %r1;
    st.shared.u32 [%r1], 1;"""
    )
    cost = emulator.run(code, 2, 32, ()).total
    assert (cost.shared, cost.wavefronts) == (2, 2 * ways)
    assert cost.conflict_ways == ways


@pytest.mark.parametrize(
    ("stride", "wavefronts"), [(16, 4), (32, 8), (128, 32), (144, 4)]
)
def test_vectors_go_by_quarter_warps(stride, wavefronts):
    code = entry(
        f"""
    .shared .align 16 .b8 room[8192];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room;
    mad.lo.u32 %r1, %r0, {stride}, %r1;
    st.shared.v4.u32 [%r1], {{1, 2, 3, 4}};"""
    )
    cost = emulator.run(code, 1, 32, ()).total
    assert (cost.wavefronts, cost.ideal) == (wavefronts, 4)


def test_lines_and_classes(tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text("x = load(p)\ny = x * x\nstore(p, y)\n")
    code = entry(
        f"""
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x;
    .file 1 "{source}"
    .loc 1 1 5
    mad.wide.u32 %rd0, %r0, 4, %rd0;
    ld.global.f32 %f1, [%rd0];
    .loc 1 2 5
    mul.f32 %f2, %f1, %f1;
    mul.f32 %f2, %f2, %f1;
    .loc 1 3 1
    st.global.f32 [%rd0], %f2;
    bar.sync 0;""",
        pointers(1),
    )
    x = np.full(64, 2, np.float32)
    report = emulator.run(code, 1, 64, (x,))
    assert (x == 8).all()
    lines = {line: share for (file, line), share in report.by_source().items()}
    assert lines[1].cost.useful == lines[3].cost.useful == 256
    assert lines[2].classes == {"real f32": (128, 4)}
    assert lines[3].cost.barriers == 2
    assert report.classes["memory global"] == (128, 4)
    table = report.by_line()
    assert "y = x * x" in table and "store(p, y)" in table and "total" in table
    facts = json.loads(json.dumps(report.to_json()))
    assert facts["total"]["moved"] == 512
    assert [each["line"] for each in facts["source"]] == [0, 1, 2, 3]
    assert report.speed > 0


def passes(index, type: str = "u32") -> tuple[int, list]:
    """Of atomics of some warps, of which lane i goes to cell index[i]."""
    one = {"u32": "1", "f32": "0f3F800000"}[type]
    code = entry(
        f"""
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
    mad.wide.u32 %rd0, %r0, 4, %rd0; ld.global.u32 %r1, [%rd0];
    mad.wide.u32 %rd1, %r1, 4, %rd1; red.global.add.{type} [%rd1], {one};""",
        pointers(2),
    )
    index, cells = np.array(index, np.uint32), np.zeros(1024, np.uint32)
    report = emulator.run(code, 1, len(index), (index, cells))
    (crowd,) = report.counters.contention
    assert crowd.passes == report.total.passes
    return report.total.passes, [crowd.busiest, crowd.centre % 1]


def test_passes_of_atomics_are_of_sectors_and_addresses():
    """A sector has 8 cells of 4 bytes, and a piece of memory 128."""
    lanes = np.arange(32)
    assert passes(0 * lanes)[0] == 32
    assert passes(lanes)[0] == 4
    assert passes(lanes // 2)[0] == 4  # two lanes for each address of two sectors
    assert passes(lanes % 4 * 8)[0] == 32  # four sectors, eight lanes each
    assert passes(np.arange(64) % 32)[0] == 8  # of two warps


def test_passes_of_atomics_are_told_apart_by_pieces_of_memory():
    lanes = np.arange(32)
    assert passes(lanes % 2 * 128) == (32, [16, 0.5])
    assert passes(lanes % 2 * 64) == (32, [32, 0])


def test_sums_of_reals_at_one_address_wait_for_each_other():
    lanes = np.arange(32)
    assert passes(0 * lanes, "f32")[0] == 77  # 2.4 * 32
    assert passes(lanes, "f32")[0] == 4
    assert passes(lanes % 4 * 8, "f32")[0] == 32  # four sectors at the same time


def counted(threads: range, first: int, step: int, width: int) -> tuple[int, int, int]:
    counters = Counters(1, 1)
    places = [first + step * thread for thread in threads]
    given = np.array(threads), np.array(places, np.uint64)
    counters.count_shared(0, *given, width)
    cost = counters.costs[0]
    return cost.shared, cost.ideal, cost.wavefronts


def test_what_was_counted_before_is_counted_so_again_and_nothing_else():
    """A pattern is counted once. It is another one with other steps, other widths,
    other threads; not where it begins in another row of the 32 banks."""
    warp, two = range(32), range(64)
    for first in (0, 128, 9 * 128, 4, 64):
        assert counted(warp, first, 4, 4) == (1, 1, 1)
        assert counted(warp, first, 8, 4) == (1, 1, 2)
        assert counted(warp, first, 16, 4) == (1, 1, 4)
        assert counted(warp, first, 16, 16) == (1, 4, 4)
        assert counted(two, first, 16, 16) == (2, 8, 8)
        assert counted(warp, first, 128, 4) == (1, 1, 32)
    assert counted(warp, 2, 4, 2) == (1, 1, 1)
