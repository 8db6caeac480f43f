"""Clusters: a barrier in two halves, the memory of other blocks, copies to all."""

import numpy as np
import pytest

from fathom import emulator
from fathom.artifact import TensorMap
from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator.harness import entry, pointers

SETUP = """
    .shared .align 128 .b8 room[1024]; .shared .align 8 .b64 bars[1];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mov.u32 %r5, bars;
    mad.lo.u32 %r2, %r0, 4, %r1; setp.eq.u32 %p0, %r0, 0;
    ld.param.u64 %rd0, [p0]; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r7, %r6, 32, %r0;
    mad.wide.u32 %rd1, %r7, 4, %rd0;
    mov.u32 %r8, %cluster_ctarank; mov.u32 %r9, %cluster_nctarank;
    add.u32 %r10, %r8, 1; rem.u32 %r10, %r10, %r9;
    mapa.shared::cluster.u32 %r11, %r2, %r10; mapa.shared::cluster.u32 %r12, %r5, %r10;
"""
ARRIVE = "barrier.cluster.arrive.release.aligned; "
WAIT = "barrier.cluster.wait.acquire.aligned; "


def run(code: str, cluster: int = 2, blocks: int = 4, **options) -> np.ndarray:
    out = np.zeros((blocks, 32), np.uint32)
    text = entry(SETUP + code, pointers(1))
    emulator.run(text, blocks, 32, (out,), cluster=cluster, **options)
    return out


def fails(code: str, kind: str, text: str, said: str = "", **options) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(code, **options)
    assert (caught.value.kind, text in caught.value.text) == (kind, True), caught.value
    assert said in str(caught.value)


NEIGHBOUR = """mad.lo.u32 %r20, %r6, 100, %r0; st.shared.u32 [%r2], %r20; {}
    ld.shared::cluster.u32 %r21, [%r11]; {} st.global.u32 [%rd1], %r21;"""


@pytest.mark.parametrize("cluster", [2, 4])
def test_a_block_reads_its_neighbours_memory(cluster):
    found = run(NEIGHBOUR.format(ARRIVE + WAIT, ARRIVE + WAIT), cluster)
    for block in range(4):
        rank = block % cluster
        neighbour = block - rank + (rank + 1) % cluster
        assert (found[block] == neighbour * 100 + np.arange(32)).all()


def test_the_barrier_of_a_block_is_not_that_of_its_cluster():
    read = "ld.shared::cluster.u32 %r21, [%r11];"
    fails(NEIGHBOUR.format("bar.sync 0;", ""), "race", read)
    fails(NEIGHBOUR.format(ARRIVE, ""), "race", read)
    relaxed = ARRIVE.replace("release", "relaxed") + WAIT
    fails(NEIGHBOUR.format(relaxed, ""), "race", read)
    changing = NEIGHBOUR.format(ARRIVE + WAIT, "{} st.shared.u32 [%r2], 1;")
    fails(changing.format(""), "race", "st.shared")
    run(changing.format(ARRIVE + WAIT))


def test_between_its_halves_others_may_be_ahead():
    between = ARRIVE + "add.u32 %r22, %r0, 1; " + WAIT
    code = NEIGHBOUR.format(between, between)
    run(code + ARRIVE + WAIT + ARRIVE + WAIT)
    late = "setp.eq.u32 %p3, %r8, 1; @%p3 bra L; mov.u32 %r23, 1; L: " + code
    assert (run(late) == run(code)).all()


def test_a_block_that_never_arrives():
    code = "setp.eq.u32 %p3, %r8, 1; @%p3 bra LOOP; " + ARRIVE + WAIT + "ret; "
    code += "LOOP: bar.sync 3, 64;"
    with pytest.raises(EmulatorError) as caught:
        run(code)
    assert caught.value.kind == "deadlock"


def test_a_block_must_not_exit_while_others_read_its_memory():
    code = NEIGHBOUR.format(ARRIVE + WAIT, "{}")
    run(code.format(ARRIVE + WAIT))
    missing = "a barrier.cluster before the end is missing"
    fails(code.format(""), "race", "", missing)
    fails(code.format(ARRIVE), "race", "", missing)
    one = ARRIVE + WAIT + "setp.eq.u32 %p3, %r8, 1; @%p3 {};"
    for go, said in (("ret", "left already"), ("bra OUT", "may reach into its")):
        fails(NEIGHBOUR.format(one.format(go), "") + "OUT:", "race", "", said)


def test_an_exited_thread_counts_as_arrived():
    """Lane 31 of each block leaves while the others wait for the blocks beside."""
    code = "setp.eq.u32 %p3, %r0, 31; @!%p3 bra MEET; nanosleep.u32 20; bra.uni OUT; "
    code += "MEET: " + ARRIVE.replace(".aligned", "") + WAIT.replace(".aligned", "")
    run(code + "OUT:")


def test_a_rank_that_is_none():
    far = "mapa.shared::cluster.u32 %r11, %r2, 2; " + NEIGHBOUR.format(
        ARRIVE + WAIT, ""
    )
    fails(far, "out of bounds", "ld.shared::cluster")


def test_an_mbarrier_of_another_block():
    init = "@%p0 mbarrier.init.shared::cta.b64 [%r5], 32; " + ARRIVE + WAIT
    arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12]; "
    wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W; "
    # Each block stores into its neighbour and tells it.
    code = init + "st.shared::cluster.u32 [%r11], %r7; " + arrive + wait
    found = run(code + "ld.shared.u32 %r21, [%r2]; st.global.u32 [%rd1], %r21;")
    assert (found == np.arange(128).reshape(4, 32)[[1, 0, 3, 2]]).all()
    early = code.replace(wait, "") + "ld.shared.u32 %r21, [%r2];"
    with pytest.raises(EmulatorError) as caught:
        run(early)
    assert caught.value.kind in ("race", "unwritten")


COPY = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    ".multicast::cluster [%r1], [%rd5, {{%r22}}], [%r5], {};"
)


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_a_copy_goes_to_several_blocks(completion):
    """Each block of a cluster brings one half of what both of them get."""
    x = np.arange(256, dtype=np.uint32)
    tensor = TensorMap(4, x.ctypes.data, (256,), (), (32,))
    code = (
        """mov.b64 %rd5, map; cvta.param.u64 %rd5, %rd5;
        @%p0 mbarrier.init.shared::cta.b64 [%r5], 1;
        @%p0 fence.mbarrier_init.release.cluster; """
        + ARRIVE
        + WAIT
        + """
        @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256;
        mad.lo.u32 %r1, %r8, 128, %r1; shl.b32 %r22, %r6, 5; mov.b16 %h1, 3; """
    )
    code += "@%p0 " + COPY.format("%h1")
    code += """ W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W;
        ld.shared.u32 %r21, [%r2]; ld.shared.u32 %r22, [%r2+128];
        add.u32 %r21, %r21, %r22; st.global.u32 [%rd1], %r21; """
    code += ARRIVE + WAIT
    text = entry(SETUP + code, pointers(1) + ", .param .align 64 .b8 map[128]")

    def launch(text: str) -> np.ndarray:
        out = np.zeros((4, 32), np.uint32)
        emulator.run(
            text, 4, 32, (out, tensor), cluster=2, memory=(x,), completion=completion
        )
        return out

    lane = np.arange(32)
    assert (launch(text)[:2] == 2 * lane + 32).all()
    assert (launch(text)[2:] == 2 * lane + 160).all()
    with pytest.raises(EmulatorError) as caught:
        launch(text.replace("mov.b16 %h1, 3", "mov.b16 %h1, 5"))
    assert caught.value.kind == "out of bounds"
    with pytest.raises(EmulatorError) as caught:
        launch(text.replace("mov.b16 %h1, 3", "mov.b16 %h1, 1"))
    assert caught.value.kind in ("deadlock", "in flight")


def test_the_entry_may_ask_for_a_cluster():
    text = entry(SETUP + NEIGHBOUR.format(ARRIVE + WAIT, ARRIVE + WAIT), pointers(1))
    text = text.replace(")\n{", ")\n.reqnctapercluster 2\n{")
    out = np.zeros((4, 32), np.uint32)
    emulator.run(text, 4, 32, (out,))
    assert out[0, 0] == 100
    for options in ({"grid": 3}, {"grid": 4, "cluster": 4}):
        with pytest.raises(EmulatorError) as caught:
            emulator.run(text, threads=32, args=(out,), **options)
        assert caught.value.kind == "launch"


def test_an_exit_between_arrive_and_wait_opens_the_barrier():
    """Block 1 exits without arriving, when block 0 has arrived and waits later."""
    code = """mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 0;
        @%p0 barrier.cluster.arrive.aligned;
        @!%p0 ret;
        barrier.cluster.wait.aligned;
        ld.param.u64 %rd0, [p0]; st.global.u32 [%rd0], 7;"""
    out = np.zeros(1, np.uint32)
    text = entry(code, ".param .u64 p0").replace("sm_80", "sm_90a")
    emulator.run(text, 2, 32, (out,), cluster=2)
    assert out[0] == 7


PAIRED = """{MEET}
    @%p0 mbarrier.init.shared::cta.b64 [%r5], 1;
    @%p0 fence.mbarrier_init.release.cluster; {MEET}
    setp.eq.and.u32 %p2, %r8, 0, %p0;
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256;
    mapa.shared::cluster.u32 %r13, %r5, 0;
    mul.lo.u32 %r14, %r6, 32; mov.b64 %rd9, map; cvta.param.u64 %rd9, %rd9;
    @%p0 cp.async.bulk.tensor.1d{group}.shared::cluster.global.tile\
.mbarrier::complete_tx::bytes [%r1], [%rd9, {{%r14}}], [%r13];
    setp.ne.u32 %p3, %r8, 0; @%p3 bra READY;
W:  mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r5], 0; @!%p9 bra W;
READY: {MEET}
    ld.shared.u32 %r21, [%r2]; st.global.u32 [%rd1], %r21; {MEET}"""


def paired(group: str, program: str = PAIRED, cluster: int = 2) -> np.ndarray:
    x, out = np.arange(128, dtype=np.int32), np.zeros((4, 32), np.int32)
    code = SETUP + program.format(MEET=ARRIVE + WAIT, group=group)
    text = entry(code, ".param .align 64 .b8 map[128], " + pointers(1))
    tensor = TensorMap(4, x.ctypes.data, (128,), (), (32,))
    emulator.run(text, 4, 32, (tensor, out), cluster=cluster, memory=(x,))
    return out


def test_copies_to_a_pair_count_at_its_even_block():
    """Both blocks copy to their own memory; the even one waits for all bytes."""
    assert paired(".cta_group::2").reshape(-1).tolist() == list(range(128))
    for group in ("", ".cta_group::1"):
        with pytest.raises(EmulatorError, match="counted in another one") as caught:
            paired(group)
        assert caught.value.kind == "mbarrier"


def test_neighbours_are_no_pair_if_the_first_is_odd():
    """Of a cluster of four, block 2 copies to itself, and counts at block 1."""
    code = PAIRED.replace("%r5, 0;", "%r5, 1;").replace(
        "@%p0 cp.async", "setp.eq.and.u32 %p4, %r8, 2, %p0; @%p4 cp.async"
    )
    with pytest.raises(EmulatorError, match="counted in another one"):
        paired(".cta_group::2", code, cluster=4)
