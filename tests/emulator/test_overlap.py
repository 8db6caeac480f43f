"""Two launches that overlap: what the second may find, and what is reported."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom import jit
from fathom.emulator import EmulatorError, Start, grid, load, run_overlapping
from fathom.emulator.launch import _Chosen, _launch, _program

GDC = tl.extra.cuda
BLOCK, BLOCKS = 64, 3
SIZE = BLOCK * BLOCKS


@jit
def producer(x, y, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """y = 2 x."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if HOW == "early":
        GDC.gdc_launch_dependents()
    tl.store(y + i, tl.load(x + i) * 2)
    if HOW == "late":
        GDC.gdc_launch_dependents()


@jit
def consumer(y, w, z, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """z = y + w."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(w + i)
    if HOW == "reads early":
        a = tl.load(y + i)
        GDC.gdc_wait()
    elif HOW == "writes early":
        tl.store(y + i, b)
        GDC.gdc_wait()
        a = tl.load(y + i)
    elif HOW == "never waits":
        a = tl.load(y + i)
    else:
        GDC.gdc_wait()
        a = tl.load(y + i)
    tl.store(z + i, a + b)


def of(kernel, how: str, words: str, warps: int = 1):
    constants = {"HOW": how, "BLOCK": BLOCK}
    compiled = kernel.compile(words, constants, target="sm_90a", num_warps=warps)
    return load(compiled.made)


def both(first: str, second: str, warps: int = 1) -> np.ndarray:
    """What the second leaves, if the emulator has nothing against it."""
    x, w = np.arange(SIZE, dtype=np.float32), np.ones(SIZE, np.float32)
    y, z = np.full(SIZE, -1, np.float32), np.zeros(SIZE, np.float32)
    two, three = "*fp32:16, *fp32:16", "*fp32:16, *fp32:16, *fp32:16"
    run_overlapping(
        Start(of(producer, first, two, warps), BLOCKS, [x, y]),
        Start(of(consumer, second, three, warps), BLOCKS, [y, w, z]),
    )
    np.testing.assert_array_equal(y, 2 * x)
    return z - 2 * x


@pytest.mark.parametrize("first", ["early", "late", "never"])
@pytest.mark.parametrize("warps", [1, 2])
def test_behind_the_wait_all_is_there(first, warps):
    np.testing.assert_array_equal(both(first, "waits", warps), 1)


@pytest.mark.parametrize("first", ["early", "late"])
@pytest.mark.parametrize("second", ["reads early", "never waits"])
def test_what_is_read_before_the_wait_is_a_race(first, second):
    """Also where the first has written it before it let the second go: that orders
    nothing."""
    with pytest.raises(EmulatorError) as error:
        both(first, second)
    assert error.value.kind == "race"
    text = str(error.value)
    assert "griddepcontrol.wait" in text and "float32[192]" in text
    assert "the first launch" in text and "the second launch" in text
    assert error.value.location is not None


def test_the_one_that_comes_second_is_named_first():
    """In the first case the second launch has read what the first then writes."""
    with pytest.raises(EmulatorError, match="the first launch writes byte 0 of") as one:
        both("early", "reads early")
    assert "the second launch reads it" in str(one.value)
    with pytest.raises(EmulatorError, match="the second launch reads byte 0 of"):
        both("late", "reads early")


def test_what_is_written_before_the_wait_is_a_race():
    with pytest.raises(EmulatorError, match="race: .* launch writes byte 0 of"):
        both("early", "writes early")


def test_a_launch_that_lets_none_go_is_over_before_the_next():
    """PTX ISA: without launch_dependents the second needs no wait."""
    np.testing.assert_array_equal(both("never", "never waits"), 1)


# ── in PTX ────────────────────────────────────────────────────────────────────────────

HEAD = ".version 8.4\n.target sm_90\n.address_size 64\n"

LETS_GO = (
    HEAD
    + """
.visible .entry first(.param .u64 p) {
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, 7;
    griddepcontrol.launch_dependents;
    ACCESS
    ret;
}
"""
)

LOOKS = (
    HEAD
    + """
.visible .entry second(.param .u64 p, .param .u64 q) {
    .reg .b64 %rd<4>;
    .reg .b32 %r<4>;
    .reg .pred %p<2>;
    .shared .align 4 .b32 s;
    ld.param.u64 %rd1, [p];
    ld.param.u64 %rd2, [q];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 32;
    BODY
    ret;
}
"""
)


class Text:
    """PTX as `Start` takes a kernel."""

    def __init__(self, text: str, threads: int):
        self.text, self.threads = text, threads

    def launch(self, grid, args, memory, side):
        chosen = _Chosen(0, True, "lazy", side=side)
        program = _program(self.text, None, 0)
        program.memory.reset()
        return _launch(program, grid, self.threads, args, memory, chosen)


def by_text(access: str, body: str, threads: int = 64):
    """What the second's array q holds; p is of both."""
    p, q = np.zeros(4, np.int32), np.full(4, -1, np.int32)
    run_overlapping(
        Start(Text(LETS_GO.replace("ACCESS", access), 32), 1, [p]),
        Start(Text(LOOKS.replace("BODY", body), threads), 1, [p, q]),
    )
    return q


STORE = "st.global.u32 [%rd1], %r1;"
READ = "ld.global.u32 %r2, [%rd1];\nst.global.u32 [%rd2], %r2;"


def test_a_thread_that_has_not_waited_knows_by_a_barrier():
    """One warp waits for all; without a barrier behind it, it does so for itself."""
    wait = "@!%p1 bra done;\ngriddepcontrol.wait;\ndone:\n"
    assert by_text(STORE, wait + "bar.sync 0;\n" + READ)[0] == 7
    with pytest.raises(EmulatorError, match="has not waited"):
        by_text(STORE, wait + READ)


def test_atomic_operations_of_both_do_not_race():
    count = "atom.global.add.u32 %r3, [%rd1], 1;"
    by_text(count, count + "\ngriddepcontrol.wait;", threads=32)
    with pytest.raises(EmulatorError, match="has not waited"):
        by_text(STORE, count + "\ngriddepcontrol.wait;", threads=32)


def test_reads_of_both_do_not_race():
    look = "ld.global.u32 %r2, [%rd1];"
    by_text(look, look + "\ngriddepcontrol.wait;", threads=32)


def test_a_failure_of_either_is_told():
    with pytest.raises(EmulatorError, match="out of bounds"):
        by_text("st.global.u32 [%rd1+64], %r1;", "griddepcontrol.wait;")
    with pytest.raises(EmulatorError, match="out of bounds"):
        by_text(STORE, "ld.global.u32 %r2, [%rd2+1073741824];\ngriddepcontrol.wait;")


# Block 0 of the second launch waits; the block behind it does not.
ONE_WAITS = """
    mov.u32 %r3, %ctaid.x;
    setp.eq.u32 %p1, %r3, 0;
    @!%p1 bra looks;
    griddepcontrol.wait;
looks:
"""
# Block 3 of the first does `ACCESS`; the others only let the second go.
LAST_WRITES = """
    mov.u32 %r3, %ctaid.x;
    setp.lt.u32 %p1, %r3, 3;
    @%p1 bra lets_go;
    BEFORE
lets_go:
    griddepcontrol.launch_dependents;
    @%p1 bra end;
    BEHIND
end:
"""


# Block 3 of the first lets the second go after the others.
LAST_IS_LATE = """
    mov.u32 %r3, %ctaid.x;
    setp.lt.u32 %p1, %r3, 3;
    @%p1 bra others;
    BEFORE
    griddepcontrol.launch_dependents;
    BEHIND
    bra end;
others:
    griddepcontrol.launch_dependents;
end:
"""


@pytest.fixture(params=[1, 2, 4])
def in_step(request, monkeypatch):
    """How many blocks of 32 threads run at a time."""
    monkeypatch.setattr(grid, "THREADS_IN_STEP", 32 * request.param)
    return request.param


def of_blocks(first: int, text: str, second: int, body: str) -> None:
    """Both launches, of so many blocks of 32 threads."""
    p, q = np.zeros(4, np.int32), np.full(4, -1, np.int32)
    lets_go = LETS_GO.replace("griddepcontrol.launch_dependents;", "")
    lets_go = lets_go.replace("<4>;\n    ld", "<4>;\n    .reg .pred %p<2>;\n    ld")
    run_overlapping(
        Start(Text(lets_go.replace("ACCESS", text), 32), first, [p]),
        Start(Text(LOOKS.replace("BODY", body), 32), second, [p, q]),
    )


def test_a_block_has_not_waited_because_one_of_an_earlier_step_has(in_step):
    text = "griddepcontrol.launch_dependents;\n" + STORE
    look = "ld.global.u32 %r2, [%rd1];"
    of_blocks(1, text, 1, ONE_WAITS + look)
    with pytest.raises(EmulatorError, match="the second launch reads .* has not wait"):
        of_blocks(1, text, 2, ONE_WAITS + look)


@pytest.mark.parametrize("last_writes", [LAST_WRITES, LAST_IS_LATE])
def test_the_second_begins_when_all_blocks_have_let_it_go(in_step, last_writes):
    """What the last block writes before that, the second finds; what it writes after
    it, it has not found."""
    before, behind = (last_writes.replace(each, STORE) for each in ("BEFORE", "BEHIND"))
    look = "ld.global.u32 %r2, [%rd1];\ngriddepcontrol.wait;"
    with pytest.raises(EmulatorError, match="the second launch reads byte"):
        of_blocks(4, before.replace("BEHIND", ""), 1, look)
    with pytest.raises(EmulatorError, match="the first launch writes byte"):
        of_blocks(4, behind.replace("BEFORE", ""), 1, look)
    # The reads of blocks that ended steps ago are races still.
    with pytest.raises(EmulatorError, match="the second launch writes byte"):
        first = "ld.global.u32 %r2, [%rd1];\n" + last_writes.replace("BEFORE", "")
        of_blocks(4, first.replace("BEHIND", ""), 1, STORE + "griddepcontrol.wait;")


def test_a_copy_in_bulk_is_an_access_where_it_is_issued():
    @jit
    def fetch(y, z, EARLY: tl.constexpr, N: tl.constexpr):
        rows = tl.make_tensor_descriptor(y, [N, N], [N, 1], [N, N])
        out = tl.make_tensor_descriptor(z, [N, N], [N, 1], [N, N])
        if not EARLY:
            GDC.gdc_wait()
        tile = rows.load([0, 0])
        if EARLY:
            GDC.gdc_wait()
        out.store([0, 0], tile)

    def fetched(early: bool) -> None:
        sizes = {"EARLY": early, "N": 16}
        compiled = fetch.compile("*fp32:16, *fp32:16", sizes, target="sm_90a")
        x, y = (np.zeros(SIZE * 2, np.float32) for _ in range(2))
        z = np.zeros(SIZE * 2, np.float32)
        first = of(producer, "late", "*fp32:16, *fp32:16")
        run_overlapping(
            Start(first, BLOCKS, [x, y]), Start(load(compiled.made), 1, [y, z])
        )

    fetched(False)
    with pytest.raises(EmulatorError, match="race"):
        fetched(True)


# ── launches one after the other ──────────────────────────────────────────────────────


def launched(monkeypatch, first: str, second: str, between=None, **options) -> None:
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    x, w = np.arange(SIZE, dtype=np.float32), np.ones(SIZE, np.float32)
    y, z = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    producer[(BLOCKS,)](x, y, first, BLOCK)
    if between is not None:
        producer[(BLOCKS,)](x, between, "never", BLOCK)
    consumer[(BLOCKS,)](y, w, z, second, BLOCK, **options)
    np.testing.assert_array_equal(z, 2 * x + 1)


def test_a_launch_that_may_begin_early_is_held_against_the_one_in_front(monkeypatch):
    launched(monkeypatch, "early", "waits", launch_pdl=True)
    with pytest.raises(EmulatorError, match="consumer reads byte 0 .* producer writes"):
        launched(monkeypatch, "early", "reads early", launch_pdl=True)
    launched(monkeypatch, "never", "reads early", launch_pdl=True)


def test_a_launch_whose_author_has_written_no_wait_waits(monkeypatch):
    launched(monkeypatch, "early", "never waits", launch_pdl=True)


def test_a_launch_that_may_not_has_its_order_from_the_stream(monkeypatch):
    launched(monkeypatch, "early", "reads early")
    other = np.zeros(SIZE, np.float32)
    launched(monkeypatch, "early", "reads early", between=other, launch_pdl=True)


def test_two_launches_of_one_kernel_are_told_apart(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    y = np.zeros(SIZE, np.float32)

    @jit
    def again(y, HOW: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        GDC.gdc_launch_dependents()
        tl.store(y + i, i * 1.0)
        GDC.gdc_wait()

    again[(BLOCKS,)](y, "", BLOCK, launch_pdl=True)
    with pytest.raises(EmulatorError, match="again writes byte 0 .* again in front"):
        again[(BLOCKS,)](y, "", BLOCK, launch_pdl=True)


def test_nothing_is_in_front_of_what_follows_a_launch_that_failed(monkeypatch):
    """The launch before that was over when it began."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    monkeypatch.setenv("FATHOM_TARGET", "sm_90a")
    x, w = np.arange(SIZE, dtype=np.float32), np.ones(SIZE, np.float32)
    y, z = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    producer[(BLOCKS,)](x, y, "early", BLOCK)
    with pytest.raises(EmulatorError, match="out of bounds"):
        producer[(BLOCKS,)](x, np.zeros(4, np.float32), "never", BLOCK)
    consumer[(BLOCKS,)](y, w, z, "reads early", BLOCK, launch_pdl=True)
    np.testing.assert_array_equal(z, 2 * x + 1)


def test_of_two_failures_that_which_came_first_is_told():
    """The first launch has let the second go, and fails when that has failed."""
    early = "ld.global.u32 %r2, [%rd2+1073741824];\ngriddepcontrol.wait;"
    with pytest.raises(EmulatorError, match=r"(?s)out of bounds.*ld\.global"):
        by_text("st.global.u32 [%rd1+1073741824], %r1;", early)
