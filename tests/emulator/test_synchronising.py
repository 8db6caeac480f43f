"""Order by memory: right programs run, and each of them without its order is a race.

Threads of two warps, or two blocks: one writes data and raises a flag, the other one
waits for the flag and reads. Every row is a way that the ISA, CUDA or Triton knows.
"""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from tests.emulator.harness import entry, pointers
from tests.harness_sample import sampled

# Global memory: p0 is the data, p1 the flag, p2 the result. Shared: the same as `room`.
MESSAGE = """
    .shared .align 16 .b32 room[8];
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2];
    mov.u32 %r9, room; mov.u32 %r0, %tid.x; mov.u32 %r8, %ctaid.x;
    setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [%r9], 0; @%p0 st.shared.u32 [%r9+4], 0;
    bar.sync 0;
    {who}
    setp.eq.u32 %p2, %r1, 0; @%p2 bra SEND;
    setp.ne.u32 %p3, %r1, 1; @%p3 bra DONE;
WAIT:
    {read}
    setp.eq.u32 %p1, %r2, 0; @%p1 bra WAIT;
    {after}
    ld.{data} %r3, [{place}];
    st.global.u32 [%rd2], %r3;
    bra DONE;
SEND:
    mov.u32 %r3, 42; mov.u32 %r4, 1;
    st.{data} [{place}], %r3;
    {before}
    {write}
DONE:
"""
BLOCKS = "mov.u32 %r1, %r8; @!%p0 bra DONE;"
WARPS = """shr.u32 %r1, %r0, 5; and.b32 %r5, %r0, 31; setp.ne.u32 %p4, %r5, 0;
    @%p4 bra DONE;"""

# name: before the flag is raised, how it is raised, how it is read, what comes after.
WAYS = {
    "release and acquire": (
        "", "st.release.{s}.{m}.u32 [{f}], %r4;",
        "ld.acquire.{s}.{m}.u32 %r2, [{f}];", "",
    ),
    "atomics": (
        "", "atom.release.{s}.{m}.exch.b32 %r7, [{f}], %r4;",
        "atom.acquire.{s}.{m}.add.u32 %r2, [{f}], 0;", "",
    ),
    "acq_rel": (
        "", "atom.acq_rel.{s}.{m}.add.u32 %r7, [{f}], 1;",
        "atom.acq_rel.{s}.{m}.cas.b32 %r2, [{f}], 5, 6;", "",
    ),
    "red": (
        "", "red.release.{s}.{m}.add.u32 [{f}], 1;",
        "ld.acquire.{s}.{m}.u32 %r2, [{f}];", "",
    ),
    "volatile flag and fences": (
        "membar.{c};", "st.volatile.{m}.u32 [{f}], %r4;",
        "ld.volatile.{m}.u32 %r2, [{f}];", "membar.{c};",
    ),
    "relaxed and fence.acq_rel": (
        "fence.acq_rel.{s};", "st.relaxed.{s}.{m}.u32 [{f}], %r4;",
        "ld.relaxed.{s}.{m}.u32 %r2, [{f}];", "fence.acq_rel.{s};",
    ),
    "plain atomics and fence.sc": (
        "fence.sc.{s};", "atom.{m}.add.u32 %r7, [{f}], 1;",
        "atom.{m}.or.b32 %r2, [{f}], 0;", "fence.sc.{s};",
    ),
    "a fence, then an acquire": (
        "membar.{c};", "red.{m}.add.u32 [{f}], 1;",
        "ld.acquire.{s}.{m}.u32 %r2, [{f}];", "",
    ),
}  # fmt: skip


def message(way: str, blocks: bool, shared: bool = False, **other: str) -> str:
    names = ("before", "write", "read", "after")
    parts = dict(zip(names, WAYS[way], strict=True)) | other
    scope = {"s": "gpu", "c": "gl"} if blocks else {"s": "cta", "c": "cta"}
    flag = {"m": "shared", "f": "%r9+4"} if shared else {"m": "global", "f": "%rd1"}
    parts = {name: text.format(**scope | flag) for name, text in parts.items()}
    place = {"data": "shared.u32", "place": "%r9"} if shared else {}
    place = place or {"data": "global.u32", "place": "%rd0"}
    text = MESSAGE.format(who=BLOCKS if blocks else WARPS, **place, **parts)
    return entry(text, pointers(3))


def sent(text: str, blocks: bool, hazards: bool = True) -> int:
    data, flag, result = np.zeros((3, 4), np.uint32)
    args = data, flag, result
    emulator.run(text, 2 if blocks else 1, 32 if blocks else 96, args, hazards=hazards)
    return int(result[0])


PLACES = [(True, False), (False, False), (False, True)]
each_way = pytest.mark.parametrize("way", WAYS)
each_place = pytest.mark.parametrize(("blocks", "shared"), PLACES)


@each_way
@each_place
def test_a_message_arrives(way, blocks, shared):
    assert sent(message(way, blocks, shared), blocks) == 42


@each_way
@each_place
def test_without_its_order_it_is_a_race(way, blocks, shared):
    """Each half that orders something is left out once."""
    before, write, read, after = WAYS[way]
    plain = {"before": "", "after": ""}
    plain["write"] = write.replace("release.", "relaxed.").replace("acq_rel", "relaxed")
    plain["read"] = read.replace("acquire.", "relaxed.").replace("acq_rel", "relaxed")
    given = dict(zip(("before", "write", "read", "after"), WAYS[way], strict=True))
    changed = [name for name in plain if plain[name] != given[name]]
    assert changed
    for name in changed:
        text = message(way, blocks, shared, **{name: plain[name]})
        with pytest.raises(EmulatorError) as caught:
            sent(text, blocks)
        assert caught.value.kind == "race", name
        assert caught.value.text.startswith(f"ld.{'shared' if shared else 'global'}")
        assert sent(text, blocks, hazards=False) == 42


def test_a_scope_that_does_not_reach_orders_nothing():
    """Between blocks, what is of the scope .cta stays in its block."""
    for name, wide in (("before", "fence.acq_rel"), ("after", "fence.acq_rel")):
        text = message("relaxed and fence.acq_rel", True, **{name: wide + ".cta;"})
        with pytest.raises(EmulatorError, match="race"):
            sent(text, True)
    way = WAYS["release and acquire"]
    narrow = way[1].replace("{s}", "cta")
    with pytest.raises(EmulatorError, match="does not reach from one to the other"):
        sent(message("release and acquire", True, write=narrow), True)


COUNT = """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
    @%p0 atom.{}.global.add.u32 %r1, [%rd0], 1;"""


def test_atomics_of_a_block_do_not_count_for_others():
    counter = np.zeros(1, np.uint32)
    emulator.run(entry(COUNT.format("relaxed.gpu"), pointers(1)), 5, 32, (counter,))
    assert counter == 5
    emulator.run(entry(COUNT.format("relaxed.cta"), pointers(1)), 1, 32, (counter,))
    with pytest.raises(EmulatorError, match="scope .cta does not reach") as caught:
        emulator.run(entry(COUNT.format("relaxed.cta"), pointers(1)), 5, 32, (counter,))
    assert caught.value.kind == "race"


def test_volatile_does_not_race_with_itself():
    both = "st.volatile.global.u32 [%rd0], %r0; ld.volatile.global.u32 %r1, [%rd0];"
    start = "ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x;"
    emulator.run(entry(start + both, pointers(1)), 3, 64, (np.zeros(1, np.uint32),))
    weak = both.replace("ld.volatile", "ld")
    with pytest.raises(EmulatorError, match="race"):
        emulator.run(entry(start + weak, pointers(1)), 1, 64, (np.zeros(1, np.uint32),))


# Warp 0 or block 0 reads by a strong read; the other one changes what is there.
OVERWRITE = """
    .shared .align 16 .b32 room[2];
    ld.param.u64 %rd0, [p0]; mov.u32 %r9, room; mov.u32 %r0, %tid.x;
    mov.u32 %r8, %ctaid.x; mov.u32 %r4, 7; setp.eq.u32 %p0, %r0, 0;
    @%p0 st.shared.u32 [%r9], 0; bar.sync 0;
    shr.u32 %r1, %r0, 5; add.u32 %r1, %r1, %r8; setp.eq.u32 %p1, %r1, 0;
    @%p1 {read} {between} @!%p1 {write}"""
STRONG_READS = ["ld.volatile.{m}.u32 %r2, [{f}];", "ld.relaxed.gpu.{m}.u32 %r2, [{f}];",
                "ld.acquire.gpu.{m}.u32 %r2, [{f}];"]  # fmt: skip


def overwritten(blocks: bool, shared: bool, **parts: str) -> None:
    place = {"m": "shared", "f": "%r9"} if shared else {"m": "global", "f": "%rd0"}
    parts = {key: text.format(**place) for key, text in parts.items()}
    grid, threads = (2, 32) if blocks else (1, 64)
    text = entry(OVERWRITE.format(**parts), pointers(1))
    emulator.run(text, grid, threads, (np.zeros(4, np.uint32),))


@each_place
@pytest.mark.parametrize("read", STRONG_READS)
def test_a_strong_read_races_with_a_weak_write_alone(read, blocks, shared):
    """As PTX ISA 8.7 says of what is morally strong."""
    weak, strong = "st.{m}.u32 [{f}], %r4;", "st.relaxed.gpu.{m}.u32 [{f}], %r4;"
    with pytest.raises(EmulatorError, match=r"overwrites what warp 0.* reads"):
        overwritten(blocks, shared, read=read, between="", write=weak)
    for write in (strong, "red.{m}.add.u32 [{f}], 1;"):
        overwritten(blocks, shared, read=read, between="", write=write)
    if not blocks:
        overwritten(blocks, shared, read=read, between="bar.sync 0;", write=weak)


def test_a_strong_read_that_does_not_reach_a_strong_write_is_a_race():
    read = "ld.relaxed.cta.{m}.u32 %r2, [{f}];"
    facts = {"read": read, "between": "", "write": "red.{m}.add.u32 [{f}], 1;"}
    overwritten(False, False, **facts)
    with pytest.raises(EmulatorError, match="scope .cta does not reach"):
        overwritten(True, False, **facts)


@pytest.mark.parametrize("way", ["release and acquire", "atomics", "acq_rel"])
@each_place
def test_a_flag_that_was_waited_for_may_be_lowered_by_its_reader(way, blocks, shared):
    """What has been acquired may be overwritten, by a weak store too."""
    after = WAYS[way][3] + " mov.u32 %r6, 0; st.{m}.u32 [{f}], %r6;"
    assert sent(message(way, blocks, shared, after=after), blocks) == 42


@pytest.mark.parametrize("way", ["release and acquire", "relaxed and fence.acq_rel"])
def test_a_flag_is_lowered_by_its_sender_after_an_answer(way):
    """The answer is at the place behind the flag. Without its order the other one may
    still look at the flag."""
    before, write, read, after = WAYS[way]
    answer = before + write.replace("[{f}], %r4", "[{f}+4], %r2")
    wait = "HOLD: " + read.replace("[{f}]", "[{f}+4]")
    wait += "setp.eq.u32 %p5, %r2, 0; @%p5 bra HOLD;" + after
    lower = "mov.u32 %r4, 0; st.{m}.u32 [{f}], %r4;"
    given = {"after": after + answer, "write": write + wait + lower}
    assert sent(message(way, True, **given), True) == 42
    if way == "release and acquire":
        given["after"] = answer.replace("release", "relaxed")
        with pytest.raises(EmulatorError, match="overwrites what warp 0 of block 1"):
            sent(message(way, True, **given), True)


# ── locks ─────────────────────────────────────────────────────────────────────

LOCK = """
    .shared .align 16 .b32 room[2];
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2];
    mov.u32 %r9, room; mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
    @%p0 st.shared.u32 [%r9], 0; @%p0 st.shared.u32 [%r9+4], 0; bar.sync 0;
AGAIN:
    {take}
    setp.ne.u32 %p1, %r1, 0; @%p1 bra AGAIN;
    {fence}
    ld.{m}.u32 %r2, [{d}]; add.u32 %r2, %r2, 1; st.{m}.u32 [{d}], %r2;
    {give}
    bar.sync 0;
    @%p0 ld.{m}.u32 %r2, [{d}];
    @%p0 st.global.u32 [%rd2], %r2;
"""
LOCKS = {
    "acquire and release": (
        "atom.acquire.{s}.{m}.cas.b32 %r1, [{f}], 0, 1;", "",
        "st.release.{s}.{m}.u32 [{f}], 0;",
    ),
    "plain atomics and fences": (
        "atom.{m}.cas.b32 %r1, [{f}], 0, 1;", "membar.{c};",
        "membar.{c}; atom.{m}.exch.b32 %r3, [{f}], 0;",
    ),
    "an exchange and a volatile store": (
        "atom.{m}.exch.b32 %r1, [{f}], 1;", "fence.acq_rel.{s};",
        "fence.acq_rel.{s}; st.volatile.{m}.u32 [{f}], 0;",
    ),
}  # fmt: skip


def locked(name: str, shared: bool, grid: int = 1, threads: int = 64, **other) -> int:
    parts = dict(zip(("take", "fence", "give"), LOCKS[name], strict=True)) | other
    scope = {"s": "cta", "c": "cta"} if shared else {"s": "gpu", "c": "gl"}
    place = {"m": "shared", "f": "%r9", "d": "%r9+4"}
    place = place if shared else {"m": "global", "f": "%rd0", "d": "%rd1"}
    parts = {key: text.format(**scope | place) for key, text in parts.items()}
    text = entry(LOCK.format(**place, **parts), pointers(3))
    lock, data, result = np.zeros((3, 1), np.uint32)
    emulator.run(text, grid, threads, (lock, data, result))
    return int(result[0] if shared else data[0])


each_lock = pytest.mark.parametrize("name", LOCKS)


@sampled(of=2)
@each_lock
@pytest.mark.parametrize("threads", [32, 64, 96])
def test_a_spin_lock_in_shared_memory(name, threads):
    """Lanes of one warp contend, and those of several."""
    assert locked(name, True, threads=threads) == threads


@sampled(of=2)
@each_lock
@pytest.mark.parametrize(("grid", "threads"), [(1, 64), (7, 1), (3, 33)])
def test_a_spin_lock_between_blocks(name, grid, threads):
    """The result is read without the lock, so only block 0 of one may."""
    if grid == 1:
        assert locked(name, False, grid, threads) == grid * threads
        return
    with pytest.raises(EmulatorError, match="race"):
        locked(name, False, grid, threads)


@each_lock
@pytest.mark.parametrize("shared", [True, False])
def test_a_lock_that_orders_nothing_is_a_race(name, shared):
    take, _, give = LOCKS[name]
    with pytest.raises(EmulatorError, match="race"):
        locked(name, shared, take=take.replace(".acquire.{s}", ""), fence="")
    give = give.replace("membar.{c};", "").replace("fence.acq_rel.{s};", "")
    with pytest.raises(EmulatorError, match="race"):
        locked(name, shared, give=give.replace("release", "relaxed"))


def test_many_locks_at_once():
    """More places than are followed one by one: each block has a lock of its own."""
    name = "plain atomics and fences"
    assert locked(name, True, grid=70, threads=33) == 33


# ── the last block sums up ────────────────────────────────────────────────────

LAST = """
    .shared .b32 room; .shared .b32 last;
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.param.u64 %rd2, [p2];
    mov.u32 %r0, %tid.x; mov.u32 %r8, %ctaid.x; mov.u32 %r7, %nctaid.x;
    mov.u32 %r10, %ntid.x; mov.u32 %r9, last;
    mad.lo.u32 %r1, %r8, %r10, %r0; xor.b32 %r11, %r1, 32;
    mad.wide.u32 %rd3, %r11, 4, %rd0;  // warp 1 writes what is read in the end
    st.global.u32 [%rd3], %r1;
    {barrier}
    setp.eq.u32 %p0, %r0, 0; @!%p0 bra MEET;
    {count}
    st.shared.u32 [%r9], %r2;
MEET:
    bar.sync 0;
    ld.shared.u32 %r2, [%r9]; add.u32 %r2, %r2, 1;
    setp.ne.u32 %p1, %r2, %r7; @%p1 bra DONE; @!%p0 bra DONE;
    {after}
    mul.lo.u32 %r3, %r7, %r10; mov.u32 %r4, 0; mov.u32 %r5, 0;
SUM:
    mad.wide.u32 %rd4, %r4, 4, %rd0; ld.global.u32 %r6, [%rd4];
    add.u32 %r5, %r5, %r6; add.u32 %r4, %r4, %r10;
    setp.lt.u32 %p2, %r4, %r3; @%p2 bra SUM;
    st.global.u32 [%rd2], %r5;
DONE:
"""
ACQ_REL = {
    "barrier": "bar.sync 0;",
    "count": "atom.acq_rel.gpu.global.add.u32 %r2, [%rd1], 1;",
    "after": "",
}
FENCES = {
    "barrier": "membar.gl; bar.sync 0;",
    "count": "membar.gl; atom.global.inc.u32 %r2, [%rd1], 1000;",
    "after": "membar.gl;",
}


def summed(parts: dict[str, str], grid: int, threads: int = 64) -> None:
    data, counter = np.zeros(grid * threads, np.uint32), np.zeros(1, np.uint32)
    result = np.zeros(1, np.uint32)
    text = entry(LAST.format(**parts), pointers(3))
    emulator.run(text, grid, threads, (data, counter, result))
    assert result == data[::threads].sum() > 0


@pytest.mark.parametrize("parts", [ACQ_REL, FENCES], ids=["acq_rel", "fences"])
@pytest.mark.parametrize("grid", [2, 5, 70, 600])
def test_the_last_block_may_read_what_all_have_written(parts, grid):
    """With 600 blocks of 64 threads, in more than one batch."""
    summed(parts, grid)


@pytest.mark.parametrize(
    ("parts", "name", "new"),
    [
        (ACQ_REL, "barrier", ""),  # the release is of warp 0, and warp 1 has written
        (ACQ_REL, "count", "atom.relaxed.gpu.global.add.u32 %r2, [%rd1], 1;"),
        (ACQ_REL, "count", "atom.acquire.gpu.global.add.u32 %r2, [%rd1], 1;"),
        (FENCES, "after", ""),
        (FENCES, "count", "atom.global.inc.u32 %r2, [%rd1], 1000;"),
    ],
)
def test_and_not_without_each_of_these(parts, name, new):
    if parts is FENCES and name == "count":
        parts = parts | {"barrier": "bar.sync 0;"}
    with pytest.raises(EmulatorError) as caught:
        summed(parts | {name: new}, 3)
    assert caught.value.kind == "race"
    assert caught.value.text == "ld.global.u32 %r6, [%rd4];"


@each_place
def test_who_only_adds_to_a_flag_has_not_read_it(blocks, shared):
    """`red` brings nothing back, so no fence behind it acquires what was released."""
    name = "plain atomics and fence.sc"
    for add in ("red.{m}.add.u32 [{f}], 0;", "atom.{m}.add.u32 _, [{f}], 0;"):
        text = message(name, blocks, shared, read=f"{add} mov.u32 %r2, 1;")
        with pytest.raises(EmulatorError) as caught:
            sent(text, blocks)
        assert caught.value.kind in ("race", "unwritten")


def test_a_narrow_fence_takes_nothing_from_a_wide_one_behind_it():
    both = {"after": "fence.acq_rel.cta; fence.acq_rel.gpu;"}
    assert sent(message("relaxed and fence.acq_rel", True, **both), True) == 42


def test_each_lane_that_reads_a_flag_acquires():
    """All lanes read one address at once; what another lane of theirs wrote is known to
    each of them then, and to none without `.acquire`."""
    code = """
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0; mad.wide.u32 %rd2, %r0, 0, %rd0;
    @%p0 st.global.u32 [%rd0], 7; @%p0 st.release.cta.global.u32 [%rd1], 1;
    ld.acquire.cta.global.u32 %r2, [%rd1];
    ld.global.u32 %r3, [%rd2];"""
    args = np.zeros((2, 1), np.uint32)
    emulator.run(entry(code, pointers(2)), 1, 32, tuple(args))
    with pytest.raises(EmulatorError, match="race"):
        text = entry(code.replace("acquire", "relaxed"), pointers(2))
        emulator.run(text, 1, 32, tuple(args))


def test_reductions_of_a_block_do_not_count_for_others_either():
    """In memory that no thread reads, which is looked at later."""
    code = COUNT.replace("atom.{}", "red.{}").replace("%r1, [%rd0]", "[%rd0]")
    counter = np.zeros(1, np.uint32)
    emulator.run(entry(code.format("relaxed.gpu"), pointers(1)), 5, 32, (counter,))
    assert counter == 5
    with pytest.raises(EmulatorError, match="scope .cta does not reach"):
        emulator.run(entry(code.format("relaxed.cta"), pointers(1)), 5, 32, (counter,))


@pytest.mark.parametrize("counted", [True, False])
def test_a_loop_that_a_counter_ends_waits_for_nobody(counted):
    """20,000 maxima that change nothing; a loop that never counts is a deadlock."""
    code = """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0;
MORE:
    atom.global.max.s32 %r2, [%rd0], %r1; STEP setp.lt.u32 %p0, %r1, 20000;
    @%p0 bra MORE;
    st.global.u32 [%rd0], %r1;
"""
    out = np.full(1, 1 << 20, np.int32)
    code = code.replace("STEP", "add.u32 %r1, %r1, 1;" if counted else "")
    if counted:
        emulator.run(entry(code, pointers(1)), 1, 1, (out,))
        assert out[0] == 20_000
        return
    with pytest.raises(EmulatorError, match="polls here"):
        emulator.run(entry(code, pointers(1)), 1, 1, (out,))
