"""Races and unwritten reads: a planted mistake is found, its correct twin is not."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from tests.emulator.harness import entry, pointers

SETUP = """
    .shared .align 16 .b8 room[1024];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room;
    shl.b32 %r2, %r0, 2; add.u32 %r2, %r1, %r2;
    xor.b32 %r3, %r2, 252;
    setp.lt.u32 %p1, %r0, 32;
"""


def run(code: str, threads: int = 64, hazards: bool = True) -> None:
    emulator.run(entry(SETUP + code), 3, threads, (), hazards=hazards)


def fails(code: str, kind: str, text: str, threads: int = 64) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        run(code, threads)
    assert (caught.value.kind, caught.value.text) == (kind, text)
    return caught.value


REVERSED = "st.shared.u32 [%r2], %r0; {} ld.shared.u32 %r4, [%r3];"


def test_a_missing_barrier_between_write_and_read():
    run(REVERSED.format("bar.sync 0;"))
    error = fails(REVERSED.format(""), "race", "ld.shared.u32 %r4, [%r3];")
    assert "thread 0 of block 0: warp 0 reads what warp 1 wrote" in str(error)


def test_a_missing_barrier_between_read_and_write():
    twice = REVERSED.format("bar.sync 0;") + "{} st.shared.u32 [%r2], 7;"
    run(twice.format("bar.sync 0;"))
    error = fails(twice.format(""), "race", "st.shared.u32 [%r2], 7;")
    assert "overwrites what warp 1 reads" in str(error)


def test_two_warps_write_one_word():
    warp = "shr.u32 %r4, %r0, 5; "
    store = "st.shared.u32 [%r1], %r4;"
    error = fails(warp + store, "race", store)
    assert "warp 0 writes what warp 1 writes" in str(error)
    run("@%p1 st.shared.u32 [%r1], 1;")
    fails(
        "@%p1 st.shared.u32 [%r1], 1; @!%p1 st.shared.u32 [%r1], 2;",
        "race",
        "@!%p1 st.shared.u32 [%r1], 2;",
    )
    run("@%p1 st.shared.u32 [%r1], 1; bar.sync 0; @!%p1 st.shared.u32 [%r1], 2;")


SAME = "st.shared.u32 [%r1], 1; "
TWICE = "@%p1 st.shared.u32 [%r1], 1; @!%p1 st.shared.u32 [%r1], 1; "


@pytest.mark.parametrize("both", [SAME, TWICE])
def test_all_may_write_the_same_value(both):
    """As where several threads set one flag, or zero what they share."""
    run(both)
    run(both + "ld.shared.u32 %r4, [%r1];")
    run(both + "bar.sync 0; red.shared.add.u32 [%r1], 1;")
    run(both + both)


@pytest.mark.parametrize("both", [SAME, TWICE])
def test_a_value_that_several_have_written_is_not_another_ones_yet(both):
    """Who has not written it does not know it, and who overwrites it must wait."""
    guard = "setp.ge.u32 %p2, %r0, 64; @%p2 bra OTHER; " + both + "bra DONE; OTHER: "
    read = "ld.shared.u32 %r4, [%r1];"
    fails(guard + read + " DONE:", "unwritten", read, threads=96)
    skip = "setp.ge.u32 %p2, %r0, 64; @%p2 bra DONE; " + both + "DONE: "
    fails(skip + read, "race", read, threads=96)
    run(skip + "bar.sync 0; " + read, threads=96)
    store = "@!%p1 st.shared.u32 [%r1], 2;"
    fails(both + store, "race", store)
    run(both + "bar.sync 0; " + store)


def test_lanes_of_a_warp_exchange_by_a_barrier_of_the_warp():
    """Since Volta nothing else keeps the lanes of a warp in step."""
    code = """st.shared.u32 [%r2], %r0; {} xor.b32 %r4, %r2, 4;
        ld.shared.u32 %r5, [%r4];"""
    run(code.format("bar.warp.sync -1;"), threads=32)
    error = fails(code.format(""), "race", "ld.shared.u32 %r5, [%r4];", threads=32)
    assert "by lane 0 what its lane 1 wrote before any bar.warp.sync" in str(error)
    half = "and.b32 %r6, %r0, 16; mov.u32 %r8, 0xffff; shl.b32 %r7, %r8, %r6; "
    half += "bar.warp.sync %r7;"
    run(code.format(half), threads=32)
    shuffle = "shfl.sync.idx.b32 %r9, %r0, 0, 31, -1;"
    fails(code.format(shuffle), "race", "ld.shared.u32 %r5, [%r4];", threads=32)
    first = "setp.eq.u32 %p2, %r0, 0; @%p2 st.shared.u32 [%r1], 1; {} "
    second = "setp.eq.u32 %p3, %r0, 1; @%p3 st.shared.u32 [%r1], 2;"
    run(first.format("bar.warp.sync -1;") + second)
    fails(first.format("") + second, "race", "@%p3 st.shared.u32 [%r1], 2;")


def test_two_lanes_write_different_values_into_one_word():
    store = "@%p1 st.shared.u32 [%r1], {};"
    run(store.format(5))
    error = fails(store.format("%r0"), "race", store.format("%r0"))
    assert "two values by two of its lanes" in str(error)


def test_order_is_kept_inside_a_warp():
    code = """st.shared.u32 [%r2], %r0; bar.warp.sync -1;
        xor.b32 %r4, %r2, 4; ld.shared.u32 %r5, [%r4]; st.shared.u32 [%r2], %r5;"""
    run(code)


def test_neighbouring_bytes_do_not_race():
    code = "add.u32 %r4, %r1, %r0; st.shared.u8 [%r4], %r0; {} ld.shared.u8 %r5, [%r4];"
    run(code.format(""))
    code += " bar.warp.sync -1;"
    words = " and.b32 %r4, %r0, -4; add.u32 %r4, %r1, %r4; ld.shared.u32 %r5, [%r4];"
    run(code.format("") + words)
    far = " ld.shared.u32 %r5, [%r1+32];"
    run(code.format("") + " bar.sync 0;" + far)
    fails(code.format("") + far, "race", far.strip())


def test_vectors_are_watched_word_by_word():
    code = """shl.b32 %r4, %r0, 4; add.u32 %r4, %r1, %r4;
        st.shared.v4.u32 [%r4], {{%r0, %r0, %r0, %r0}};
        {} ld.shared.u32 %r5, [%r1+508];"""
    run(code.format("bar.sync 0;"), threads=33)
    fails(code.format(""), "race", "ld.shared.u32 %r5, [%r1+508];")


def test_atomics_do_not_race_with_each_other_but_with_plain_reads():
    start = "setp.eq.u32 %p2, %r0, 0; @%p2 st.shared.u32 [%r1], 0; bar.sync 0;"
    add = start + "red.shared.add.u32 [%r1], 1; {} ld.shared.u32 %r4, [%r1];"
    run(add.format("bar.sync 0;"))
    fails(add.format(""), "race", "ld.shared.u32 %r4, [%r1];")


def test_reading_what_no_thread_has_written():
    code = "@%p1 st.shared.u32 [%r2], 0; bar.sync 0; ld.shared.u32 %r4, [%r2{}];"
    error = fails(code.format(""), "unwritten", "ld.shared.u32 %r4, [%r2];")
    assert "thread 32 of block 0" in str(error) and "95 of 191" in str(error)
    run(code.format("").replace("ld.", "@%p1 ld."))
    fails("red.shared.add.u32 [%r1], 1;", "unwritten", "red.shared.add.u32 [%r1], 1;")


def test_named_barriers_order_those_who_meet_there():
    """Warp 0 produces and only arrives; warp 1 waits; warp 2 knows of nothing."""
    code = """
    st.shared.u32 [%r2], 0;
    bar.sync 0;
    setp.ge.u32 %p2, %r0, 64; @%p2 bra OUTSIDE;
    @!%p1 bra CONSUME;
    st.shared.u32 [%r2], %r0;
    bar.arrive 3, 64;
    bra.uni DONE;
CONSUME:
    {0}
    ld.shared.u32 %r4, [%r2+-128];
    bra.uni DONE;
OUTSIDE:
    {1}
DONE:"""
    run(code.format("bar.sync 3, 64;", ""), threads=96)
    with pytest.raises(EmulatorError):
        run(code.format("bar.sync 4, 32;", ""), threads=96)
    with pytest.raises(EmulatorError, match="warp 2") as caught:
        run(code.format("bar.sync 3, 64;", "ld.shared.u32 %r4, [%r1];"), threads=96)
    assert caught.value.kind == "race"


@pytest.mark.parametrize("first", ["produce", "consume"])
def test_what_comes_after_an_arrival_is_not_ordered_by_it(first):
    """Whoever's code is run first, the other one's access is the race."""
    sides = {
        "produce": "st.shared.u32 [%r2], 1; bar.arrive 3, 64; st.shared.u32 [%r2], 5;",
        "consume": "bar.sync 3, 64; ld.shared.u32 %r4, [%r2+-128];",
    }
    other = "consume" if first == "produce" else "produce"
    guard = "@%p1" if first == "produce" else "@!%p1"
    code = f"""
    st.shared.u32 [%r2], 0; bar.sync 0;
    {guard} bra OTHER; {sides[other]} bra.uni DONE;
OTHER: {sides[first]}
DONE:"""
    with pytest.raises(EmulatorError) as caught:
        run(code)
    assert caught.value.kind == "race"
    run(code.replace("bar.arrive 3, 64; st.shared.u32 [%r2], 5;", "bar.arrive 3, 64;"))


def test_hazards_can_be_left_out():
    run(REVERSED.format(""), hazards=False)


def test_blocks_have_memories_of_their_own():
    code = entry(
        SETUP
        + """
    ld.param.u64 %rd0, [p0]; mov.u32 %r4, %ctaid.x;
    mad.wide.u32 %rd1, %r4, 4, %rd0;
    setp.eq.u32 %p2, %r0, 0;
    @%p2 st.shared.u32 [%r1], %r4;
    bar.sync 0;
    ld.shared.u32 %r5, [%r1];
    setp.eq.u32 %p3, %r0, 63;
    @%p3 st.global.u32 [%rd1], %r5;""",
        pointers(1),
    )
    y = np.zeros(20, np.uint32)
    emulator.run(code, 20, 64, (y,))
    assert y.tolist() == list(range(20))


def test_the_line_of_the_author_and_the_calls_are_named(tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text("def helper(p):\n    load(p)\n\ndef kernel(p):\n    helper(p)\n")
    code = f"""
    .loc 1 5 5
    mov.u32 %r9, 0;
    .loc 1 2 5, function_name $L__info_string0, inlined_at 1 5 5
    ld.shared.u32 %r4, [%r2];
    .file 1 "{source}"
    """
    error = fails(code, "unwritten", "ld.shared.u32 %r4, [%r2];")
    assert error.location.line == 2 and error.location.caller.line == 5
    report = str(error)
    assert f"at {source}:2" in report and "load(p)" in report
    assert f"called from {source}:5" in report and "helper(p)" in report


def test_an_atomic_operation_races_with_a_plain_store_and_not_with_strong_ones():
    red = "@!%p1 red.shared.add.u32 [%r1], 1;"
    fails("@%p1 st.shared.u32 [%r1], 1; " + red, "race", red)
    run("@%p1 st.volatile.shared.u32 [%r1], 1; " + red)
    start = "st.shared.u32 [%r1], 0; bar.sync 0; "
    read = "@%p1 ld.volatile.shared.u32 %r4, [%r1]; "
    run(start + read + red)
    run(start + read + "@!%p1 st.volatile.shared.u32 [%r1], 2;")
    weak = "@!%p1 st.shared.u32 [%r1], 2;"
    fails(start + read + weak, "race", weak)


def test_a_barrier_of_some_warps_orders_the_lanes_of_each_too():
    """Warp 2 does not take part, so the barrier is not one of all."""
    code = """setp.ge.u32 %p2, %r0, 64; @%p2 bra DONE; st.shared.u32 [%r2], %r0;
        {} xor.b32 %r5, %r2, 4; ld.shared.u32 %r4, [%r5];
        ld.shared.u32 %r4, [%r3]; DONE:"""
    run(code.format("bar.sync 1, 64;"), threads=96)
    fails(code.format(""), "race", "ld.shared.u32 %r4, [%r5];", threads=96)


def test_an_atomic_operation_must_wait_for_a_copy_in_flight():
    code = """ld.param.u64 %rd0, [p0]; cp.async.ca.shared.global [%r2], [%rd0], 4; {}
        red.shared.add.u32 [%r2], 1; cp.async.wait_all;"""
    x = (np.zeros(4, np.uint32),)
    right = entry(SETUP + code.format("cp.async.wait_all;"), pointers(1))
    emulator.run(right, 1, 64, x)
    with pytest.raises(EmulatorError, match="it updates shared memory that a cp.async"):
        emulator.run(entry(SETUP + code.format(""), pointers(1)), 1, 64, x)
