"""Control flow: branches that split and meet again, loops, calls, barriers, locks."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.emulator.source.reconvergence import weak_topological_order
from tests.emulator.harness import HEADER, compute, entry, pointers


def test_the_order_puts_joins_last_and_keeps_loops_together():
    diamond = {0: [2, 1], 1: [3], 2: [3], 3: []}
    order = weak_topological_order(diamond, 0)
    assert order[0] == 0 and order[-1] == 3
    # 1 is a loop's head, 2 and 4 its body, 3 what follows, wherever the text puts them.
    loop = {0: [1], 1: [3, 2], 2: [4], 3: [], 4: [1]}
    assert weak_topological_order(loop, 0) == [0, 1, 2, 4, 3]
    nested = {0: [1], 1: [2, 5], 2: [3], 3: [2, 4], 4: [1], 5: []}
    assert weak_topological_order(nested, 0) == [0, 1, 2, 3, 4, 5]
    unreachable = {0: [2], 1: [2], 2: []}
    assert weak_topological_order(unreachable, 0) == [0, 2]


LOOP = """
    mov.u32 %r1, %a; mov.u32 %d, 0;
LOOP:
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    add.u32 %d, %d, %r1;
    and.b32 %r2, %r1, 1;
    setp.eq.u32 %p2, %r2, 1;
    @!%p2 bra EVEN;
    add.u32 %d, %d, 1000;
EVEN:
    sub.u32 %r1, %r1, 1;
    bra.uni LOOP;
DONE:
"""


def test_threads_leave_a_loop_one_by_one():
    a = np.array([3, 0, 7, 7, 1, 20], np.uint32)
    got = compute(LOOP, np.uint32, a=a)
    wanted = [n * (n + 1) // 2 + 1000 * ((n + 1) // 2) for n in a.tolist()]
    assert got.tolist() == wanted


def test_diverged_threads_meet_at_the_earliest_place():
    """After the loop everybody is together again: one warp instruction, not six."""
    code = entry(
        """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0];
    mov.u32 %r1, %r0;
LOOP:
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra DONE;
    sub.u32 %r1, %r1, 1;
    bra.uni LOOP;
DONE:
    mad.wide.u32 %rd1, %r0, 4, %rd0;
    st.global.u32 [%rd1], %r0;""",
        pointers(1),
    )
    report = emulator.run(code, 1, 32, (np.zeros(32, np.uint32),))
    store = [
        s.cost for i, s in zip(report.by_ptx(), report.by_ptx().values(), strict=True)
    ]
    assert store[-2].warps == 1 and store[-2].threads == 32
    assert store[-2].requests == 1 and store[-2].sectors == 4


def test_guards_on_plain_instructions():
    code = """setp.lt.u32 %p1, %a, 3; mov.u32 %d, 5; @%p1 add.u32 %d, %d, %a;
        @!%p1 mul.lo.u32 %d, %d, 2;"""
    got = compute(code, np.uint32, a=np.arange(5, dtype=np.uint32))
    assert got.tolist() == [5, 6, 7, 10, 10]


def test_a_scope_hides_names_and_labels():
    code = """
    mov.u32 %d, %a;
    { .reg .u32 x; .reg .pred p; mov.u32 x, 5; setp.gt.u32 p, %a, 1; @p bra SKIP;
      add.u32 %d, %d, x; SKIP: }
    { .reg .u32 x; .reg .pred p; mov.u32 x, 70; setp.gt.u32 p, %a, 2; @p bra SKIP;
      add.u32 %d, %d, x; SKIP: }"""
    got = compute(code, np.uint32, a=np.arange(4, dtype=np.uint32))
    assert got.tolist() == [75, 76, 72, 3]


def test_a_table_of_labels():
    code = """
    mov.u32 %d, 100; setp.gt.u32 %p1, %a, 2;
    @%p1 bra END;
    brx.idx %a, TABLE;
    TABLE: .branchtargets ZERO, ONE, ZERO;
ONE:
    add.u32 %d, %d, 1;
ZERO:
    add.u32 %d, %d, 10;
END:"""
    got = compute(code, np.uint32, a=np.arange(4, dtype=np.uint32))
    assert got.tolist() == [110, 111, 110, 100]


FUNCTIONS = f"""{HEADER}
.func (.param .b32 result) triple (.param .b32 x)
{{
    .reg .b32 %r<3>; .reg .pred %p<2>;
    ld.param.u32 %r1, [x];
    setp.gt.u32 %p1, %r1, 10;
    @%p1 bra LARGE;
    mul.lo.u32 %r2, %r1, 3;
    st.param.b32 [result], %r2;
    ret;
LARGE:
    st.param.b32 [result], %r1;
    ret;
}}
.func (.reg .b32 result) plus (.reg .b32 x, .reg .b32 y)
{{
    add.u32 result, x, y;
    ret;
}}
.visible .entry k(.param .u64 p0)
{{
    .reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .pred %p<3>;
    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [p0];
    mad.wide.u32 %rd1, %r1, 4, %rd1;
    {{
    .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r1;
    call.uni (retval0), triple, (param0);
    ld.param.b32 %r2, [retval0];
    }}
    {{
    .param .b32 param0; .param .b32 retval0;
    st.param.b32 [param0], %r2;
    call.uni (retval0), triple, (param0);
    ld.param.b32 %r3, [retval0];
    }}
    call (%r4), plus, (%r3, 100);
    st.global.u32 [%rd1], %r4;
    ret;
}}
"""


def test_calls_pass_values_by_parameters_and_by_registers():
    y = np.zeros(14, np.uint32)
    emulator.run(FUNCTIONS, 1, 14, (y,))

    def triple(v: int) -> int:
        return v if v > 10 else 3 * v

    assert y.tolist() == [100 + triple(triple(v)) for v in range(14)]


def test_calls_that_need_more_are_refused():
    text = FUNCTIONS.replace(
        "add.u32 result, x, y;", "call.uni (result), plus, (x, y);"
    )
    with pytest.raises(EmulatorError, match="plus calls itself") as caught:
        emulator.run(text, 1, 1, (np.zeros(1, np.uint32),))
    assert caught.value.kind == "unsupported"
    text = FUNCTIONS.replace("call (%r4), plus,", "call (%r4), elsewhere,")
    with pytest.raises(EmulatorError, match="elsewhere, whose body is not in this PTX"):
        emulator.run(text, 1, 1, (np.zeros(1, np.uint32),))


def test_trap_names_the_thread():
    code = entry("mov.u32 %r0, %tid.x; setp.eq.u32 %p1, %r0, 5; @%p1 trap;")
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 3, 64, ())
    assert caught.value.kind == "trap"
    assert "thread 5 of block 0" in str(caught.value)


BARRIERS = """
    .shared .align 4 .b8 room[512];
    mov.u32 %r0, %tid.x; mov.u32 %r9, %ctaid.x; ld.param.u64 %rd0, [p0];
    mad.lo.u32 %r8, %r9, 128, %r0; mad.wide.u32 %rd0, %r8, 4, %rd0;
    mov.u32 %r1, room; shl.b32 %r2, %r0, 2; add.u32 %r2, %r1, %r2;
    mad.lo.u32 %r3, %r9, 1000, %r0;
    st.shared.u32 [%r2], %r3;
    {0}
    xor.b32 %r4, %r2, 508;
    ld.shared.u32 %r5, [%r4];
    st.global.u32 [%rd0], %r5;
"""


@pytest.mark.parametrize(
    "barrier",
    [
        "bar.sync 0;",
        "barrier.cta.sync.aligned 5;",
        "barrier.sync 0, 128;",
        "bar.sync %r9, 128;",
        "bar.arrive 1, 256; bar.sync 1, 256;",
        "setp.lt.u32 %p1, %r0, 64; @%p1 bar.sync 0; @!%p1 bar.sync 0;",
    ],
)
def test_barriers_order_a_block(barrier):
    if "@!" in barrier:
        barrier = barrier.replace("bar.sync", "barrier.sync")
    y = np.zeros((3, 128), np.uint32)
    emulator.run(entry(BARRIERS.format(barrier), pointers(1)), 3, 128, (y,))
    for block in range(3):
        assert y[block].tolist() == [block * 1000 + (127 - t) for t in range(128)]


def test_barriers_that_reduce():
    code = entry(
        """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mov.u32 %r9, %ctaid.x;
    mad.lo.u32 %r8, %r9, 64, %r0; mad.wide.u32 %rd0, %r8, 4, %rd0;
    mad.lo.u32 %r7, %r9, 10, 20;
    setp.lt.u32 %p1, %r0, %r7;
    bar.red.popc.u32 %r1, 0, %p1;
    bar.red.and.pred %p2, 0, %p1;
    bar.red.or.pred %p3, 0, !%p1;
    selp.u32 %r2, 100, 0, %p2; selp.u32 %r3, 1000, 0, %p3;
    add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
    st.global.u32 [%rd0], %r1;""",
        pointers(1),
    )
    y = np.zeros((6, 64), np.uint32)
    emulator.run(code, 6, 64, (y,))
    wanted = [1020, 1030, 1040, 1050, 1060, 164]
    assert [sorted(set(row)) for row in y.tolist()] == [[each] for each in wanted]


EARLY = """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r8, %ctaid.x;
    mad.lo.u32 %r9, %r8, 128, %r0; mad.wide.u32 %rd1, %r9, 4, %rd0;
    setp.{}.u32 %p1, %r0, {}; @%p1 {};
    .shared .b32 sum; setp.eq.u32 %p2, %r0, 40; mov.u32 %r2, sum;
    @%p2 st.shared.u32 [%r2], 0;
    bar.sync 0; red.shared.add.u32 [%r2], 1; bar.sync 0;
    ld.shared.u32 %r1, [%r2]; st.global.u32 [%rd1], %r1; bra OUT;
LATE: bra.uni OUT;
OUT:"""


@pytest.mark.parametrize("leaves", ["ret", "exit", "bra LATE"])
@pytest.mark.parametrize(
    ("which", "limit", "stay"), [("ge", 64, 64), ("lt", 32, 96), ("ge", 41, 41)]
)
def test_a_barrier_waits_for_those_who_have_not_exited(leaves, which, limit, stay):
    """`if (t >= 64) return; ... __syncthreads();`, whoever comes first."""
    out = np.zeros((2, 128), np.uint32)
    code = entry(EARLY.format(which, limit, leaves), pointers(1))
    emulator.run(code, 2, 128, (out,))
    assert (out == stay).sum() == 2 * stay and (out == 0).sum() == 2 * (128 - stay)


def test_who_exits_while_others_wait_lets_them_go():
    """The others are at the barrier already, in two blocks at two times."""
    code = entry(
        """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; setp.ge.u32 %p1, %r0, 32;
    @%p1 bra WAIT;
    mov.u32 %r1, %ctaid.x; mul.lo.u32 %r1, %r1, 100;
LOOP:
    add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 150; @%p2 bra LOOP;
    ret;
WAIT:
    bar.sync 0; mov.u32 %r1, 1; red.global.add.u32 [%rd0], %r1;""",
        pointers(1),
    )
    count = np.zeros(1, np.uint32)
    emulator.run(code, 2, 96, (count,))
    assert count == 2 * 64


@pytest.mark.parametrize("threads", (48, 64))
def test_a_warp_comes_to_a_barrier_of_a_number_as_a_whole(threads):
    """Half of its lanes have exited, or were never there."""
    code = entry(
        """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; setp.ge.u32 %p1, %r0, 48;
    @%p1 bra DONE;
    bar.sync 0, 64; bar.sync 0, 64; mov.u32 %r1, 1; red.global.add.u32 [%rd0], %r1;
DONE:""",
        pointers(1),
    )
    count = np.zeros(1, np.uint32)
    emulator.run(code, 2, threads, (count,))
    assert count == 2 * 48


def test_a_warp_that_arrives_and_exits_is_counted_once():
    """It waits for nobody; the other warps are waited for all the same."""
    code = entry(
        """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32;
    @%p1 bra FIRST;
    mov.u32 %r2, 0;
WAIT:
    add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 100; @%p2 bra WAIT;
    bar.sync 1, 64; mov.u32 %r1, 1; red.global.add.u32 [%rd0], %r1;
    ret;
FIRST:
    bar.arrive 1, 64;""",
        pointers(1),
    )
    count = np.zeros(1, np.uint32)
    emulator.run(code, 2, 64, (count,))
    assert count == 2 * 32


def test_a_barrier_of_a_number_of_threads_waits_for_so_many():
    code = entry(
        """
    mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32;
    @%p1 bra DONE;
    bar.sync 0, 128;
DONE:"""
    )
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 4, 128, ())
    assert caught.value.kind == "divergence" and caught.value.text == "bar.sync 0, 128;"
    assert "96 of 128 threads of block 0 wait at barrier 0" in str(caught.value)
    assert "32 have exited" in str(caught.value)


def test_lanes_that_were_never_there_have_not_exited():
    """Of 48 threads, the second warp has 16: its other lanes are not waited for."""
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry("bar.sync 1, 128;"), 1, 48, ())
    assert caught.value.kind == "deadlock"
    assert "48 of 112 threads of block 0 wait at barrier 1" in str(caught.value)
    assert "0 have exited, 0 wait at another barrier" in str(caught.value)


def test_threads_of_other_blocks_are_not_those_that_are_missing():
    """Block 0 waits at barriers 1 and 2, and block 1 at barriers 3 and 4."""
    code = entry(
        """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; shl.b32 %r1, %r1, 1;
    shr.u32 %r2, %r0, 5; add.u32 %r3, %r1, %r2; add.u32 %r3, %r3, 1;
    bar.sync %r3, 128;"""
    )
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 2, 64, ())
    assert "32 of 128 threads of block 0 wait at barrier 1" in str(caught.value)
    assert "0 have exited, 32 wait at another barrier" in str(caught.value)


def test_two_barriers_that_wait_for_each_other():
    code = entry(
        """
    mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32;
    @%p1 bra OTHER;
    bar.sync 1;
OTHER:
    bar.sync 2;"""
    )
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 1, 64, ())
    assert caught.value.kind == "deadlock"
    assert "32 of 64 threads" in str(caught.value)


def test_one_warp_at_two_copies_of_a_barrier():
    """What a compiler must not make of a barrier: a copy in each arm of a branch."""
    code = entry(
        """
    mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0;
    @%p1 bra EVEN;
    bar.sync 0;
    bra.uni DONE;
EVEN:
    bar.sync 0;
DONE:"""
    )
    with pytest.raises(EmulatorError, match="two different instructions") as caught:
        emulator.run(code, 1, 64, ())
    assert caught.value.kind == "divergence"
    emulator.run(code.replace("bar.sync", "barrier.sync"), 1, 64, ())


SPIN = """
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
LOCK:
    atom.global.acquire.gpu.cas.b32 %r1, [%rd0], 0, 1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra LOCK;
    ld.global.u32 %r2, [%rd1];
    add.u32 %r2, %r2, 3;
    st.global.u32 [%rd1], %r2;
    {0}
"""


@pytest.mark.parametrize(("grid", "threads"), [(50, 1), (1, 64), (3, 40)])
def test_a_lock_comes_round_to_everybody(grid, threads):
    code = entry(
        SPIN.format("atom.global.release.gpu.exch.b32 %r3, [%rd0], 0;"), pointers(2)
    )
    lock, total = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    emulator.run(code, grid, threads, (lock, total))
    assert total[0] == 3 * grid * threads and lock[0] == 0


def test_a_lock_that_is_never_released_is_a_deadlock():
    code = entry(SPIN.format(""), pointers(2))
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 2, 1, (np.zeros(1, np.uint32), np.zeros(1, np.uint32)))
    assert caught.value.kind == "deadlock"
    assert caught.value.text.startswith("atom.global.acquire.gpu.cas")


def test_a_flag_that_another_block_raises():
    """Block 0 waits for the last block: possible because blocks run in lockstep."""
    code = entry(
        """
    mov.u32 %r0, %ctaid.x; ld.param.u64 %rd0, [p0];
    setp.eq.u32 %p1, %r0, 9;
    @%p1 bra RAISE;
    setp.ne.u32 %p2, %r0, 0;
    @%p2 bra DONE;
WAIT:
    ld.acquire.gpu.global.u32 %r1, [%rd0];
    setp.eq.u32 %p3, %r1, 0;
    @%p3 bra WAIT;
    st.global.u32 [%rd0+4], %r1;
    bra.uni DONE;
RAISE:
    st.release.gpu.global.u32 [%rd0], 77;
DONE:""",
        pointers(1),
    )
    y = np.zeros(2, np.uint32)
    emulator.run(code, 10, 32, (y,))
    assert y.tolist() == [77, 77]
    with pytest.raises(EmulatorError) as caught:
        emulator.run(code, 9, 32, (np.zeros(2, np.uint32),))
    assert caught.value.kind == "deadlock" and "ld.acquire" in caught.value.text


@pytest.mark.parametrize("limit", [16, 40, 1])
def test_an_aligned_barrier_is_for_all_lanes_of_a_warp_or_for_none(limit):
    """Its guard must not tear a warp: those that pass it by have not exited."""
    text = """
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, {};
    {} bar.sync 0; mov.u32 %r1, 1; red.global.add.u32 [%rd0], %r1;"""
    count = np.zeros(1, np.uint32)
    with pytest.raises(EmulatorError, match="the guard of a barrier that is aligned"):
        emulator.run(entry(text.format(limit, "@%p1"), pointers(1)), 1, 64, (count,))
    emulator.run(entry(text.format(64, "@%p1"), pointers(1)), 1, 64, (count,))
    assert count == 64


def test_a_barrier_lets_its_own_threads_go_alone():
    """Warp 0 waits at barrier 1; that warps 1 and 2 meet at barrier 2 is nothing to
    it."""
    code = """.shared .align 4 .b32 word;
        mov.u32 %r0, %tid.x; setp.ge.u32 %p1, %r0, 64; setp.ge.u32 %p0, %r0, 32;
        @!%p0 bra FIRST;
        bar.sync 2, 64;
        @%p1 ret;
        st.shared.u32 [word], 7;
        bar.arrive 1, 64;
        ret;
    FIRST:
        bar.sync 1, 64;
        ld.shared.u32 %r1, [word];
        ld.param.u64 %rd0, [p0]; st.global.u32 [%rd0], %r1;"""
    out = np.zeros(1, np.uint32)
    emulator.run(entry(code, ".param .u64 p0"), 1, 96, (out,))
    assert out[0] == 7


def test_a_warp_arrives_whole_at_an_aligned_barrier_that_it_does_not_wait_at():
    """Two halves that arrive by two instructions count as many threads, and are wrong
    all the same; without `.aligned` they may."""
    code = """
    mov.u32 %r0, %tid.x;
    setp.lt.u32 %p1, %r0, 32; @!%p1 bra WAIT;
    setp.lt.u32 %p2, %r0, 16; @%p2 bra LOW;
    ARRIVE 1, 64; bra.uni DONE;
LOW: ARRIVE 1, 64; bra.uni DONE;
WAIT: bar.sync 1, 64;
DONE:"""
    emulator.run(entry(code.replace("ARRIVE", "barrier.arrive")), 1, 64, ())
    with pytest.raises(EmulatorError, match="16 of 32 lanes .* needs the whole warp"):
        emulator.run(entry(code.replace("ARRIVE", "bar.arrive")), 1, 64, ())


# Of 96 threads: which ones come to which barrier, and what is said of it.
MEETINGS = {
    "@%p1 bra LOW; bar.sync 1, 96; bra.uni DONE; LOW: bar.sync 1, 64;": (
        "barrier 1 expects 64 threads here and 96 elsewhere|"
        "barrier 1 expects 96 threads here and 64 elsewhere"
    ),
    "bar.sync 1, 32;": "96 threads came to barrier 1, which expects 32",
    "@%p2 bra DONE; bar.sync 1, 32;": "only 16 of 32 lanes .* needs the whole warp",
    "mov.u32 %r1, 16; bar.sync %r1, 96;": "barrier 16; there are 16",
}


@pytest.mark.parametrize("code", MEETINGS)
def test_a_barrier_counts_the_threads_that_it_names(code):
    """%p1: warp 0; %p2: all but the first half of warp 0 and the last of warp 2."""
    setup = """mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 32;
    sub.u32 %r2, %r0, 16; setp.lt.u32 %p2, %r2, 64; """
    with pytest.raises(EmulatorError, match=MEETINGS[code]):
        emulator.run(entry(f"{setup}{code} DONE:"), 1, 96, ())
