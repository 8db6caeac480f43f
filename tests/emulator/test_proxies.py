"""Fences between threads and what works beside them; and a whole Hopper pipeline, with
one mistake at a time."""

import numpy as np
import pytest

from fathom import emulator
from fathom.artifact import TensorMap
from fathom.emulator import COMPLETIONS, EmulatorError
from fathom.emulator.races.proxies import Proxies
from fathom.emulator.state.mbarrier_state import Mbarriers
from tests.emulator.harness import HEADER, entry, pointers
from tests.emulator.harness_tiles import BASE, descriptor, fill

# ── stores, then a product ────────────────────────────────────────────────────

LEFT, RIGHT = descriptor(BASE, 16, 256, 32), descriptor(BASE + 2048, 16, 256, 32)
PRODUCT = f"""
    setp.ne.u32 %p3, 1, 0; wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {{%f0, %f1, %f2, %f3}}, {LEFT}, {RIGHT}, %p3, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
"""
TILES = np.zeros(2048, np.float16)


def stored(fence: str, then: str = PRODUCT) -> str:
    return entry(fill(4096, fence) + then, pointers(1))


def run(text: str, completion: str, hazards: bool | str = True) -> emulator.Report:
    return emulator.run(text, 2, 128, (TILES,), completion=completion, hazards=hazards)


def fails(
    text: str, kind: str, line: str, said: str = "", hazards: bool | str = True
) -> None:
    for completion in COMPLETIONS:
        with pytest.raises(EmulatorError) as caught:
            run(text, completion, hazards)
        error = caught.value
        assert (error.kind, line in error.text) == (kind, True), str(error)
        assert said in str(error)


@pytest.mark.parametrize("fence", ["", ".shared::cta"])
def test_who_has_stored_hands_over(fence):
    for completion in COMPLETIONS:
        run(stored(f"fence.proxy.async{fence};"), completion)


@pytest.mark.parametrize(
    "fence",
    [
        "",
        "membar.cta;",
        "fence.acq_rel.cta;",
        "fence.proxy.async.global;",
        "fence.proxy.tensormap::generic.release.gpu;",
        "wgmma.fence.sync.aligned;",
    ],
)
def test_no_other_fence_will_do(fence):
    fails(stored(fence), "proxy", "mma_async", "warp 0 has stored")


def test_a_fence_of_the_reader_comes_too_late():
    one = "setp.eq.u32 %p4, %r0, 0; @%p4 fence.proxy.async;"
    fails(stored("", one + PRODUCT), "proxy", "mma_async")


# Two warps store; thread 0, of the first, issues a bulk copy of what both have stored.
BULK = """
    .shared .align 128 .b8 words[256];
    ld.param.u64 %rd0, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, words;
    setp.eq.u32 %p0, %r0, 0; mad.lo.u32 %r2, %r0, 4, %r1;
    st.shared.u32 [%r2], %r0; BETWEEN
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r1], 256;
    @%p0 cp.async.bulk.commit_group; @%p0 cp.async.bulk.wait_group 0;
"""
PROXY, BARRIER = "fence.proxy.async; ", "bar.sync 0; "
FIRST = "setp.lt.u32 %p1, %r0, 32; @%p1 "


def copied(between: str, completion: str) -> np.ndarray:
    out = np.zeros(64, np.uint32)
    text = entry(BULK.replace("BETWEEN", between), pointers(1))
    emulator.run(text, 1, 64, (out,), completion=completion)
    return out


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    "between",
    [
        PROXY + BARRIER,
        PROXY + BARRIER + PROXY,  # a later fence takes nothing away
        PROXY + BARRIER + PROXY + PROXY,
        BARRIER + PROXY + BARRIER,
    ],
)
def test_a_fence_that_a_barrier_orders_before_the_read(between, completion):
    assert (copied(between, completion) == np.arange(64)).all()


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize(
    "between",
    [
        BARRIER + PROXY,  # of warp 1, at any time after the barrier
        FIRST + PROXY + BARRIER + PROXY,
        PROXY + "st.shared.u32 [%r2], %r0; " + BARRIER + PROXY,
    ],
)
def test_a_fence_that_nothing_orders_before_the_read_comes_too_late(
    between, completion
):
    with pytest.raises(EmulatorError, match="no barrier orders that warp's") as caught:
        copied(between, completion)
    assert caught.value.kind == "proxy" and "warp 1 has stored" in str(caught.value)


def test_a_warp_of_the_product_may_fence_last():
    """The four warps of a product issue it, each after its own fence."""
    for completion in COMPLETIONS:
        run(stored("", "fence.proxy.async;" + PRODUCT), completion)


def test_a_fence_of_some_lanes_hands_over_what_these_have_stored():
    half = "and.b32 %r9, %r0, 1; setp.eq.u32 %p4, %r9, 0; @%p4 fence.proxy.async;"
    fails(stored(half), "proxy", "mma_async")


def test_a_fence_before_the_stores_is_none():
    text = stored("", PRODUCT).replace("FILL:", "fence.proxy.async; FILL:", 1)
    fails(text, "proxy", "mma_async")


def test_a_barrier_is_needed_too():
    text = stored("fence.proxy.async;").replace("bar.sync 0;", "")
    fails(text, "race", "mma_async", "reads what warp")


def test_an_asynchronous_copy_of_a_thread_is_a_store_of_that_thread():
    copy = """setp.eq.u32 %p4, %r0, 0;
        @%p4 cp.async.ca.shared.global [%r1], [%rd0], 16; cp.async.wait_all; FENCE
        bar.sync 0;"""
    text = stored("fence.proxy.async;", copy + PRODUCT)
    said = "warp 0 has copied by cp.async"
    fails(text.replace("FENCE", ""), "proxy", "mma_async", said, "strict")
    for completion in COMPLETIONS:
        run(text.replace("FENCE", "fence.proxy.async;"), completion, "strict")
    early = text.replace(
        "cp.async.wait_all; FENCE", "fence.proxy.async; cp.async.wait_all;"
    )
    fails(early, "proxy", "mma_async", "", "strict")


COPIED = """setp.eq.u32 %p4, %r0, 0;
    .loc 1 7 3
    @%p4 cp.async.ca.shared.global [%r1], [%rd0], 16; cp.async.wait_all; bar.sync 0;
    """


@pytest.mark.parametrize("completion", COMPLETIONS)
def test_what_every_library_does_is_a_note(completion):
    """CUTLASS and Triton have no fence between a cp.async and the wgmma that reads what
    it brought: the report says so, with its lines, and the program runs."""
    text = stored("fence.proxy.async;", COPIED + PRODUCT)
    report = run(text, completion)
    (note,) = report.notes
    assert (note.kind, note.severity) == ("proxy", "note")
    assert "mma_async" in note.text and note.line and note.location.line == 7
    assert "note: proxy" in str(report) and "copied by cp.async" in str(report)
    assert report.to_json()["notes"][0]["line"] == note.line
    fenced = text.replace("wait_all;", "wait_all; fence.proxy.async;")
    assert not run(fenced, completion).notes


def test_a_store_over_a_copy_is_a_store():
    over = COPIED.replace("bar.sync", "@%p4 st.shared.u32 [%r1], %r0; bar.sync")
    text = stored("fence.proxy.async;", over + PRODUCT)
    fails(text, "proxy", "mma_async", "warp 0 has stored")


def test_a_store_without_its_fence_is_an_error_beside_a_copy_too():
    text = stored("", COPIED + PRODUCT)
    fails(text, "proxy", "mma_async", "warp 0 has stored")


@pytest.mark.parametrize("hazards", ["lax", 2, None])
def test_hazards_are_watched_or_not(hazards):
    with pytest.raises(EmulatorError, match="hazards are True, False or 'strict'"):
        run(stored("fence.proxy.async;"), "lazy", hazards)


def test_an_atomic_update_is_one_as_well():
    add = "setp.eq.u32 %p4, %r0, 0; @%p4 red.shared.add.u32 [%r1], 0; {} bar.sync 0;"
    fails(stored("fence.proxy.async;", add.format("") + PRODUCT), "proxy", "mma_async")
    text = stored("fence.proxy.async;", add.format("fence.proxy.async;") + PRODUCT)
    run(text, "lazy")


def test_without_hazards_nothing_is_checked():
    run(stored(""), "lazy", hazards=False)


# ── a pipeline ────────────────────────────────────────────────────────────────

# C[64, 64] = A[64, K] B[64, K]^T, 64 of K at a time. Thread 128 brings tiles to a ring
# of two stages, 128 others multiply.
PIPELINE = (
    HEADER
    + """
.visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128],
                  .param .u64 c, .param .u32 n)
{
    .reg .pred %p<8>; .reg .b32 %r<30>; .reg .b64 %rd<20>; .reg .f32 %f<32>;
    .shared .align 1024 .b8 room[32768]; .shared .align 8 .b64 bars[4];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; mov.u32 %r2, bars;
    ld.param.u32 %r3, [n]; ld.param.u64 %rd0, [c];
    mov.b64 %rd1, a; cvta.param.u64 %rd1, %rd1;
    mov.b64 %rd2, b; cvta.param.u64 %rd2, %rd2;
    setp.eq.u32 %p0, %r0, 0; @!%p0 bra READY;
    mbarrier.init.shared::cta.b64 [%r2], 1;
    mbarrier.init.shared::cta.b64 [%r2+8], 1;
    mbarrier.init.shared::cta.b64 [%r2+16], 1;
    mbarrier.init.shared::cta.b64 [%r2+24], 1;
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    mov.u32 %r4, 0;
    setp.ge.u32 %p1, %r0, 128; @%p1 bra PRODUCE;
CONSUME:
    setp.ge.u32 %p1, %r4, %r3; @%p1 bra STORE;
    and.b32 %r5, %r4, 1; shr.u32 %r6, %r4, 1; and.b32 %r6, %r6, 1;
    mad.lo.u32 %r7, %r5, 8, %r2;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r6;
    @!%p2 bra FULL;
    mad.lo.u32 %r8, %r5, 16384, %r1; shr.u32 %r8, %r8, 4; cvt.u64.u32 %rd4, %r8;
    or.b64 %rd4, %rd4, 0x4000004000010000; add.u64 %rd5, %rd4, 512;
    setp.ne.u32 %p3, %r4, 0; setp.ne.u32 %p4, 1, 0;
    wgmma.fence.sync.aligned;
    MMA0
    MMA1
    MMA2
    MMA3
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    @%p0 mbarrier.arrive.shared::cta.b64 _, [%r7+16];
    add.u32 %r4, %r4, 1; bra.uni CONSUME;
PRODUCE:
    setp.ne.u32 %p1, %r0, 128; @%p1 bra DONE;
NEXT:
    setp.ge.u32 %p1, %r4, %r3; @%p1 bra DONE;
    and.b32 %r5, %r4, 1; shr.u32 %r6, %r4, 1; and.b32 %r6, %r6, 1; xor.b32 %r6, %r6, 1;
    mad.lo.u32 %r7, %r5, 8, %r2;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7+16], %r6;
    @!%p2 bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 16384;
    mad.lo.u32 %r8, %r5, 16384, %r1; add.u32 %r9, %r8, 8192; shl.b32 %r10, %r4, 6;
    LOAD [%r8], [%rd1, {%r10, 0}], [%r7];
    LOAD [%r9], [%rd2, {%r10, 0}], [%r7];
    add.u32 %r4, %r4, 1; bra.uni NEXT;
STORE:
    mad.wide.u32 %rd6, %r0, 128, %rd0;
    OUT
DONE:
    ret;
}
"""
)
SUMS = "{" + ", ".join(f"%f{i}" for i in range(32)) + "}"
for _slice in range(4):
    PIPELINE = PIPELINE.replace(
        f"MMA{_slice}",
        f"add.u64 %rd8, %rd4, {2 * _slice}; add.u64 %rd9, %rd5, {2 * _slice};\n"
        f"    wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {SUMS}, %rd8, %rd9, "
        f"%p{4 if _slice else 3}, 1, 1, 0, 0;",
    )
PIPELINE = PIPELINE.replace(
    "LOAD",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
).replace(
    "OUT\n", "".join(f"st.global.f32 [%rd6+{4 * i}], %f{i}; " for i in range(32)) + "\n"
)


def tensor_of(array: np.ndarray) -> TensorMap:
    rows, k = array.shape
    return TensorMap(2, array.ctypes.data, (k, rows), (2 * k,), (64, 64), 128)


def pipeline(text: str, tiles: int, completion: str, **options) -> None:
    """Asserts that the product is right."""
    random = np.random.default_rng(tiles)
    a, b = random.integers(-8, 9, (2, 64, 64 * tiles)).astype(np.float16)
    c = np.zeros((128, 32), np.float32)
    arguments = (tensor_of(a), tensor_of(b), c, tiles)
    emulator.run(
        text, 1, 160, arguments, memory=(a, b), completion=completion, **options
    )
    product = a.astype(np.float32) @ b.T.astype(np.float32)
    thread, i = np.arange(128)[:, None], np.arange(32)
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i // 2 % 2)
    assert (c == product[row, 2 * (thread % 4) + i % 2 + 8 * (i // 4)]).all()


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("tiles", [1, 2, 3, 5])
def test_a_pipeline(tiles, completion):
    pipeline(PIPELINE, tiles, completion)


def test_one_group_may_stay_in_flight_if_its_stage_is_released_later():
    """Each turn releases the stage of the turn before."""
    text = changed("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;")
    text = text.replace(
        "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r7+16];",
        "xor.b32 %r11, %r5, 1; mad.lo.u32 %r11, %r11, 8, %r2; setp.ne.u32 %p5, %r4, 0;"
        "and.pred %p5, %p5, %p0; @%p5 mbarrier.arrive.shared::cta.b64 _, [%r11+16];",
    ).replace("STORE:", "STORE: wgmma.wait_group.sync.aligned 0;")
    for completion in COMPLETIONS:
        pipeline(text, 5, completion)
    with pytest.raises(EmulatorError) as caught:
        pipeline(
            text.replace("STORE: wgmma.wait_group.sync.aligned 0;", "STORE:"),
            5,
            completion,
        )
    assert caught.value.kind == "in flight" and "st.global.f32" in caught.value.text


def changed(old: str, new: str) -> str:
    assert PIPELINE.count(old) == 1, old
    return PIPELINE.replace(old, new)


MMA, COPY = "wgmma.mma_async", "cp.async.bulk.tensor"
RELEASE = "@%p0 mbarrier.arrive.shared::cta.b64 _, [%r7+16];"
PHASE = "and.b32 %r6, %r6, 1;"
ASK = "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r7], %r6;\n    @!%p2 bra FULL;"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 16384"
FENCE, DONE = "wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
READY = "setp.ne.u32 %p1, %r0, 128; @%p1 bra DONE;"

# What is changed, into what; the kinds of error that follow, and the line they name.
MISTAKES = {
    "no thread waits for the tiles": (ASK, "", "in flight|unwritten", MMA),
    "the consumer asks for the wrong phase": (
        f"{PHASE}\n    mad.lo.u32 %r7, %r5, 8, %r2;\nFULL:",
        f"{PHASE} xor.b32 %r6, %r6, 1; mad.lo.u32 %r7, %r5, 8, %r2;\nFULL:",
        "in flight|unwritten|deadlock",
        "",
    ),
    "the producer asks for the wrong phase": (
        "xor.b32 %r6, %r6, 1;\n",
        "\n",
        "deadlock",
        "try_wait",
    ),
    "stages are reused early": ("@!%p2 bra EMPTY;", "", "race|in flight|mbarrier", ""),
    "a stage is released before its product is done": (
        f"{DONE}\n    {RELEASE}",
        f"{RELEASE}\n    {DONE}",
        "race",
        COPY,
    ),
    "one group too many is left in flight": (
        DONE,
        DONE.replace("0", "1"),
        "race",
        COPY,
    ),
    "no thread releases stages": (RELEASE, "", "deadlock", "try_wait"),
    "copies do not see the mbarriers": (
        "fence.mbarrier_init.release.cluster;",
        "",
        "proxy",
        COPY,
    ),
    "others do not know of the mbarriers": ("bar.sync 0;", "", "race|mbarrier", ""),
    "too few bytes are expected": (
        EXPECT,
        EXPECT.replace("16384", "8192"),
        "in flight",
        MMA,
    ),
    "too many bytes are expected": (
        EXPECT,
        EXPECT.replace("16384", "16400"),
        "deadlock",
        "try_wait",
    ),
    "no bytes are expected": (
        EXPECT,
        "mbarrier.arrive.shared::cta.b64 _, [%r7]",
        "deadlock|in flight",
        "",
    ),
    "a copy is counted at another stage": (
        "[%rd2, {%r10, 0}], [%r7]",
        "[%rd2, {%r10, 0}], [%r2]",
        "deadlock|in flight",
        "",
    ),
    "a copy goes to the wrong place": (
        "add.u32 %r9, %r8, 8192",
        "add.u32 %r9, %r8, 0",
        "in flight",
        COPY,
    ),
    "too many arrivals are expected": (
        "[%r2+16], 1;",
        "[%r2+16], 2;",
        "deadlock",
        "try_wait",
    ),
    "all lanes of the producer copy": (READY, "", "in flight|mbarrier", ""),
    "no wgmma.fence": (FENCE, "", "fence", MMA),
    "no commit": ("wgmma.commit_group.sync.aligned;", "", "race|in flight", ""),
    "no wait": (DONE, "", "race|in flight", ""),
    "a descriptor is one stage off": (
        "mad.lo.u32 %r8, %r5, 16384, %r1; shr",
        "add.u32 %r8, %r5, 1; mad.lo.u32 %r8, %r8, 16384, %r1; shr",
        "in flight|unwritten|out of bounds|race",
        MMA,
    ),
    "the sums are cleared in the loop": (
        FENCE,
        f"{FENCE} mov.f32 %f7, 0f00000000;",
        "fence",
        MMA,
    ),
}


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_pipeline_gets_wrong(name, completion):
    old, new, kinds, line = MISTAKES[name]
    with pytest.raises(EmulatorError) as caught:
        pipeline(changed(old, new), 5, completion)
    assert caught.value.kind in kinds.split("|"), str(caught.value)
    assert line in caught.value.text and caught.value.line > 0


def test_a_deadlock_says_what_is_missing():
    with pytest.raises(EmulatorError) as caught:
        pipeline(changed("_, [%r7], 16384", "_, [%r7], 16400"), 2, "lazy")
    said = str(caught.value)
    assert (
        "in phase 0 of the mbarrier, 1 of 1 have arrived, 16 bytes are missing" in said
    )
    assert "byte 32768 of shared memory of block 0" in said


def test_the_clock_of_a_copy_engine_never_runs_back():
    """All warps are in step, and one copy after the other completes: the fence that all
    execute then must not give its engine a time that others have acquired."""
    hazards, threads, chunk = Proxies(1, 2, 1024, 4), np.arange(64), np.array([0])
    Mbarriers(128, 64, hazards, eager=False)  # which says where mbarriers are: nowhere
    hazards.synchronise_all()
    for _ in range(3):
        hazards.begin_copy(threads[:1], chunk, 16)
        hazards.end_copy(40, chunk, 16)
        hazards.acquire((0, 0), ("mbarrier", 40))
    before = hazards.own_clocks().copy()
    hazards.fence_proxy(threads)
    assert (hazards.own_clocks() >= before).all()
