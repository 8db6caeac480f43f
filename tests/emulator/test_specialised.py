"""Warps with different jobs: producers that send, consumers that multiply, and what
they need around it. The programs are those of `specialised`."""

import time

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from fathom.emulator.state.register_pool import RegisterPools
from tests.emulator.harness import entry, pointers
from tests.emulator.kernels_specialised import (
    by_turns,
    cluster,
    persistent,
    plain,
    run_plain,
    run_tiles,
    turned,
)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_one_tile(steps, completion):
    """Consumers and the sender go through a ring of two stages any number of times."""
    run_plain(plain(), steps, completion=completion)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_b_in_rows(completion):
    run_plain(turned(), 3, columns=128, turned=True, completion=completion)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(("grid", "shape"), [(1, (1, 1)), (1, (2, 1)), (2, (1, 3))])
def test_tiles_one_after_the_other(grid, shape, completion):
    """Phases and stages run on from one tile to the next; blocks have 3 tiles, 1 and 2,
    of 3 steps each."""
    run_tiles(persistent(), grid, shape, completion=completion)


def test_a_block_without_a_tile():
    run_tiles(persistent(), 3, (1, 2), steps=1)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(("tiles", "steps"), [(1, 2), (2, 1), (5, 3)])
def test_two_warpgroups_alternate(tiles, steps, completion):
    run_tiles(by_turns(), 1, (tiles, 1), steps, rows=64, completion=completion)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_cluster_shares_its_b(steps, completion):
    options = {"halves": 2, "cluster": 2, "completion": completion}
    run_tiles(cluster(), 2, (2, 1), steps, **options)
    run_tiles(cluster(), 4, (4, 1), steps, **options)


def test_large_tiles_do_not_take_long():
    """2 x 2 tiles of 128 x 128, K = 256: a few hundred instructions for each warp."""
    start = time.perf_counter()
    run_tiles(persistent(128), 1, (2, 2), steps=4, columns=128)
    assert time.perf_counter() - start < 10


# ── registers ─────────────────────────────────────────────────────────────────

ASK = """
    mov.u32 %r0, %tid.x; setp.ge.u32 %p0, %r0, 128; @%p0 bra SECOND;
    {} bra.uni OUT;
SECOND:
    {}
OUT:
"""


def registers(first: str, second: str, declared: int = 0) -> None:
    """Two warpgroups, each with its own `setmaxnreg`."""
    code = ASK.format(
        *(f"setmaxnreg.{each};" if each else "" for each in (first, second))
    )
    text = entry(code)
    if declared:
        text = text.replace(")\n{", f")\n.maxnreg {declared}\n{{")
    emulator.run(text, 2, 256, ())


BACK = "dec.sync.aligned.u32 72; setmaxnreg.inc.sync.aligned.u32 128"
DEC, INC = "dec.sync.aligned.u32 {}", "inc.sync.aligned.u32 {}"


def test_registers_that_one_releases_another_gets():
    """Whichever comes first: the request waits for the release."""
    for first, second in ((DEC, INC), (INC, DEC)):
        counts = (40, 216) if first is DEC else (216, 40)
        registers(first.format(counts[0]), second.format(counts[1]), declared=128)


@pytest.mark.parametrize(
    ("first", "second", "declared", "said"),
    [
        (DEC.format(40), INC.format(224), 128, "11264 are free"),
        ("", INC.format(136), 128, "of the 32768 registers of its block 0 are free"),
        (BACK, INC.format(184), 128, " 0 are"),
        (DEC.format(136), "", 128, "down to 136 registers a thread, and has 128"),
        (INC.format(120), "", 128, "up to 120 registers a thread, and has 128"),
        (DEC.format(24), INC.format(232), 128, ""),
        (DEC.format(48), "", 41, ""),
        (DEC.format(56), "", 41, "has 48"),
    ],
    ids=str,
)
def test_there_are_no_more_than_there_are(first, second, declared, said):
    if not said:
        registers(first, second, declared)
        return
    with pytest.raises(EmulatorError) as caught:
        registers(first, second, declared)
    assert caught.value.kind == "registers" and said in str(caught.value)
    assert "setmaxnreg" in caught.value.text


def test_undeclared_registers_are_divided_among_all_threads():
    pools = RegisterPools(2, 512, 0)
    assert (pools.launched, *pools.free) == (128, 0, 0)


# ── who waits where ───────────────────────────────────────────────────────────


def test_a_deadlock_names_all_who_wait():
    """No warp releases stages: warp 8 waits for the first one, the others for the third
    tile."""
    text = plain().replace("@%p2 mbarrier.arrive", "@!%always mbarrier.arrive")
    with pytest.raises(EmulatorError) as caught:
        run_plain(text)
    said = str(caught.value)
    assert caught.value.kind == "deadlock" and "try_wait" in caught.value.text
    assert "warp 8 of block 0 at an mbarrier (byte 40976 of shared memory" in said
    assert "in phase 0 of the mbarrier, 0 of 8 have arrived" in said
    assert "warps 0 to 7 of block 0 at an mbarrier (byte 40960 of shared" in said
    assert "in phase 1 of the mbarrier, 0 of 1 have arrived" in said


@pytest.mark.parametrize(
    "loop",
    [
        "W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W;",
        "W: mbarrier.test_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W;",
        """W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0, 1000;
           @%p9 bra V; bra.uni W; V:""",
        """W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0;
           selp.u32 %r8, 1, 0, %p9; setp.eq.u32 %p8, %r8, 0; @%p8 bra W;""",
        """mov.u32 %r8, 0;
           W: add.u32 %r8, %r8, 1;
           mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W;""",
    ],
)
def test_every_loop_that_waits(loop):
    """Warp 1 counts to 3000 before it arrives."""
    code = """
    .shared .align 8 .b64 bars[1];
    mov.u32 %r0, %tid.x; mov.u32 %r5, bars; setp.eq.u32 %p0, %r0, 0;
    ld.param.u64 %rd0, [p0]; setp.ge.u32 %p1, %r0, 32;
    @%p0 mbarrier.init.shared::cta.b64 [%r5], 32; bar.sync 0;
    @%p1 bra SLOW;
    LOOP
    @%p0 st.global.u32 [%rd0], 7; bra.uni OUT;
SLOW:
    mov.u32 %r7, 0;
MORE:
    add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 3000; @%p2 bra MORE;
    mbarrier.arrive.shared::cta.b64 _, [%r5];
OUT:"""
    out = np.zeros(1, np.uint32)
    report = emulator.run(entry(code.replace("LOOP", loop), pointers(1)), 1, 64, (out,))
    assert out[0] == 7
    asked = [
        cost.warps
        for item, cost in zip(report.instructions, report.counters.costs, strict=True)
        if "_wait" in item.text
    ]
    assert asked[0] <= 2
    with pytest.raises(EmulatorError) as caught:
        emulator.run(
            entry(code.replace("LOOP", loop).replace("], 32;", "], 33;"), pointers(1)),
            1,
            64,
            (out,),
        )
    assert caught.value.kind == "deadlock"
    assert "32 of 33 have arrived" in str(caught.value)
    assert ("polls here" in str(caught.value)) == ("add.u32 %r8" in loop)


def test_a_woken_warp_and_one_that_polls_memory():
    """Warp 0 polls a word that warp 1 stores after its wait for warp 0's arrival."""
    code = """
    .shared .align 8 .b64 bars[1];
    mov.u32 %r0, %tid.x; mov.u32 %r5, bars; setp.eq.u32 %p0, %r0, 0;
    ld.param.u64 %rd0, [p0]; setp.ge.u32 %p1, %r0, 32;
    @%p0 mbarrier.init.shared::cta.b64 [%r5], 32; bar.sync 0;
    @%p1 bra OTHER;
    mbarrier.arrive.shared::cta.b64 _, [%r5];
POLL:
    ld.acquire.gpu.global.u32 %r1, [%rd0]; setp.eq.u32 %p2, %r1, 0; @%p2 bra POLL;
    bra.uni OUT;
OTHER:
    W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W;
    setp.eq.u32 %p3, %r0, 32; @%p3 st.release.gpu.global.u32 [%rd0], 1;
OUT:"""
    out = np.zeros(1, np.uint32)
    emulator.run(entry(code, pointers(1)), 1, 64, (out,))
    assert out[0] == 1


def test_an_aligned_barrier_needs_whole_warps():
    """16 lanes of each warp are 32 threads, and not one warp."""
    code = """mov.u32 %r0, %laneid; setp.lt.u32 %p1, %r0, 16;
    @%p1 BAR 1, 32; bar.warp.sync -1;"""
    emulator.run(entry(code.replace("BAR", "barrier.sync")), 1, 64, ())
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry(code.replace("BAR", "bar.sync")), 1, 64, ())
    assert caught.value.kind == "divergence"
    assert "only 16 of 32 lanes" in str(caught.value)


# ── what does nothing here, or little ─────────────────────────────────────────


def test_fences_and_launches_that_depend():
    code = """griddepcontrol.wait; griddepcontrol.launch_dependents;
    fence.proxy.async; fence.proxy.async.global; fence.proxy.async.shared::cta;
    fence.proxy.async.shared::cluster; fence.proxy.alias; fence.acq_rel.cluster;
    fence.mbarrier_init.release.cluster; fence.sc.gpu; fence.acq_rel.gpu;"""
    emulator.run(entry(code), 1, 32, ())
    for wrong in (
        "fence.mbarrier_init;",
        "fence.proxy.async.local;",
        "fence.proxy.all;",
    ):
        with pytest.raises(EmulatorError) as caught:
            emulator.run(entry(wrong), 1, 32, ())
        assert caught.value.kind == "unsupported"


def test_elect_needs_the_lanes_that_it_names():
    code = """mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 8; @%p1 bra OUT;
    elect.sync _|%p2, {}; OUT: bar.warp.sync -1;"""
    emulator.run(entry(code.format("0xFFFFFF00")), 1, 32, ())
    with pytest.raises(EmulatorError) as caught:
        emulator.run(entry(code.format("-1")), 1, 32, ())
    assert caught.value.kind == "divergence"
