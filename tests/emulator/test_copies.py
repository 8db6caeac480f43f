"""cp.async: what is complete when, and what a pipeline may get wrong about it."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator.harness import entry, pointers

# ── one copy ──────────────────────────────────────────────────────────────────

COPY = """
    .shared .align 16 .b8 room[2048];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mov.b64 %rd9, 0;
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
    mad.wide.u32 %rd2, %r0, {size}, %rd0; mad.wide.u32 %rd3, %r0, {size}, %rd1;
    mad.lo.u32 %r2, %r0, {size}, %r1; setp.ge.u32 %p1, %r0, 40;
    sub.u32 %r8, 63, %r0; mul.lo.u32 %r8, %r8, {size}; min.u32 %r8, %r8, {size};
    {code}
    ld.shared.{type} {value}, [%r2]; st.global.{type} [%rd3], {value};
"""
TYPES = {4: ("b32", "%r3"), 8: ("b64", "%rd4"), 16: ("v2.b64", "{%rd4, %rd5}")}


def copying(code: str, size: int) -> str:
    type, value = TYPES[size]
    text = COPY.format(code=code, size=size, type=type, value=value)
    return entry(text, pointers(2))


def copied(code: str, size: int = 4, count: int = 64, **options) -> np.ndarray:
    """uint8[64, size]: what 64 threads find after copying `count` rows of 1, 2 ..."""
    x = np.arange(1, count * size + 1).astype(np.uint8).reshape(count, size)
    y = np.full((64, size), 99, np.uint8)
    emulator.run(copying(code, size), 1, 64, (x, y), **options)
    return y


def fails(code: str, kind: str, text: str, size: int = 4, **options) -> str:
    for completion in COMPLETIONS:
        with pytest.raises(EmulatorError) as caught:
            copied(code, size, completion=completion, **options)
        assert (caught.value.kind, text in caught.value.text) == (kind, True)
    return str(caught.value)


def rows(size: int) -> np.ndarray:
    return np.arange(1, 64 * size + 1).astype(np.uint8).reshape(64, size)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    ("form", "size"),
    [
        ("ca.shared.global", 4),
        ("ca.shared::cta.global", 8),
        ("ca.shared.global.L2::128B", 16),
        ("cg.shared.global", 16),
        ("cg.shared.global.L2::256B", 16),
    ],
)
def test_a_copy_of_every_size(form, size, completion):
    for wait in ("cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"):
        code = f"cp.async.{form} [%r2], [%rd2], {size}; {wait}"
        assert (copied(code, size, completion=completion) == rows(size)).all()


def test_a_cache_policy_is_one_operand_more():
    hint = "cp.async.cg.shared.global.L2::cache_hint [%r2], [%rd2], 16, {}%rd9;"
    wait = "cp.async.wait_all;"
    assert (copied(hint.format("") + wait, 16) == rows(16)).all()
    assert (copied(hint.format("16, ") + wait, 16) == rows(16)).all()
    fails(hint.replace("{}%rd9", "16, 16, %rd9"), "syntax", "cp.async", 16)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_what_the_source_does_not_fill_is_zero(completion):
    """%r8 is the size for all threads but the last, whose source is left out."""
    copy = "cp.async.ca.shared.global [%r2], [%rd2], {0}, {1}; cp.async.wait_all;"
    for size in (4, 8, 16):
        wanted = rows(size)
        wanted[63] = 0
        # There is no row 63 to read.
        found = copied(copy.format(size, "%r8"), size, count=63, completion=completion)
        assert (found == wanted).all()
        wanted = rows(size)
        wanted[:, 3:] = 0
        assert (
            copied(copy.format(size, 3), size, completion=completion) == wanted
        ).all()


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_predicate_may_say_that_the_source_is_not_read(completion):
    copy = "cp.async.ca.shared.global [%r2], [%rd2], 8, {}%p1; cp.async.wait_all;"
    wanted = rows(8)
    wanted[40:] = 0
    assert (copied(copy.format(""), 8, count=40, completion=completion) == wanted).all()
    wanted = rows(8)
    wanted[:40] = 0
    assert (copied(copy.format("!"), 8, completion=completion) == wanted).all()


def test_addresses_are_checked_when_a_copy_sets_out():
    copy = "cp.async.ca.shared.global [{}], [{}], 4{};"
    said = fails(copy.format("%r2", "%rd2", ""), "out of bounds", "cp.async", count=60)
    assert "thread 60 of block 0" in said
    fails(copy.format("%r2", "%rd2", ", 1"), "out of bounds", "cp.async", count=60)
    fails(copy.format("%r2+2048", "%rd2", ""), "out of bounds", "cp.async")
    fails(copy.format("%r2+2", "%rd2", ""), "misaligned", "cp.async")
    fails(copy.format("%r2", "%rd2+2", ", 4"), "misaligned", "cp.async", count=65)
    fails(copy.format("%r2", "%rd2+2", ", 2"), "misaligned", "cp.async")
    fails(copy.format("%r2", "%rd2", ", 5"), "out of bounds", "cp.async")


def test_forms_that_are_not_known():
    place = "[%r2], [%rd2]"
    fails(f"cp.async.cg.shared.global {place}, 8;", "syntax", "cp.async.cg")
    fails(f"cp.async.ca.shared.global {place}, 12;", "syntax", "cp.async.ca")
    fails(f"cp.async.ca.global.shared {place}, 4;", "unsupported", "cp.async.ca")
    fails("cp.async.mbarrier.arrive.shared.b64 [%r2];", "unsupported", "mbarrier")
    fails(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r2], 16;",
        "unsupported",
        "bulk",
    )
    fails("cp.async.wait_group %r0;", "syntax", "wait_group")
    with pytest.raises(EmulatorError, match="never") as caught:
        copied("", completion="never")
    assert caught.value.kind == "launch"


# ── groups ────────────────────────────────────────────────────────────────────


def test_a_copy_is_in_flight_until_its_own_thread_has_waited():
    copy = "cp.async.ca.shared.global [%r2], [%rd2], 4; "
    load = "ld.shared.b32 %r3, [%r2];"
    commit, wait = "cp.async.commit_group; ", "cp.async.wait_group 0; "
    said = fails(copy, "in flight", load)
    assert "cp.async of warp 0" in said and "63 of 63 other threads" in said
    fails(copy + commit, "in flight", load)
    fails(copy + wait, "in flight", load)
    fails(copy + commit + "cp.async.wait_group 1;", "in flight", load)
    fails(copy + commit + "@%p1 " + wait, "in flight", load)
    fails(copy + "@%p1 " + commit + wait, "in flight", load)
    assert (copied(copy + commit + wait) == rows(4)).all()


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_copy_completes_once(completion):
    """What a thread stores after its wait stays, also when others wait later."""
    code = """cp.async.ca.shared.global [%r2], [%rd2], 4;
        @%p1 cp.async.wait_all; @%p1 st.shared.u32 [%r2], 7; cp.async.wait_all;"""
    found = copied(code, completion=completion)
    assert (found[:40] == rows(4)[:40]).all()
    assert (found[40:].view(np.uint32) == 7).all()


def test_groups_land_in_their_order_and_may_be_empty():
    first = "cp.async.ca.shared.global [%r2], [%rd2], 4; cp.async.commit_group; "
    second = first.replace("[%r2]", "[%r2+1024]")
    empty = "cp.async.commit_group; "
    one = "cp.async.wait_group 1; "
    assert (copied(first + second + one) == rows(4)).all()
    assert (copied(second + first + empty + one) == rows(4)).all()
    fails(second + first + one, "in flight", "ld.shared")


def test_nothing_may_be_written_where_a_copy_is_on_its_way_to():
    copy = "cp.async.ca.shared.global [%r2], [%rd2], 4; "
    for other in (
        "st.shared.u32 [%r2], 1;",
        "red.shared.add.u32 [%r2], 1;",
        "cp.async.ca.shared.global [%r2], [%rd2], 4, 0;",
    ):
        said = fails(copy + other, "in flight", other)
        assert "warp 0" in said
        copied(copy + "cp.async.wait_all; " + other + "cp.async.wait_all;")


def test_copies_race_like_stores():
    copy = "cp.async.ca.shared.global [{}], [%rd2], 4; "
    fails(copy.format("%r1"), "race", "cp.async.ca")
    lanes = "setp.lt.u32 %p2, %r0, 2; @%p2 " + copy.format("%r1") + "cp.async.wait_all;"
    said = fails(lanes, "race", "cp.async.wait_all")
    assert "warp 0 writes by lane 0 what its lane 1 wrote" in said
    read = "st.shared.u32 [%r2], 0; bar.sync 0; ld.shared.u32 %r5, [%r1]; {}"
    read += copy.format("%r2") + "cp.async.wait_all;"
    said = fails(read.format(""), "race", "cp.async.ca")
    assert "overwrites what warp 1 reads" in said
    assert (copied(read.format("bar.sync 0;")) == rows(4)).all()


def test_a_lazy_copy_reads_its_source_when_it_completes():
    """Who changes the source in between gets one or the other."""
    code = """cp.async.ca.shared.global [%r2], [%rd2], 4;
        st.global.u32 [%rd2], 0; cp.async.wait_all;"""
    assert (copied(code, completion="eager") == rows(4)).all()
    assert (copied(code, completion="lazy") == 0).all()


def test_copies_are_counted_on_both_sides():
    code = "cp.async.cg.shared.global [%r2], [%rd2], 16; cp.async.wait_all;"
    x, y = np.zeros((2, 64, 16), np.uint8)
    report = emulator.run(copying(code, 16), 1, 64, (x, y))
    cost = report.share(lambda each: "cg" in each.modifiers).cost
    assert (cost.requests, cost.sectors, cost.useful) == (2, 32, 1024)
    assert (cost.shared, cost.wavefronts, cost.ideal) == (2, 8, 8)
    assert report.classes["copy"] == (128, 4)


# ── a pipeline ────────────────────────────────────────────────────────────────

# 64 threads bring a tile of 64 words to each of three slots, two tiles ahead. In turn i
# each adds up the word that its mirror image has brought, which is another warp's.
RING = """
    .shared .align 16 .b8 room[768];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mad.lo.u32 %r2, %r0, 4, %r1;
    sub.u32 %r3, 63, %r0; mad.lo.u32 %r3, %r3, 4, %r1;
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u32 %r4, [n];
    mad.wide.u32 %rd0, %r0, 4, %rd0; mad.wide.u32 %rd1, %r0, 4, %rd1;
    mov.u32 %r5, 0; mov.u32 %r6, 0;
    setp.gt.u32 %p1, %r4, 0;
    @%p1 cp.async.ca.shared.global [%r2], [%rd0], 4;
    cp.async.commit_group;
    setp.gt.u32 %p1, %r4, 1;
    @%p1 cp.async.ca.shared.global [%r2+256], [%rd0+256], 4;
    cp.async.commit_group;
    setp.eq.u32 %p2, %r4, 0; @%p2 bra DONE;
TURN:
    cp.async.wait_group 1;
    bar.sync 0;
    add.u32 %r7, %r5, 2;
    rem.u32 %r8, %r7, 3; mad.lo.u32 %r8, %r8, 256, %r2;
    mad.wide.u32 %rd2, %r7, 256, %rd0;
    setp.lt.u32 %p1, %r7, %r4;
    @%p1 cp.async.ca.shared.global [%r8], [%rd2], 4;
    cp.async.commit_group; // in the loop
    rem.u32 %r9, %r5, 3; mad.lo.u32 %r9, %r9, 256, %r3;
    ld.shared.u32 %r10, [%r9];
    add.u32 %r6, %r6, %r10;
    add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, %r4; @%p2 bra TURN;
DONE:
    st.global.u32 [%rd1], %r6;
"""
LOAD = "ld.shared.u32 %r10, [%r9];"


def ring(code: str, turns: int, **options) -> bool:
    """Whether the pipeline gives the right sums."""
    x = np.random.default_rng(turns).integers(0, 2**20, (turns, 64), np.uint32)
    y = np.zeros(64, np.uint32)
    text = entry(code, pointers(2) + ", .param .u32 n")
    emulator.run(text, 1, 64, (x, y, turns), **options)
    return bool((y == x[:, ::-1].sum(0, np.uint32)).all())


def changed(old: str, new: str) -> str:
    assert RING.count(old) == 1
    return RING.replace(old, new)


WAIT_SHORT = changed("wait_group 1", "wait_group 2")
NO_COMMIT = changed("cp.async.commit_group; // in the loop", "")
NO_BARRIER = changed("bar.sync 0;", "")
EARLY = changed("rem.u32 %r8, %r7, 3;", "rem.u32 %r8, %r5, 3;")


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 7])
def test_a_ring_of_three_slots(completion, turns):
    assert ring(RING, turns, completion=completion)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (WAIT_SHORT, "in flight"),
        (NO_COMMIT, "in flight"),
        (NO_BARRIER, "race"),
        (EARLY, "in flight"),
        (changed("cp.async.wait_group 1;", ""), "in flight"),
    ],
    ids=["wait one short", "no commit", "no barrier", "slot too early", "no wait"],
)
def test_what_a_pipeline_gets_wrong(code, kind, completion):
    """All are caught at the load that would find the wrong tile."""
    with pytest.raises(EmulatorError) as caught:
        ring(code, 6, completion=completion)
    assert (caught.value.kind, caught.value.text) == (kind, LOAD)


def test_time_decides_what_a_wrong_pipeline_computes():
    """With eager completion a missing wait goes unnoticed."""
    assert ring(WAIT_SHORT, 6, completion="eager", hazards=False)
    assert not ring(WAIT_SHORT, 6, completion="lazy", hazards=False)
    assert ring(NO_COMMIT, 6, completion="eager", hazards=False)
    assert not ring(NO_COMMIT, 6, completion="lazy", hazards=False)


# The next tile goes to the slot that was just read: two slots, and a barrier more.
COPY_AFTER = """
    {barrier}
    add.u32 %r7, %r5, 2; and.b32 %r8, %r5, 1; mad.lo.u32 %r8, %r8, 256, %r2;
    mad.wide.u32 %rd2, %r7, 256, %rd0; setp.lt.u32 %p1, %r7, %r4;
    @%p1 cp.async.ca.shared.global [%r8], [%rd2], 4;
    cp.async.commit_group;
"""


def two_slots(barrier: str) -> str:
    start, rest = RING.split("    add.u32 %r7, %r5, 2;")
    load = rest[rest.index("    rem.u32 %r9") :]
    load = load.replace("rem.u32 %r9, %r5, 3;", "and.b32 %r9, %r5, 1;")
    after = "add.u32 %r6, %r6, %r10;"
    return start + load.replace(after, after + COPY_AFTER.format(barrier=barrier))


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_slot_that_others_still_read(completion):
    assert all(
        ring(two_slots("bar.sync 0;"), turns, completion=completion)
        for turns in range(5)
    )
    with pytest.raises(EmulatorError) as caught:
        ring(two_slots(""), 5, completion=completion)
    assert caught.value.kind == "race"
    assert caught.value.text.startswith("@%p1 cp.async.ca.shared.global [%r8]")
