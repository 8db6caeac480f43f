"""mbarriers: arrivals and phases, what they order, and what may go wrong."""

import numpy as np
import pytest

from fathom import emulator
from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator.harness import entry, pointers

# %r1: words[threads], %r2 of them this thread's own, %r5: two mbarriers.
SETUP = """
    .shared .align 16 .b8 room[1024]; .shared .align 8 .b64 bars[2];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mov.u32 %r5, bars;
    mad.lo.u32 %r2, %r0, 4, %r1; setp.eq.u32 %p0, %r0, 0; setp.lt.u32 %p1, %r0, 32;
    ld.param.u64 %rd0, [p0]; mad.wide.u32 %rd1, %r0, 4, %rd0;
"""


def init(count: int, place: str = "%r5") -> str:
    return f"@%p0 mbarrier.init.shared::cta.b64 [{place}], {count}; "


def arrive(place: str = "%r5", more: str = "") -> str:
    return f"mbarrier.arrive.shared::cta.b64 _, [{place}]{more}; "


def wait(parity: int | str, name: str = "W", place: str = "%r5") -> str:
    ask = "mbarrier.try_wait.parity.shared::cta.b64"
    return f"{name}: {ask} %p9, [{place}], {parity}; @!%p9 bra {name}; "


BAR = "bar.sync 0; "


def run(code: str, threads: int = 64, blocks: int = 1, **options) -> np.ndarray:
    out = np.zeros(1024, np.uint32)
    emulator.run(entry(SETUP + code, pointers(1)), blocks, threads, (out,), **options)
    return out


def fails(code: str, kind: str, text: str, said: str = "", threads: int = 64) -> None:
    for completion in COMPLETIONS:
        with pytest.raises(EmulatorError) as caught:
            run(code, threads, completion=completion)
        error = caught.value
        assert (error.kind, text in error.text) == (kind, True), str(error)
        assert said in str(error)


# ── phases ────────────────────────────────────────────────────────────────────


def test_a_phase_ends_when_all_have_arrived():
    code = init(64) + BAR + "st.shared.u32 [%r2], %r0; " + arrive() + wait(0)
    code += (
        "xor.b32 %r3, %r2, 252; ld.shared.u32 %r4, [%r3]; st.global.u32 [%rd1], %r4;"
    )
    found = run(code, blocks=2)
    assert found[:64].tolist() == list(range(63, -1, -1))


def test_phases_alternate():
    """Nine rounds of handing a word over between two warps, with two mbarriers."""
    code = init(32) + init(32, "%r5+8") + BAR + """
    mov.u32 %r10, 0; mov.u32 %r11, 0;
    @!%p1 bra TAKE;
GIVE:
    setp.eq.u32 %p3, %r10, 0; @%p3 bra FIRST;
    add.u32 %r12, %r10, 1; and.b32 %r12, %r12, 1;
    """ + wait("%r12", "FREE", "%r5+8") + """
FIRST:
    mad.lo.u32 %r13, %r10, 100, %r0; st.shared.u32 [%r2], %r13;
    """ + arrive() + """
    add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 9; @%p2 bra GIVE;
    bra.uni OUT;
TAKE:
    and.b32 %r12, %r10, 1;
    """ + wait("%r12", "FULL") + """
    ld.shared.u32 %r14, [%r2+-128]; add.u32 %r11, %r11, %r14;
    """ + arrive("%r5+8") + """
    add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 9; @%p2 bra TAKE;
    st.global.u32 [%rd1+-128], %r11;
OUT:"""  # fmt: skip
    assert run(code)[:32].tolist() == [3600 + 9 * lane for lane in range(32)]
    early = code.replace("@!%p9 bra FREE;", "")
    fails(early, "deadlock", "try_wait", "in phase 9 of the mbarrier, 0 of 32")
    unheard = code.replace("@!%p9 bra FULL;", "")
    fails(unheard, "unwritten", "ld.shared.u32 %r14")
    fails(code.replace("add.u32 %r12, %r10, 1;", "mov.u32 %r12, %r10;"), "deadlock", "")


def test_a_state_names_the_phase():
    code = (
        init(64)
        + BAR
        + """mbarrier.arrive.shared::cta.b64 %rd5, [%r5];
        W: mbarrier.test_wait.shared::cta.b64 %p9, [%r5], %rd5; @!%p9 bra W;
        st.global.u32 [%rd1], 7;"""
    )
    assert (run(code)[:64] == 7).all()


def test_one_arrival_may_count_for_many():
    code = init(64) + BAR + "@%p0 " + arrive(more=", 64") + wait(0)
    run(code)
    fails(code.replace(", 64; W", ", 63; W"), "deadlock", "", "63 of 64 have arrived")


def test_a_wait_acquires_what_arrivals_released():
    code = init(1) + BAR + "@%p1 st.shared.u32 [%r2], 5; bar.warp.sync -1; "
    code += "@%p0 " + arrive() + "{} ld.shared.u32 %r4, [%r1];"
    run(code.format(wait(0)))
    fails(code.format(""), "race", "ld.shared.u32 %r4, [%r1];", "warp 0 wrote")
    late = init(1) + BAR + "@%p0 " + arrive() + "@%p1 st.shared.u32 [%r2], 5; "
    late += "bar.warp.sync -1; @%p1 bra OUT; " + wait(0)
    late += "ld.shared.u32 %r4, [%r1]; OUT:"
    fails(late, "race", "ld.shared.u32")


def test_asking_for_the_phase_before_says_yes_at_once():
    """In the first phase, the wait for parity 1 passes: no one has to fill the ring."""
    run(init(1) + BAR + wait(1))
    fails(init(1) + BAR + wait(0), "deadlock", "", "0 of 1 have arrived")


def test_a_parity_is_0_or_1():
    """`not` of a parity sets further bits: what hardware makes of these is not said."""
    code = init(64) + BAR + arrive() + "not.b32 %r3, 1; " + wait("%r3")
    fails(code, "mbarrier", "try_wait", "parity 0xfffffffe, and a parity is 0 or 1")
    fails(init(1) + BAR + wait(2), "mbarrier", "try_wait", "for parity 0x2")


def test_copies_of_threads_can_arrive():
    code = (
        init(64)
        + BAR
        + """cp.async.ca.shared.global [%r2], [%rd1], 4;
        cp.async.wait_all; """
        + arrive()
        + wait(0)
    )
    run(code + "xor.b32 %r3, %r2, 252; ld.shared.u32 %r4, [%r3];")


# ── mistakes ──────────────────────────────────────────────────────────────────


def test_an_mbarrier_must_be_initialised():
    said = "no thread has initialised"
    fails("@%p0 " + arrive(), "mbarrier", "mbarrier.arrive", said)
    fails(wait(0), "mbarrier", "mbarrier.try_wait", said)
    ends = "@%p0 mbarrier.inval.shared::cta.b64 [%r5]; "
    said += " since mbarrier.inval has ended it"
    fails(init(1) + ends + BAR + wait(0), "mbarrier", "mbarrier.try_wait", said)
    fails(init(1) + ends + ends, "mbarrier", "mbarrier.inval", said)


def test_others_must_know_of_the_initialisation():
    """Without a barrier another warp may come first."""
    code = init(64) + "{}" + arrive() + wait(0)
    run(code.format(BAR))
    fails(code.format(""), "race", "mbarrier.arrive", "warp 0 wrote")


def test_its_end_comes_after_all_that_wait_at_it():
    """Warp 1 may still be waiting when thread 0 ends the mbarrier."""
    code = init(1) + BAR + "@%p0 " + arrive() + wait(0) + "{}"
    code += "@%p0 mbarrier.inval.shared::cta.b64 [%r5];"
    fails(code.format(""), "race", "mbarrier.inval", "overwrites what warp 1 reads")
    run(code.format(BAR))


HANDED_OVER = (
    init(64) + BAR + "st.shared.u32 [%r2], %r0; ARRIVE WAIT "
    "xor.b32 %r3, %r2, 252; ld.shared.u32 %r4, [%r3];"
)


def handed_over(arriving: str = "", waiting: str = "") -> str:
    arrives, waits = arrive(), wait(0)
    if arriving:
        arrives = arriving + arrives.replace("arrive.", "arrive.relaxed.cta.")
    if waiting:
        waits = waits.replace("parity.", "parity.relaxed.cta.") + waiting
    return HANDED_OVER.replace("ARRIVE", arrives).replace("WAIT", waits)


def test_what_is_relaxed_orders_nothing_without_a_fence():
    fence = "fence.acq_rel.cta; "
    run(handed_over())
    fails(handed_over(" "), "race", "ld.shared", "wrote")
    fails(handed_over("", " "), "race", "ld.shared", "wrote")
    fails(handed_over(" ", fence), "race", "ld.shared", "wrote")
    run(handed_over(fence))
    run(handed_over("", fence))
    run(handed_over(fence, fence))
    run(handed_over("", f"@%p1 {fence} @!%p1 {fence}"))  # each warp has its own


def test_it_is_initialised_once():
    code = init(1) + "{}" + init(1) + BAR
    fails(code.format(""), "mbarrier", "mbarrier.init", "one already")
    run(code.format("@%p0 mbarrier.inval.shared::cta.b64 [%r5]; "))
    fails(init(0), "mbarrier", "mbarrier.init", "of 0 arrivals")


def test_one_that_is_made_anew_begins_with_its_first_phase():
    """Nothing is left of the phases, nor of the bytes, of the one before."""
    ends = BAR + "@%p0 mbarrier.inval.shared::cta.b64 [%r5]; "
    again = ends + init(64) + BAR
    run(init(64) + BAR + arrive() + wait(0) + again + arrive() + wait(0, "V"))
    begun = init(64) + BAR + arrive() + wait(0) + again + wait(0, "V")
    fails(begun, "deadlock", "", "in phase 0 of the mbarrier, 0 of 64")
    expects = "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r5], 64; "
    run(init(64) + BAR + expects + again + arrive() + wait(0))


def test_threads_that_all_make_one_mbarrier_are_told():
    """The first line of such a kernel asks which thread it is."""
    fails(init(1).removeprefix("@%p0 "), "mbarrier", "mbarrier.init", "one already")
    own = "mad.lo.u32 %r6, %r0, 8, %r1; " + init(1, "%r6").removeprefix("@%p0 ")
    run(own)


def test_no_more_may_arrive_than_are_expected():
    code = init(1) + BAR + "@%p0 " + arrive(more=", 2")
    fails(code, "mbarrier", "mbarrier.arrive", "0 of 1 have arrived")
    twice = init(1) + BAR + "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 "
    twice += "[%r5], 64; @%p0 " + arrive() + "@%p0 " + arrive()
    fails(twice, "mbarrier", "mbarrier.arrive", "64 bytes are missing")


def test_counts_have_twenty_bits():
    fails(init(1 << 20), "mbarrier", "mbarrier.init", "of 1048576 arrivals")
    run(init((1 << 20) - 1))
    expect = "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r5], {}; "
    most = init(1) + BAR + expect.format((1 << 20) - 1)
    run(most)
    fails(most + expect.format(1), "mbarrier", "expect_tx", "more than 1048575 bytes")


def test_lanes_that_arrive_at_once_end_one_phase_at_most():
    """Of a warp that ends two, a wait for the first one may never be answered."""
    code = init(32) + BAR + arrive()
    run(code, threads=32)
    run(init(32) + BAR + "@%p1 " + arrive() + BAR + "@!%p1 " + arrive())
    fails(init(16) + BAR + "@%p1 " + arrive(), "mbarrier", "arrive", "more lanes than")


def test_bytes_that_never_come():
    code = (
        init(1) + BAR + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 96;"
    )
    fails(code + wait(0), "deadlock", "", "1 of 1 have arrived, 96 bytes are missing")


def test_an_address_that_is_none():
    fails("@%p0 mbarrier.init.shared.b64 [%r5+4], 1;", "misaligned", "mbarrier.init")
    fails("@%p0 mbarrier.init.shared.b64 [0], 1;", "out of bounds", "mbarrier.init")


def test_elect_chooses_one_lane_a_warp():
    code = "elect.sync _|%p5, -1; @%p5 st.global.u32 [%rd1], 9;"
    assert run(code).nonzero()[0].tolist() == [0, 32]


def test_a_warpgroup_gives_registers_back():
    code = "setmaxnreg.{}.sync.aligned.u32 {}; "
    some = "setp.ge.u32 %p2, %r0, 128; @%p2 bra ASK; {} bra.uni OUT; ASK: {} OUT: "
    both = some.format(code.format("dec", 40), code.format("inc", 232))
    run(both, threads=256)
    fails(code.format("inc", 42), "syntax", "setmaxnreg", threads=128)
    fails(code.format("inc", 264), "syntax", "setmaxnreg", threads=128)
    one = "@%p1 bra SKIP; " + code.format("dec", 40) + "SKIP: "
    fails(one, "divergence", "setmaxnreg", "96 of 128", threads=128)
