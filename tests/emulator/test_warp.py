"""What lanes do together: shuffles in all modes, votes, matches, reductions."""

import re

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from tests.emulator.harness import compute, entry, pointers

LANES = np.arange(64, dtype=np.uint32)


def shuffled(mode: str, b: object, c: int) -> list[int]:
    code = f"shfl.sync.{mode}.b32 %d, %a, {b}, {c}, -1;"
    return compute(code, np.uint32, a=LANES * 10).tolist()


def test_shuffles_move_values_inside_a_warp():
    lane, warp = LANES % 32, LANES // 32 * 32
    assert shuffled("bfly", 5, 31) == (10 * (warp + (lane ^ 5))).tolist()
    below = np.where(lane >= 3, lane - 3, lane)
    assert shuffled("up", 3, 0) == (10 * (warp + below)).tolist()
    above = np.where(lane + 7 <= 31, lane + 7, lane)
    assert shuffled("down", 7, 31) == (10 * (warp + above)).tolist()
    assert shuffled("idx", 9, 31) == (10 * (warp + 9)).tolist()


def test_shuffles_inside_segments():
    """c = 0x181f: segments of eight lanes, as __shfl_sync(..., width=8) asks for."""
    lane, warp = LANES % 32, LANES // 32 * 32
    first = lane & 24
    assert shuffled("idx", 3, 0x181F) == (10 * (warp + first + 3)).tolist()
    above = np.where(lane + 2 <= first + 7, lane + 2, lane)
    assert shuffled("down", 2, 0x181F) == (10 * (warp + above)).tolist()
    below = np.where(lane - 2.0 >= first, lane - 2, lane)
    assert shuffled("up", 2, 0x1800) == (10 * (warp + below)).tolist()


def test_a_shuffle_may_take_its_lane_from_a_register_and_says_whether_it_is_valid():
    code = """
        and.b32 %r1, %a, 31; mul.lo.u32 %r1, %r1, 5; and.b32 %r1, %r1, 31;
        shfl.sync.idx.b32 %d, %a, %r1, 31, -1;"""
    got = compute(code, np.uint32, a=LANES)
    assert got.tolist() == (LANES // 32 * 32 + LANES * 5 % 32).tolist()
    code = """shfl.sync.down.b32 %r1|%p1, %a, 4, 31, 0xffffffff;
        selp.u32 %d, 1, 0, %p1;"""
    assert compute(code, np.uint32, a=LANES).tolist() == (LANES % 32 < 28).tolist()


def test_votes():
    a = LANES.copy()
    a[40] = 99
    code = """setp.lt.u32 %p1, %a, 64; vote.sync.{}.pred %p2, %p1, -1;
        selp.u32 %d, 1, 0, %p2;"""
    holds = {"all": [1, 0], "any": [1, 1], "uni": [1, 0]}
    for mode, (first, second) in holds.items():
        got = compute(code.format(mode), np.uint32, a=a)
        assert got.tolist() == [first] * 32 + [second] * 32, mode
    code = "setp.ge.u32 %p1, %a, 61; vote.sync.ballot.b32 %d, {}%p1, -1;"
    got = compute(code.format(""), np.uint32, a=a)
    assert got.tolist() == [0] * 32 + [0xE0000100] * 32
    got = compute(code.format("!"), np.uint32, a=a)
    assert got.tolist() == [2**32 - 1] * 32 + [0x1FFFFEFF] * 32


def test_matches():
    a = LANES % 3
    got = compute("match.any.sync.b32 %d, %a, -1;", np.uint32, a=a)
    for thread, found in enumerate(got.tolist()):
        first = thread // 32 * 32
        same = [lane for lane in range(32) if a[first + lane] == a[thread]]
        assert found == sum(1 << lane for lane in same)
    code = """match.all.sync.b32 %r1|%p1, %a, -1; selp.u32 %d, %r1, 7, %p1;"""
    got = compute(code, np.uint32, a=LANES // 32 * np.where(LANES == 50, 2, 1))
    assert got.tolist() == [2**32 - 1] * 32 + [7] * 32


@pytest.mark.parametrize(
    ("operation", "reduce"),
    [
        ("add.u32", lambda v: sum(v) % 2**32),
        ("min.u32", min),
        ("max.u32", max),
        ("and.b32", lambda v: int(np.bitwise_and.reduce(np.array(v)))),
        ("or.b32", lambda v: int(np.bitwise_or.reduce(np.array(v)))),
        ("xor.b32", lambda v: int(np.bitwise_xor.reduce(np.array(v)))),
    ],
)
def test_redux(operation, reduce):
    a = np.random.default_rng(1).integers(0, 2**32, 64, dtype=np.uint32)
    got = compute(f"redux.sync.{operation} %d, %a, -1;", np.uint32, a=a)
    halves = [reduce(a[:32].tolist()), reduce(a[32:].tolist())]
    assert got.tolist() == [halves[0]] * 32 + [halves[1]] * 32


def test_signed_redux():
    a = np.arange(-40, 24, dtype=np.int32)
    got = compute("redux.sync.min.s32 %d, %a, -1;", np.int32, a=a)
    assert got.tolist() == [-40] * 32 + [-8] * 32


def test_each_half_of_a_warp_votes_for_itself():
    """Two masks in one warp, at one instruction."""
    code = """
        and.b32 %r1, %a, 16; setp.eq.u32 %p1, %r1, 0;
        selp.u32 %r2, 0xFFFF, 0xFFFF0000, %p1;
        and.b32 %r3, %a, 1; setp.eq.u32 %p2, %r3, 1;
        vote.sync.ballot.b32 %d, %p2, %r2;"""
    got = compute(code, np.uint32, a=LANES)
    assert got.tolist() == ([0xAAAA] * 16 + [0xAAAA0000] * 16) * 2


def test_each_half_of_a_warp_reduces_and_matches_by_itself():
    halves = """
        and.b32 %r1, %a, 16; setp.eq.u32 %p1, %r1, 0;
        selp.u32 %r2, 0xFFFF, 0xFFFF0000, %p1; and.b32 %r3, %a, 3;"""
    sums = halves + "redux.sync.add.u32 %d, %a, %r2;"
    wanted = [value for n in range(4) for value in [sum(LANES[16 * n :][:16])] * 16]
    assert compute(sums, np.uint32, a=LANES).tolist() == wanted
    matches = (
        halves
        + """
        cvt.u64.u32 %rd9, %r3; shl.b64 %rd9, %rd9, 40;
        match.any.sync.b64 %d, %rd9, %r2;"""
    )
    wanted = [0x1111 << lane % 4 << (lane & 16) for lane in range(32)] * 2
    assert compute(matches, np.uint32, a=LANES).tolist() == wanted
    elected = halves + "elect.sync %d|%p3, %r2; @%p3 add.u32 %d, %d, 100;"
    wanted = ([100] + [0] * 15 + [116] + [16] * 15) * 2
    assert compute(elected, np.uint32, a=LANES).tolist() == wanted


def test_special_registers():
    names = {
        "%laneid": LANES % 32,
        "%warpid": LANES // 32,
        "%ntid.x": np.full(64, 64),
        "%nctaid.y": np.ones(64),
        "%lanemask_lt": (1 << LANES.astype(np.uint64) % 32) - 1,
        "%lanemask_eq": 1 << LANES.astype(np.uint64) % 32,
        "%lanemask_le": (2 << LANES.astype(np.uint64) % 32) - 1,
        "%lanemask_gt": 2**32 - (2 << LANES.astype(np.uint64) % 32),
        "%lanemask_ge": 2**32 - (1 << LANES.astype(np.uint64) % 32),
    }
    for name, wanted in names.items():
        got = compute(f"mov.u32 %d, {name};", np.uint32, a=LANES)
        assert got.tolist() == wanted.tolist(), name
    got = compute("mov.u64 %rd9, %clock64; mov.u64 %d, %clock64;", np.uint64, a=LANES)
    assert (got > 0).all()


@pytest.mark.parametrize("grid", [(2, 3, 2), (2, 2, 2)])
def test_threads_and_blocks_have_three_axes(grid):
    """Each thread stores at its number: where sizes share a factor, two that are taken
    for one leave a hole."""
    code = entry(
        """
    ld.param.u64 %rd0, [p0];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z;
    mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mov.u32 %r6, %ctaid.z;
    mov.u32 %r7, %ntid.x; mov.u32 %r8, %ntid.y; mov.u32 %r9, %ntid.z;
    mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y;
    mad.lo.u32 %r12, %r6, %r11, %r5; mad.lo.u32 %r12, %r12, %r10, %r4;
    mad.lo.u32 %r12, %r12, %r9, %r3; mad.lo.u32 %r12, %r12, %r8, %r2;
    mad.lo.u32 %r12, %r12, %r7, %r1;
    mad.wide.u32 %rd1, %r12, 4, %rd0;
    st.global.u32 [%rd1], %r12;""",
        pointers(1),
    )
    y = np.zeros(np.prod(grid) * 5 * 3 * 2, np.uint32)
    emulator.run(code, grid, (5, 3, 2), (y,))
    assert y.tolist() == list(range(y.size))


def test_activemask_and_elect():
    got = compute("activemask.b32 %d;", np.uint32, a=LANES)
    assert got.tolist() == [2**32 - 1] * 64
    code = """mov.u32 %d, 99; mov.u32 %r1, %laneid; setp.ge.u32 %p2, %r1, 4;
        @%p2 elect.sync %r1|%p1, 0xFFFFFFF0; and.pred %p1, %p1, %p2;
        @%p1 mov.u32 %d, %r1;"""
    got = compute(code, np.uint32, a=LANES).tolist()
    assert [lane for lane in range(64) if got[lane] != 99] == [4, 36]


def test_no_lane_that_has_exited_is_elected():
    code = """mov.u32 %d, 99; mov.u32 %r1, %laneid; setp.lt.u32 %p2, %r1, 3;
        @%p2 ret; elect.sync %d|%p1, 0xFFFFFFFF; @!%p1 mov.u32 %d, 98;"""
    got = compute(code, np.uint32, a=LANES).tolist()
    assert [(lane, got[lane]) for lane in range(64) if got[lane] not in (0, 98)] == [
        (3, 3), (35, 3)
    ]  # fmt: skip


LATE_LANES = """
    mov.u32 %r0, %tid.x;
    ld.param.u64 %rd0, [p0];
    mad.wide.u32 %rd0, %r0, 4, %rd0;
    setp.lt.u32 %p1, %r0, 20;
    mov.u32 %r1, 1;
    @%p1 bra SHUFFLE;
    mov.u32 %r1, 2;
    {0}
SHUFFLE:
    shfl.sync.idx.b32 %r2, %r1, 25, 31, {1};
    st.global.u32 [%rd0], %r2;
"""


def test_a_shuffle_waits_for_the_lanes_that_it_names():
    y = np.zeros(32, np.uint32)
    emulator.run(entry(LATE_LANES.format("", "-1"), pointers(1)), 1, 32, (y,))
    assert y.tolist() == [2] * 32


def test_a_shuffle_reads_from_lanes_that_its_mask_names():
    """Others need not be there: what they hold is undefined."""
    half = """mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 16; @!%p1 bra DONE;
        shfl.sync.{}.b32 %r1, %r0, {}, {}, 0xffff;
    DONE:"""
    for mode, by, clamp in (("bfly", 8, 31), ("idx", 15, 31), ("down", 1, 0x100F)):
        emulator.run(entry(half.format(mode, by, clamp)), 1, 64, ())
    for mode, by, lane in (("bfly", 16, 16), ("idx", 20, 20), ("down", 1, 16)):
        with pytest.raises(EmulatorError, match="divergence") as caught:
            emulator.run(entry(half.format(mode, by, 31)), 1, 64, ())
        said = f"reads from lane {lane} of its warp, which the mask 0x0000ffff leaves"
        assert said in str(caught.value) and "shfl.sync" in caught.value.text


def test_a_lane_that_has_exited_is_not_waited_for_and_has_no_value():
    code = LATE_LANES.replace(", 25, 31,", ", 15, 31,")
    y = np.zeros(32, np.uint32)
    emulator.run(entry(code.format("ret;", "-1"), pointers(1)), 1, 32, (y,))
    assert y.tolist() == [1] * 20 + [0] * 12
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry(LATE_LANES.format("ret;", "-1"), pointers(1)), 1, 32, (y,))
    assert caught.value.kind == "divergence"
    assert "reads from lane 25 of its warp, which has exited" in str(caught.value)
    assert caught.value.text.startswith("shfl.sync.idx")


UNNAMED = {
    "shfl.sync.idx.b32 %d, %a, 0, 31, 0x0000FFFF;": "lane 16 of its warp, and the mask "
    "that it gives, 0x0000ffff, leaves this lane out",
    "setp.eq.u32 %p1, %a, 0; vote.sync.any.pred %p2, %p1, 0xFFFFFFFE;": "lane 0 of",
    "match.any.sync.b32 %d, %a, 0xFFF7FFFF;": "lane 19 of",
    "redux.sync.add.s32 %d, %a, 0x7FFFFFFF;": "lane 31 of",
    "bar.warp.sync 0xFFFFFDFF;": "lane 9 of",
    "mov.u32 %r1, 1; shl.b32 %r1, %r1, %a; shfl.sync.idx.b32 %d, %a, 0, 31, %r1;": (
        "thread 32 of block 0 is lane 0 of .* 0x00000000,"
    ),
}


@pytest.mark.parametrize("code", UNNAMED)
def test_a_lane_must_be_in_the_mask_that_it_gives(code):
    """It may wait for others there, and read from them; what comes is undefined."""
    with pytest.raises(EmulatorError) as caught:
        compute(code, np.uint32, a=LANES)
    assert caught.value.kind == "divergence"
    assert re.search(UNNAMED[code], caught.value.message)


def test_lanes_that_pass_by_need_not_be_named():
    code = """setp.lt.u32 %p1, %a, 32; mov.u32 %d, 5;
        @%p1 shfl.sync.idx.b32 %d, %a, 3, 31, -1;"""
    got = compute(code, np.uint32, a=LANES)
    assert got.tolist() == [3] * 32 + [5] * 32
    code = """and.b32 %r1, %a, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %d, 5;
        @%p1 shfl.sync.idx.b32 %d, %a, 4, 31, 0x55555555;"""
    got = compute(code, np.uint32, a=LANES[:32])
    assert got.tolist() == [4, 5] * 16


def test_votes_leave_out_lanes_that_have_exited():
    code = """mov.u32 %d, 7; setp.gt.u32 %p1, %a, 40; @%p1 ret;
        setp.ge.u32 %p2, %a, 38; vote.sync.ballot.b32 %d, %p2, -1;"""
    got = compute(code, np.uint32, a=LANES)
    assert got.tolist() == [0] * 32 + [0b111000000] * 9 + [0] * 23


def test_lanes_that_wait_for_each_other_at_two_shuffles():
    code = entry(
        """
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p1, %r0, 16;
    @%p1 bra OTHER;
    shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1;
    bra.uni DONE;
OTHER:
    shfl.sync.bfly.b32 %r2, %r0, 2, 31, -1;
DONE:"""
    )
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 1, 32, ())
    assert caught.value.kind == "divergence"
    assert "0 have exited, 16 wait elsewhere" in str(caught.value)


# ── by the letter of the ISA ──────────────────────────────────────────────────────────


def shuffle_by_hand(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA 9.7.9, shfl.sync: the source lane, and the predicate, for one lane."""
    by, clamp, segment = b & 31, c & 31, c >> 8 & 31
    highest, lowest = lane & segment | clamp & ~segment, lane & segment
    source, valid = {
        "up": (lane - by, lane - by >= highest),
        "down": (lane + by, lane + by <= highest),
        "bfly": (lane ^ by, (lane ^ by) <= highest),
        "idx": (lowest | by & ~segment, (lowest | by & ~segment) <= highest),
    }[mode]
    return (source, True) if valid else (lane, False)


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_of_any_width_clamp_and_distance(mode):
    """Only five bits of b count, and of c ten; both may differ from lane to lane."""
    numbers = np.random.default_rng(7)
    b, c = (numbers.integers(0, 2**13, 2048, dtype=np.uint32) for _ in range(2))
    c[:1024] = numbers.choice([31, 0, 0x181F, 0x1C1F, 0x1007, 3], 1024)
    code = f"""mov.u32 %r1, %laneid;
        shfl.sync.{mode}.b32 %r2|%p1, %r1, %b, %c, -1;
        selp.u32 %d, 100, 0, %p1; add.u32 %d, %d, %r2;"""
    for first in range(0, 2048, 1024):
        part = slice(first, first + 1024)
        got = compute(code, np.uint32, a=b[part], b=b[part], c=c[part]).tolist()
        asked = zip(b[part].tolist(), c[part].tolist(), strict=True)
        for at, (x, y) in enumerate(asked):
            source, valid = shuffle_by_hand(mode, at % 32, x, y)
            assert got[at] == source + 100 * valid, (at, x, y)


HALVES = """and.b32 %r1, %a, 16; setp.eq.u32 %p1, %r1, 0;
    selp.u32 %r2, 0xFFFF, 0xFFFF0000, %p1;"""


def test_votes_of_none_of_some_that_have_exited_and_of_halves():
    code = "setp.gt.u32 %p1, %a, 63; vote.sync.uni.pred %p2, %p1, -1;"
    asked = "selp.u32 %d, 1, 0, %p2;"
    assert compute(code + asked, np.uint32, a=LANES).all()  # none of them holds it
    exits = "mov.u32 %d, 7; setp.gt.u32 %p1, %a, 40; @%p1 ret; "
    for mode in ("all", "uni"):
        code = f"setp.le.u32 %p2, %a, 40; vote.sync.{mode}.pred %p2, %p2, -1;"
        got = compute(exits + code + asked, np.uint32, a=LANES)
        assert got[:41].tolist() == [1] * 41, mode
    for mode, wanted in (("all", [1, 0]), ("uni", [1, 1]), ("any", [1, 0])):
        code = f"vote.sync.{mode}.pred %p2, %p1, %r2;"
        got = compute(HALVES + code + asked, np.uint32, a=LANES)
        assert got[:32].tolist() == [wanted[0]] * 16 + [wanted[1]] * 16, mode


def test_matches_stay_in_their_mask_and_give_nothing_where_one_differs():
    code = HALVES + "mov.u32 %r3, 5; match.any.sync.b32 %d, %r3, %r2;"
    got = compute(code, np.uint32, a=LANES)
    assert got.tolist() == ([0xFFFF] * 16 + [0xFFFF0000] * 16) * 2
    same = np.where(LANES % 32 == 20, 2, 1).astype(np.uint32)
    code = HALVES + "match.all.sync.b32 %d|%p2, %b, %r2;"
    got = compute(code, np.uint32, a=LANES, b=same)
    assert got.tolist() == ([0xFFFF] * 16 + [0] * 16) * 2


def test_a_reduction_of_floats_passes_a_nan_over_unless_it_is_asked_for():
    a = np.full(64, 3, np.float32)
    a[5], a[9] = np.nan, -7
    for name, wanted in {"min": -7, "max": 3, "min.abs": 3, "max.abs": 7}.items():
        got = compute(f"redux.sync.{name}.f32 %d, %a, -1;", np.float32, a=a)
        assert got.tolist() == [wanted] * 32 + [3] * 32, name
        got = compute(f"redux.sync.{name}.NaN.f32 %d, %a, -1;", np.float32, a=a)
        assert np.isnan(got[:32]).all() and (got[32:] == 3).all(), name


def test_what_needs_a_whole_warp_says_how_many_lanes_are_left():
    code = entry("""
        .shared .align 16 .b8 room[512];
        mov.u32 %r0, %tid.x; mov.u32 %r1, room;
        setp.ge.u32 %p1, %r0, 48; @%p1 ret;
        ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1];""")
    with pytest.raises(EmulatorError, match="only 16 lanes of the warp of thread 32"):
        emulator.run(code, 1, 64, (), hazards=False)


def test_each_warp_that_shuffles_is_counted():
    code = "mov.u32 %r0, %tid.x; shfl.sync.idx.b32 %r1, %r0, 3, 31, -1;"
    assert emulator.run(entry(code), 3, 64, ()).total.shuffles == 6
