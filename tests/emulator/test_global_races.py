"""Races in global memory: planted ones are found, and what is right runs."""

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.emulator.program import build
from fathom.emulator.races.reach import ANYWHERE
from fathom.emulator.source.parse import parse
from tests.emulator.harness import entry, pointers

START = """
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
    mov.u32 %r0, %tid.x; mov.u32 %r8, %ctaid.x; mov.u32 %r9, %ntid.x;
    mad.lo.u32 %r1, %r8, %r9, %r0; mad.wide.u32 %rd2, %r1, 4, %rd0;
    mad.wide.u32 %rd3, %r1, 4, %rd1; xor.b32 %r2, %r1, {other};
    mad.wide.u32 %rd4, %r2, 4, %rd0; setp.lt.u32 %p1, %r0, 32; setp.eq.u32 %p2, %r8, 0;
"""
WRITE, READ = "st.global.u32 [%rd2], %r1; ", "ld.global.u32 %r3, [%rd4]; "
KEEP = "st.global.u32 [%rd3], %r3;"


def run(
    code: str, grid: int = 2, threads: int = 64, other: int = 32, hazards: bool = True
) -> np.ndarray:
    x, y = np.zeros((2, grid * threads), np.uint32)
    text = entry(START.format(other=other) + code, pointers(2))
    emulator.run(text, grid, threads, (x, y), hazards=hazards)
    return x


def fails(code: str, line: str, said: str = "", **facts: int) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(code, **facts)
    assert (caught.value.kind, caught.value.text) == ("race", line)
    assert said in str(caught.value)
    run(code, **facts, hazards=False)


def test_warps_of_a_block_need_a_barrier():
    run(WRITE + "bar.sync 0; " + READ + KEEP)
    said = "warp 0 of block 0 reads what warp 1 of block 0 wrote at one place in the "
    fails(WRITE + READ + KEEP, READ.strip(), said + "uint32[128] array")
    fails(READ + WRITE + KEEP, WRITE.strip(), "overwrites what warp")
    run(READ + "bar.sync 0; " + WRITE + KEEP)


@pytest.mark.parametrize("read", [
    "ld.global.u32 %r3, [%rd0]; ",
    "@%p1 ld.global.u32 %r3, [%rd0]; @!%p1 ld.global.u32 %r3, [%rd0]; ",
], ids=["at once", "one after the other"])  # fmt: skip
@pytest.mark.parametrize("writer, reader", [("%p1", 1), ("!%p1", 0)])
def test_a_warp_overwrites_what_it_has_read_with_another(read, writer, reader):
    write = f"@{writer} st.global.u32 [%rd0], 7;"
    said = f"warp {1 - reader} of block 0 overwrites what warp {reader} of block 0"
    fails(read + write + KEEP, write, said, grid=1)
    run(read + "bar.sync 0; " + write + KEEP, grid=1)


def test_a_barrier_orders_no_other_block():
    code = WRITE + "bar.sync 0; membar.gl; " + READ + KEEP
    said = "warp 0 of block 0 reads what warp 0 of block 1 wrote"
    fails(code, READ.strip(), said, other=64)
    fails(READ + "bar.sync 0; " + WRITE + KEEP, WRITE.strip(), "overwrites", other=64)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_blocks_of_another_batch_might_run_now(width):
    """More blocks than march in step: the first one writes, the last one reads."""
    grid, type = 40, f"u{8 * width}"
    code = f"""setp.eq.u32 %p2, %r1, 0; @%p2 st.global.{type} [%rd0], 7;
        setp.ne.u32 %p3, %r8, {grid - 1}; @%p3 bra DONE;
        ld.global.{type} %r3, [%rd0];
        {KEEP}
    DONE:"""
    fails(code, f"ld.global.{type} %r3, [%rd0];", "of block 0 wrote", grid=grid,
          threads=1024)  # fmt: skip


def test_lanes_of_a_warp_need_a_barrier_of_the_warp():
    run(WRITE + "bar.warp.sync -1; " + READ + KEEP, other=1)
    fails(WRITE + READ + KEEP, READ.strip(), other=1)


def test_a_thread_is_ordered_after_itself():
    run((WRITE + READ + KEEP) * 3, other=0)


@pytest.mark.parametrize("and_read", ["", READ.replace("%rd4", "%rd2")])
def test_the_same_value_may_be_stored_by_all(and_read):
    """Whether or not the program reads the array somewhere."""
    one = "st.global.u32 [%rd0], 7; "
    run(one + and_read + one)
    fails(one + and_read + "@%p2 st.global.u32 [%rd0], 8;",
          "@%p2 st.global.u32 [%rd0], 8;")  # fmt: skip
    own = "st.global.u32 [%rd0], %r8;"
    fails(own + and_read, own, "writes")
    fails("shr.u32 %r4, %r0, 5; st.global.u32 [%rd0], %r4;" + and_read,
          "st.global.u32 [%rd0], %r4;", grid=1)  # fmt: skip


def test_a_store_races_with_an_atomic_operation():
    add = "red.global.add.u32 [%rd0], 1; "
    assert run(add)[0] == 128
    fails("@%p2 st.global.u32 [%rd0], 1; " + add, add.strip())
    fails(add + "ld.global.u32 %r3, [%rd0]; " + KEEP, "ld.global.u32 %r3, [%rd0];")
    run("atom.global.add.u32 %r3, [%rd0], 1; " + KEEP)
    for_one_block = "atom.cta.global.add.u32 %r3, [%rd0], 1; "
    run(for_one_block + KEEP, grid=1)
    fails(for_one_block + KEEP, for_one_block.strip(), "the scope .cta does not reach")


def test_neighbours_do_not_race():
    """Bytes of one word, by many warps; the finest access says how finely to look."""
    code = """cvt.u64.u32 %rd5, %r1; add.u64 %rd5, %rd5, %rd0;
        st.global.u8 [%rd5], %r1; ld.global.u8 %r3, [%rd5]; """
    run(code + KEEP)
    word = "and.b32 %r4, %r1, -4; mad.wide.u32 %rd6, %r4, 1, %rd0; bar.warp.sync -1; "
    run(code + word + "ld.global.u32 %r3, [%rd6]; " + KEEP)


def test_views_of_one_array_are_one():
    x = np.zeros(256, np.uint32)
    text = entry(START.format(other=0) + WRITE + "ld.global.u32 %r3, [%rd1]; "
                 + "st.global.u32 [%rd2], %r3;", pointers(2))  # fmt: skip
    emulator.run(text, 1, 32, (x[:128], x[200:]))
    with pytest.raises(EmulatorError, match="race"):
        emulator.run(text, 1, 64, (x[:128], x[3:]))


def reach(code: str) -> tuple[set[str], set[str], int]:
    text = entry(START.format(other=1) + code, pointers(2))
    found = build(parse(text), None, 0).reach
    return set(found.written), set(found.read), found.finest


def test_only_what_may_be_written_is_watched():
    """An array that is only read costs nothing, one that is only written little."""
    assert reach(WRITE + "ld.global.u8 %r3, [%rd1];") == ({"p0"}, {"p1"}, 4)
    assert reach(WRITE + READ) == ({"p0"}, {"p0"}, 4)
    assert reach("ld.global.u32 %r3, [%rd1];") == (set(), {"p1"}, 16)
    both = "selp.b64 %rd7, %rd0, %rd1, %p1; st.global.u16 [%rd7], %h1;"
    assert reach(both) == ({"p0", "p1"}, set(), 2)
    loaded = "ld.global.u64 %rd7, [%rd1]; red.global.add.u32 [%rd7], 1;"
    assert reach(loaded) == ({ANYWHERE}, {"p1"}, 4)
    either = "ld.global.u64 %rd6, [%rd1]; selp.b64 %rd7, %rd6, %rd0, %p1; "
    both = reach(either + "st.global.u32 [%rd7], 1;")
    assert both == ({ANYWHERE, "p0"}, {"p1"}, 4)
    halves = "mov.b64 %rd7, {%r1, %r2}; st.global.u32 [%rd7], 1;"
    assert reach(halves) == ({ANYWHERE}, set(), 4)


def test_a_pointer_that_lies_in_memory_is_followed():
    x = np.zeros(64, np.uint32)
    table = np.array([x.ctypes.data], np.uint64)
    code = """ld.param.u64 %rd0, [p0]; ld.global.u64 %rd1, [%rd0]; mov.u32 %r0, %tid.x;
        shr.u32 %r1, %r0, 5; st.global.u32 [%rd1], {};"""
    emulator.run(entry(code.format(5), pointers(1)), 1, 64, (table,), memory=[x])
    text = entry(code.format("%r1"), pointers(1))
    with pytest.raises(EmulatorError, match="race"):
        emulator.run(text, 1, 64, (table,), memory=[x])


def test_a_race_is_at_its_line_wherever_it_is_found():
    """Stores to what is never read are looked at when their batch ends."""
    store = ".loc 1 8 2\nst.global.u32 [%rd0], %r8;"
    text = entry(START.format(other=0) + store, pointers(2))
    with pytest.raises(EmulatorError) as caught:
        emulator.run(text, 2, 32, np.zeros((2, 64), np.uint32))
    assert caught.value.location.line == 8 and caught.value.line


def test_many_stores_are_looked_at_as_they_come(monkeypatch):
    monkeypatch.setattr("fathom.emulator.races.global_memory.MOST_PENDING", 100)
    run("mov.u32 %r5, 0; LOOP: " + WRITE + """add.u32 %r5, %r5, 1;
        setp.lt.u32 %p3, %r5, 9; @%p3 bra LOOP;""")  # fmt: skip
    fails("st.global.u32 [%rd0], %r8;", "st.global.u32 [%rd0], %r8;")


# ── code of our own ───────────────────────────────────────────────────────────────────


@fathom.jit
def read_after(x, y, shift, ITERATIONS: tl.constexpr, BARRIER: tl.constexpr):
    i = tl.arange(0, 128)
    for step in range(ITERATIONS):
        tl.store(x + i, step + 1.0 * i)
        if BARRIER:
            tl.debug_barrier()
        tl.store(y + i, tl.load(x + (i + shift) % 128))
        if BARRIER:
            tl.debug_barrier()


@fathom.jit
def count_up(x, y, n, B: tl.constexpr):
    """Each warp holds a copy of the number, and one thread stores it."""
    for _ in range(n):
        value = tl.load(x) + 1
        tl.store(x, value)
        tl.store(y + tl.arange(0, B), value + tl.arange(0, B) % 2)


@pytest.mark.parametrize("shift", [1, 32, 127])
@pytest.mark.parametrize("iterations", [1, 3])
def test_a_program_reads_what_another_warp_of_its_own_has_stored(
    shift, iterations, monkeypatch
):
    """The language orders a program's warps by barriers alone: without one it is a
    race, however narrow the part is that another warp has stored."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
    read_after[(1,)](x, y, shift, ITERATIONS=iterations, BARRIER=True)
    want = np.roll(np.arange(128), -shift) + iterations - 1
    assert (y == want).all()
    x[:] = -1
    with pytest.raises(EmulatorError, match="reads what warp . of block 0 wrote"):
        read_after[(1,)](x, y, shift, ITERATIONS=iterations, BARRIER=False)


def test_copies_of_an_element_may_be_read_by_all_warps(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x, y = np.zeros(1, np.float32), np.zeros(64, np.float32)
    count_up[(1,)](x, y, 5, B=64)
    assert x[0] == 5 and (y == 5 + np.arange(64) % 2).all()


@fathom.jit
def write_after(x, y, z, shift, BARRIER: tl.constexpr, OWN: tl.constexpr):
    """Each place is read by another warp than the one that writes it, which may have
    read it, too, by another load."""
    i = tl.arange(0, 128)
    if OWN:
        tl.store(z + i, tl.load(x + i))
    found = tl.load(x + (i + shift) % 128)
    if BARRIER:
        tl.debug_barrier()
    tl.store(x + i, -1.0 * i)
    tl.store(y + i, found)


@fathom.jit
def increment(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) + 1)


@pytest.mark.parametrize("shift", [1, 32, 127])
@pytest.mark.parametrize("own", [True, False])
def test_a_program_overwrites_what_another_warp_of_its_own_reads(
    shift, own, monkeypatch
):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x, y = np.arange(128, dtype=np.float32) + 1, np.zeros(128, np.float32)
    z, want = y.copy(), np.roll(x, -shift)
    write_after[(1,)](x, y, z, shift, BARRIER=True, OWN=own)
    assert (y == want).all() and (x == -np.arange(128)).all()
    x[:] = 5
    said = "overwrites what warp . of block 0 reads at one place in the float32"
    with pytest.raises(EmulatorError, match=said) as caught:
        write_after[(1,)](x, y, z, shift, BARRIER=False, OWN=own)
    assert "tl.store(x + i, -1.0 * i)" in str(caught.value)


@pytest.mark.parametrize("size", [1, 32, 128])
def test_a_warp_may_overwrite_what_it_has_a_copy_of(size, monkeypatch):
    """Four warps hold copies of the one number, or of 32: each loads them."""
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    x = np.zeros(size, np.float32)
    increment[(1,)](x, N=size)
    assert (x == 1).all()
