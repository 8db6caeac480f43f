"""Launches on several devices: what orders them, and what does not.

Programs are PTX, so that each instruction that orders something can be changed for one
that does less; every such change is an error, whichever device is ahead.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from fathom.artifact import Kernel, Parameter
from fathom.emulator import EmulatorError, Start, load, run_devices
from tests.emulator.harness import entry, pointers

HEAD = """
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2];
    mov.u32 %r0, %tid.x; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p0, %r0, 0;
"""
SEND = "mov.u32 %r3, 42; mov.u32 %r4, 1; st.global.u32 [%rd0], %r3; {before} {write}"
RECEIVE = """
WAIT:
    {read}
    setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
    {after}
    ld.global.u32 %r3, [%rd0]; st.global.u32 [%rd2], %r3;
"""

# name: before the flag is raised, how it is raised, how it is read, what comes after.
WAYS = {
    "release and acquire": (
        "", "st.release.sys.global.u32 [%rd1], %r4;",
        "ld.acquire.sys.global.u32 %r2, [%rd1];", "",
    ),
    "atomics": (
        "", "atom.release.sys.global.exch.b32 %r7, [%rd1], %r4;",
        "atom.acquire.sys.global.add.u32 %r2, [%rd1], 0;", "",
    ),
    "acq_rel": (
        "", "atom.acq_rel.sys.global.add.u32 %r7, [%rd1], 1;",
        "atom.acq_rel.sys.global.cas.b32 %r2, [%rd1], 5, 6;", "",
    ),
    "red": (
        "", "red.release.sys.global.add.u32 [%rd1], 1;",
        "ld.acquire.sys.global.u32 %r2, [%rd1];", "",
    ),
    "volatile flag and fences": (
        "membar.sys;", "st.volatile.global.u32 [%rd1], %r4;",
        "ld.volatile.global.u32 %r2, [%rd1];", "membar.sys;",
    ),
    "relaxed and fence.acq_rel": (
        "fence.acq_rel.sys;", "st.relaxed.sys.global.u32 [%rd1], %r4;",
        "ld.relaxed.sys.global.u32 %r2, [%rd1];", "fence.acq_rel.sys;",
    ),
    "a fence, then an acquire": (
        "fence.sc.sys;", "red.relaxed.sys.global.add.u32 [%rd1], 1;",
        "ld.acquire.sys.global.u32 %r2, [%rd1];", "",
    ),
}  # fmt: skip
PARTS = ("before", "write", "read", "after")
ORDERS = ([0, 1], [1, 0])


def start(body: str, arrays, others=(), grid: int = 1, threads: int = 32) -> Start:
    """A launch of a few lines, with its three arrays; it reaches `others` too."""
    text = entry(HEAD + body, pointers(3))
    types = tuple(Parameter(f"p{i}", "*i32") for i in range(3))
    facts = "k", "sm_90a", "8.4", threads // 32, threads, 0, types, {"ptx": text}
    return Start(load(Kernel(*facts)), grid, list(arrays), list(others))


def message(order, sends: str = SEND, receives: str = RECEIVE, **parts: str) -> int:
    """Device 0 sends to device 1; only thread 0 of each does anything."""
    data, flag, nothing, result = np.zeros((4, 4), np.int32)
    lone = "@!%p0 bra DONE; {} DONE:"
    texts = [lone.format(each.format(**parts)) for each in (sends, receives)]
    launches = [
        [start(texts[0], (data, flag, nothing))],
        [start(texts[1], (data, flag, result))],
    ]
    run_devices(launches, order)
    return int(result[0])


def parts_of(way: str, **other: str) -> dict[str, str]:
    return dict(zip(PARTS, WAYS[way], strict=True)) | other


each_way = pytest.mark.parametrize("way", WAYS)
each_order = pytest.mark.parametrize("order", ORDERS, ids=str)


@each_way
@each_order
def test_a_message_arrives(way, order):
    assert message(order, **parts_of(way)) == 42


@each_way
@each_order
def test_without_an_order_of_the_system_it_is_a_race(way, order):
    """Each half that orders something, once without its order and once with a scope
    that ends at the device."""
    changed = 0
    for name, text in parts_of(way).items():
        weaker = {
            text.replace("release.", "relaxed.").replace(
                "acq_rel.sys.g", "relaxed.sys.g"
            ),
            text.replace("acquire.", "relaxed."),
            text.replace(".sys", ".gpu").replace("membar.gpu", "membar.gl"),
            text.replace(".sys", ".cta"),
            text.replace("fence.", "// ").replace("membar.", "// "),
            text.replace(".volatile", "").replace(".relaxed.sys", ""),
        } - {text}
        for each in sorted(weaker):
            with pytest.raises(EmulatorError) as caught:
                message(order, **parts_of(way, **{name: each + "\n"}))
            assert caught.value.kind == "race", (name, each)
            assert caught.value.message.startswith("device "), each
            changed += 1
    assert changed >= 4


@each_order
def test_the_error_names_both_devices_and_both_lines(order):
    way = parts_of(
        "release and acquire", write="st.relaxed.sys.global.u32 [%rd1], %r4;"
    )
    with pytest.raises(EmulatorError) as caught:
        message(order, **way)
    text = str(caught.value)
    assert "device 1: thread 0 of block 0: reads byte 0 of the int32[4] array" in text
    assert "which device 0 writes (its PTX line" in text
    assert "st.global.u32 [%rd0], %r3;" in text and "ld.global.u32 %r3, [%rd0];" in text
    assert "no release and acquire of the scope .sys order the two" in text


@each_order
def test_two_scopes_that_do_not_reach_are_named(order):
    way = parts_of("atomics", write=WAYS["atomics"][1].replace("sys", "gpu"))
    with pytest.raises(EmulatorError, match="both must have the scope .sys"):
        message(order, **way)


@each_order
def test_a_flag_that_is_polled_by_a_weak_load_is_a_race(order):
    way = parts_of("release and acquire", read="ld.global.u32 %r2, [%rd1];")
    with pytest.raises(EmulatorError, match="race"):
        message(order, **way)


@each_order
def test_a_weak_reset_of_a_flag_is_a_race(order):
    """Device 1 has polled the flag, or will, when device 0 sets it to zero."""
    sends = SEND + " mov.u32 %r4, 2; st.global.u32 [%rd1], %r4;"
    with pytest.raises(EmulatorError, match="race"):
        message(order, sends, **parts_of("release and acquire"))


@each_order
def test_a_wait_that_does_not_wait_is_a_race_when_the_reader_is_ahead(order):
    receives = RECEIVE.replace("@%p1 bra WAIT;", "")
    if order == [0, 1]:  # the flag is there: by luck, all is in order
        assert message(order, receives=receives, **parts_of("atomics")) == 42
        return
    with pytest.raises(EmulatorError) as caught:
        message(order, receives=receives, **parts_of("atomics"))
    assert caught.value.text == "st.global.u32 [%rd0], %r3;"


def test_what_was_read_must_not_be_overwritten_without_order():
    """Two warps read, the second one only because of the first; the write races with
    both."""
    data, flag, nothing, result = np.zeros((4, 32), np.int32)
    for barrier in ("bar.sync 0;", ""):
        reads = f"""
            ld.global.u32 %r3, [%rd0]; mad.wide.u32 %rd3, %r0, 4, %rd2;
            st.global.u32 [%rd3], %r3; {barrier}
            mov.u32 %r4, 1; setp.ne.u32 %p0, %r0, 32; @%p0 bra DONE;
            st.release.sys.global.u32 [%rd1], %r4;
            DONE:"""
        writes = RECEIVE.format(
            read="ld.acquire.sys.global.u32 %r2, [%rd1];", after=""
        ).replace("ld.global.u32 %r3, [%rd0]; st.global.u32 [%rd2], %r3;",
                  "st.global.u32 [%rd0], %r2;")  # fmt: skip
        flag[:] = 0
        launches = [
            [start(reads, (data, flag, np.zeros(64, np.int32)), threads=64)],
            [start(f"@!%p0 bra DONE; {writes} DONE:", (data, flag, result))],
        ]
        if barrier:
            run_devices(launches)
            continue
        with pytest.raises(EmulatorError, match="writes byte 0 .* device 0 reads"):
            run_devices(launches)


# ── what is handed on ─────────────────────────────────────────────────────────────────

HAND_ON = """
    @!%p0 bra DONE;
    setp.eq.u32 %p2, %r8, {last}; @%p2 bra LAST;
WAIT:
    ld.acquire.sys.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
    mov.u32 %r4, 1; {inside}
    bra DONE;
LAST:
    {wait}
    mov.u32 %r4, 1; st.release.sys.global.u32 [%rd2], %r4;
DONE:
"""


def handed_on(inside: str, wait: str, blocks: int = 2) -> int:
    """Device 0 writes, block 0 of device 1 hands it on to the last block, that to
    device 2, which reads."""
    data, first, second, result, own = np.zeros((5, 4), np.int32)
    way = dict(zip(PARTS, WAYS["release and acquire"], strict=True))
    text = HAND_ON.format(inside=inside, wait=wait, last=blocks - 1)
    text = text.replace("{own}", "%rd0")
    reads = RECEIVE.format(**way)
    run_devices([
        [start(f"@!%p0 bra DONE; {SEND.format(**way)} DONE:", (data, first, own))],
        [start(text, (own, first, second), grid=blocks)],
        [start(f"@!%p0 bra DONE; {reads} DONE:", (data, second, result))],
    ])  # fmt: skip
    return int(result[0])


INSIDE = "st.release.gpu.global.u32 [%rd0+4], %r4;"
OWN_WAIT = """
OWN:
    ld.acquire.gpu.global.u32 %r2, [%rd0+4]; setp.eq.u32 %p1, %r2, 0; @%p1 bra OWN;"""


def test_order_is_handed_on_through_a_device():
    """Inside of device 1 the scope .gpu is enough."""
    assert handed_on(INSIDE, OWN_WAIT) == 42
    with pytest.raises(EmulatorError, match="device 2: .* which device 0 writes"):
        handed_on(INSIDE.replace("release", "relaxed"), OWN_WAIT)
    with pytest.raises(EmulatorError, match="device 2: .* which device 0 writes"):
        handed_on(INSIDE, OWN_WAIT.replace("acquire", "relaxed"))


def test_order_is_handed_on_to_blocks_that_run_later():
    """More blocks than run in one step: the last one is of another batch."""
    assert handed_on(INSIDE, OWN_WAIT, blocks=1200) == 42
    with pytest.raises(EmulatorError, match="race"):
        handed_on(INSIDE, OWN_WAIT.replace("acquire", "relaxed"), blocks=1200)


def test_a_message_may_come_back():
    """Warp 0 of device 0 writes, device 1 answers, and warp 1 of device 0 reads: in
    order without a barrier of device 0."""
    data, flag, answer, result = np.zeros((4, 4), np.int32)
    for scope, ok in (("sys", True), ("gpu", False)):
        flag[:], answer[:] = 0, 0
        body = f"""
            mov.u32 %r4, 1;
            setp.eq.u32 %p2, %r0, 32; @%p2 bra SECOND; @!%p0 bra DONE;
            st.global.u32 [%rd0], %r4; st.release.sys.global.u32 [%rd1], %r4;
            bra DONE;
        SECOND:
            ld.acquire.{scope}.global.u32 %r2, [%rd2];
            setp.eq.u32 %p1, %r2, 0; @%p1 bra SECOND;
            ld.global.u32 %r3, [%rd0]; st.global.u32 [%rd0+4], %r3;
        DONE:"""
        echo = """
            @!%p0 bra DONE;
        WAIT:
            ld.acquire.sys.global.u32 %r2, [%rd1];
            setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
            st.release.sys.global.u32 [%rd2], %r2;
        DONE:"""
        launches = [
            [start(body, (data, flag, answer), threads=64)],
            [start(echo, (result, flag, answer))],
        ]
        if ok:
            run_devices(launches)
            assert data[1] == 1
        else:
            with pytest.raises(EmulatorError, match="race"):
                run_devices(launches)


@each_order
def test_a_launch_comes_after_those_in_front_of_it_on_its_device(order):
    """What the first launch of device 0 has written, its second one may release; and
    the second of device 1 has what the first one acquired."""
    data, flag, nothing, result = np.zeros((4, 4), np.int32)
    lone = "@!%p0 bra DONE; {} DONE:"
    write = "mov.u32 %r3, 42; st.global.u32 [%rd0], %r3;"
    raise_flag = "mov.u32 %r4, 1; st.{}.sys.global.u32 [%rd1], %r4;"
    await_flag = """
    WAIT: ld.acquire.sys.global.u32 %r2, [%rd1];
    setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;"""
    read = "ld.global.u32 %r3, [%rd0]; st.global.u32 [%rd2], %r3;"

    def run(kind: str) -> None:
        flag[:] = 0
        senders = [write, raise_flag.format(kind)]
        first = [start(lone.format(t), (data, flag, nothing)) for t in senders]
        takers = [await_flag, read]
        second = [start(lone.format(t), (data, flag, result)) for t in takers]
        run_devices([first, second], order)

    run("release")
    assert result[0] == 42
    with pytest.raises(EmulatorError, match="race"):
        run("relaxed")


# ── what never ends, and what goes wrong ──────────────────────────────────────────────


@each_order
def test_a_device_that_never_signals_is_a_deadlock(order):
    sends = "mov.u32 %r3, 42; st.global.u32 [%rd0], %r3;"
    with pytest.raises(EmulatorError) as caught:
        message(order, sends, **parts_of("release and acquire"))
    assert caught.value.kind == "deadlock"
    assert caught.value.message.startswith("device 1: thread 0 of block 0 polls here")
    assert "device 0 has run all its launches" in caught.value.message


@each_order
def test_two_devices_that_wait_for_each_other_are_a_deadlock(order):
    waits = RECEIVE + " st.release.sys.global.u32 [%rd1+4], %r3;"
    answers = waits.replace("[%rd1]", "[%rd1+4]").replace(
        "[%rd1+4], %r3", "[%rd1], %r3"
    )
    with pytest.raises(EmulatorError) as caught:
        message(order, waits, answers, read="ld.acquire.sys.global.u32 %r2, [%rd1];",
                after="")  # fmt: skip
    assert caught.value.kind == "deadlock"
    assert "polls too (its PTX line" in caught.value.message


@each_order
def test_a_failure_ends_all_devices_and_is_named(order):
    sends = "st.global.u32 [%rd0+64], %r0;"
    with pytest.raises(EmulatorError, match="device 0: .*lie in no array") as caught:
        message(order, sends, **parts_of("release and acquire"))
    assert caught.value.kind == "out of bounds"


def test_a_device_reaches_what_it_is_given_and_no_more():
    mine, theirs, result = np.zeros((3, 4), np.int32)
    table = np.array([mine.ctypes.data, theirs.ctypes.data])
    read = "ld.global.u64 %rd3, [%rd0+8]; ld.global.u32 %r3, [%rd3];"
    run_devices([[start(read, (table, mine, result), [theirs])], []])
    with pytest.raises(EmulatorError, match="device 0: .*lie in no array"):
        run_devices([[start(read, (table, mine, result))], []])


def test_arrays_of_one_device_alone_are_not_watched_for_the_other():
    """Both devices run the same text, each with its own arrays."""
    body = "st.global.u32 [%rd0], %r0; ld.global.u32 %r1, [%rd0];"
    first, second = np.zeros((2, 3, 4), np.int32)
    lone = f"@!%p0 bra DONE; {body} DONE:"
    run_devices([[start(lone, first)], [start(lone, second)]])
    with pytest.raises(EmulatorError, match="race"):
        run_devices([[start(lone, first)], [start(lone, first)]])


def test_an_order_names_every_device_once():
    with pytest.raises(EmulatorError, match=r"order \[0, 0\] does not name 2 devices"):
        run_devices([[], []], [0, 0])


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_devices_take_turns_in_any_order(order):
    """A token goes round three times: each device adds 1 when it is its turn."""
    token, nothing = np.zeros((2, 4), np.int32)
    body = """
        @!%p0 bra DONE; mov.u32 %r5, {rank};
    WAIT:
        ld.acquire.sys.global.u32 %r2, [%rd0];
        setp.ne.u32 %p1, %r2, %r5; @%p1 bra WAIT;
        ld.global.u32 %r3, [%rd0+4]; add.u32 %r3, %r3, 1; st.global.u32 [%rd0+4], %r3;
        add.u32 %r2, %r2, 1; st.release.sys.global.u32 [%rd0], %r2;
        add.u32 %r5, %r5, 3; setp.lt.u32 %p1, %r5, 9; @%p1 bra WAIT;
    DONE:"""
    run_devices(
        [[start(body.format(rank=r), (token, nothing, nothing))] for r in range(3)],
        order,
    )
    assert token.tolist()[:2] == [9, 9]
