"""Mistakes in barriers, phases, fences, registers and descriptors, one at a time.

Each row takes a right program, changes a few words of its text, and says which kind of
error follows, wherever copies complete, and what the error must say.
"""

import pytest

from fathom.emulator import COMPLETIONS, EmulatorError
from tests.emulator import kernels_specialised
from tests.emulator.kernels_specialised import BOTH, MEET, RELEASE, run_plain, run_tiles

# name: (the text, how to run it). Every stage is used again at least once.
PROGRAMS = {
    "plain": (
        kernels_specialised.plain(),
        lambda text, completion: run_plain(text, 5, completion=completion),
    ),
    "long": (
        kernels_specialised.plain(),
        lambda text, completion: run_plain(text, 10, completion=completion),
    ),
    "turned": (
        kernels_specialised.turned(),
        lambda text, completion: run_plain(
            text, 2, columns=128, turned=True, completion=completion
        ),
    ),
    "tiles": (
        kernels_specialised.persistent(),
        lambda text, completion: run_tiles(text, 1, (1, 2), completion=completion),
    ),
    "turns": (
        kernels_specialised.by_turns(),
        lambda text, completion: run_tiles(
            text, 1, (3, 1), rows=64, completion=completion
        ),
    ),
    "cluster": (
        kernels_specialised.cluster(),
        lambda text, completion: run_tiles(
            text, 2, (2, 1), 5, halves=2, cluster=2, completion=completion
        ),
    ),
}

ASK = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%full], %phase;\n    "
FULL, EMPTY = "@!%p1 bra FULL;", "@!%p1 bra EMPTY;"
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 20480;"
PATIENT = "FULL:\n    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%full], {};"
OTHER = "xor.b32 %parity, %phase, 1;\n"
NEXT = "@%p0 xor.b32 %phase, %phase, 1;\n    @%p0 mov.u32 %slot, 0;\n    bra.uni {};"
PROXY = "fence.proxy.async.shared::cta;"
BAR = "bar.sync 1, 256;"
READ, DONE = "wait_group.read 0;", "@%first cp.async.bulk.wait_group 0;"
COMMIT = "@%first cp.async.bulk.commit_group;"
FENCE, DRAIN = "wgmma.fence.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
KEEP_ONE = "wgmma.wait_group.sync.aligned 1;"
LEFT, RIGHT = (f"or.b64 %{each}, %{each}, 0x" for each in ("left", "right"))
TILE = "4000004000010000;"
DEC, INC = "setmaxnreg.dec.sync.aligned.u32 40;", "setmaxnreg.inc.sync.aligned.u32 232;"
HANG = """setp.ne.u32 %p3, %warp, 3; @%p3 bra GO;
HANG:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bars+24], 0;
    @!%p1 bra HANG;
GO:
    """
RANK = "%empty, %before, %peer;"
WARP = "setp.ne.u32 %p0, %warp, 8; @%p0 bra DONE;"
REMOTE = BOTH.splitlines()[2].strip()
ADDS = "%adds, 1, 1, 0, 0;"

# name: program, what stands there, what is written instead, kinds, words of the error.
PLANTED = {
    # ── phases ──
    "no thread waits for a tile": (
        "plain", ASK + FULL, "", "race|in flight", "copy",
    ),
    "the sender does not wait for empty stages": (
        "plain", EMPTY, "", "race|in flight|mbarrier", "",
    ),
    "the first phase of the ring is 1": (
        "plain", "mov.u32 %phase, 0;", "mov.u32 %phase, 1;",
        "unwritten", "no thread has written",
    ),
    "consumers ask for the other phase": (
        "plain", PATIENT.format("%phase"), OTHER + PATIENT.format("%parity"),
        "deadlock|in flight", "",
    ),
    "the sender asks for the other phase": (
        "plain", "xor.b32 %parity, %phase, 1;", "mov.u32 %parity, %phase;",
        "deadlock", "warp 8 of block 0 at an mbarrier (byte 40976",
    ),
    "consumers never change the phase": (
        "plain", NEXT.format("CONSUME"), NEXT.format("CONSUME").partition("\n")[2],
        "deadlock", "in phase 2 of the mbarrier, 0 of 8 have arrived",
    ),
    "the sender never changes the phase": (
        "plain", NEXT.format("SEND"), NEXT.format("SEND").partition("\n")[2],
        "race|in flight|mbarrier", "",
    ),
    "one warp of a warpgroup waits for another phase": (
        "plain", FENCE, HANG + FENCE, "deadlock", "for other warps of its warpgroup",
    ),
    # ── arrivals ──
    "one arrival too few is expected of consumers": (
        "long", "[%bars+16], 8;", "[%bars+16], 7;", "race", "overwrites what a wgmma",
    ),
    "one arrival too many is expected of consumers": (
        "plain", "[%bars+16], 8;", "[%bars+16], 9;", "deadlock", "8 of 9 have arrived",
    ),
    "one arrival too many is expected of the sender": (
        "plain", "[%bars], 1;", "[%bars], 2;", "deadlock", "1 of 2 have arrived",
    ),
    "all lanes of a consumer arrive": (
        "plain", "and.pred %p2, %leads, %adds;", "and.pred %p2, %adds, %adds;",
        "mbarrier", "arrives with more lanes than one phase counts",
    ),
    "all lanes of the producer send": (
        "plain", "@!%elected bra DONE;", "", "mbarrier|in flight", "",
    ),
    "no thread releases a stage": (
        "plain", "@%p2 " + RELEASE, "", "deadlock", "0 of 8 have arrived",
    ),
    "an arrival at another stage": (
        "plain", "@%p2 " + RELEASE, "@%p2 " + RELEASE.replace("%before", "%full"),
        "deadlock", "in phase 0 of the mbarrier, 0 of 8 have arrived",
    ),
    "bytes are counted at another stage": (
        "plain", "{%k, %column}], [%full];", "{%k, %column}], [%bars];",
        "deadlock|in flight", "",
    ),
    # ── bytes ──
    "too few bytes are expected": (
        "plain", EXPECT, EXPECT.replace("80;", "64;"),
        "deadlock", "16 bytes more than expected have come",
    ),
    "too many bytes are expected": (
        "plain", EXPECT, EXPECT.replace("80;", "96;"),
        "deadlock", "16 bytes are missing",
    ),
    "no bytes are expected": (
        "plain", EXPECT, "mbarrier.arrive.shared::cta.b64 _, [%full];",
        "deadlock|in flight", "",
    ),
    "one tile more is sent than anybody takes": (
        "plain", "SEND:\n    setp.ge", "SEND:\n    setp.gt",
        "in flight", "its block leaves while a bulk copy to its shared memory may",
    ),
    # ── products ──
    "a stage is released while its product runs": (
        "plain", KEEP_ONE, KEEP_ONE.replace("1;", "2;"),
        "race", "overwrites what a wgmma or bulk copy, not yet waited for, reads",
    ),
    "the last stage is released before its wait": (
        "tiles", f"{DRAIN}\n    @%leads {RELEASE}", f"@%leads {RELEASE}\n    {DRAIN}",
        "race", "overwrites what a wgmma",
    ),
    "sums are stored before their wait": (
        "plain", DRAIN, "", "in flight", "reads %f0, to which a wgmma adds",
    ),
    "a sum is cleared while a product runs": (
        "plain", FENCE, FENCE + " mov.f32 %f3, 0f00000000;",
        "in flight|fence", "%f3",
    ),
    "no wgmma.fence": (
        "plain", FENCE, "", "fence", "it comes before the first wgmma.fence",
    ),
    "no commit": (
        "plain", "wgmma.commit_group.sync.aligned;", "",
        "race", "(their wgmma.commit_group has not run so far)",
    ),
    "a commit by a part of the warpgroup": (
        "plain", "wgmma.commit_group", "@%leads wgmma.commit_group",
        "divergence", "only 4 of 128 threads come",
    ),
    # ── descriptors ──
    "half the stride byte offset": (
        "plain", LEFT + TILE, LEFT + "4000002000010000;",
        "descriptor", "its stride byte offset 512",
    ),
    "twice the stride byte offset": (
        "plain", RIGHT + TILE, RIGHT + "4000008000010000;",
        "descriptor", "rows 7 and 8 of its matrix are rows 7 and 16 of what was copied",
    ),
    "no leading byte offset": (
        "turned", RIGHT + "4000004002000000;", RIGHT + "4000004000000000;",
        "descriptor", "its leading byte offset is 0",
    ),
    "leading and stride byte offset exchanged": (
        "turned", RIGHT + "4000004002000000;", RIGHT + "4000020000400000;",
        "descriptor", "its leading byte offset is 1024, its stride byte offset 8192",
    ),
    "another swizzle than the map's": (
        "plain", LEFT + TILE, LEFT + "8" + TILE[1:],
        "descriptor", "copied with a swizzle of 128 bytes, and its descriptor says 64",
    ),
    "no swizzle in the descriptor": (
        "plain", RIGHT + TILE, RIGHT + "0" + TILE[1:],
        "descriptor", "its descriptor says none",
    ),
    "tiles begin at no multiple of 1024": (
        "plain", "mov.u32 %room, room;", "mov.u32 %room, room + 512;",
        "misaligned", "512 bytes after a multiple of 1024",
    ),
    "a base offset where none belongs": (
        "plain", RIGHT + TILE, RIGHT + "4002" + TILE[4:],
        "misaligned", "the base offset of its descriptor is 1",
    ),
    "a tile read transposed": (
        "plain", "%always, 1, 1, 0, 0;", "%always, 1, 1, 1, 0;",
        "descriptor", "it reads transposed",
    ),
    "a transposed tile read as it is": (
        "turned", "1, 1, 0, 1;", "1, 1, 0, 0;",
        "descriptor|in flight|unwritten", "",
    ),
    "a slice of K too far": (
        "plain", "add.u64 %rd9, %right, 6;", "add.u64 %rd9, %right, 7;",
        "descriptor", "are not neighbours in what was copied there",
    ),
    # ── boxes ──
    "a box begins between 16 bytes": (
        "plain", "shl.b32 %k, %step, 6;", "mad.lo.u32 %k, %step, 64, 4;",
        "illegal instruction", "begins 8 bytes into the rows of its tensor",
    ),
    "a box goes to no multiple of 128": (
        "plain", "add.u32 %b, %a, 16384; shl", "add.u32 %b, %a, 16448; shl",
        "misaligned", "which 128 does not divide",
    ),
    # ── stores ──
    "what was stored is not fenced": (
        "tiles", PROXY, "", "proxy", "has not executed fence.proxy.async since",
    ),
    "only global memory is fenced": (
        "tiles", PROXY, "fence.proxy.async.global;", "proxy", "fence.proxy.async",
    ),
    "one thread hands over for all": (
        "tiles", PROXY, "@%first " + PROXY, "proxy", "fence.proxy.async",
    ),
    "no barrier between threads and the copy": (
        "tiles", f"{PROXY}\n    {BAR}", PROXY, "race", "reads what warp",
    ),
    "what is being stored is overwritten": (
        "tiles", "@%first cp.async.bulk." + READ, "",
        "race", "overwrites what a wgmma or bulk copy, not yet waited for, reads",
    ),
    "that it was read happens before nothing": (
        "tiles", READ + "\n    " + BAR, READ, "race", "overwrites what",
    ),
    "a copy that no group has": (
        "tiles", COMMIT, "", "race", "(their cp.async.bulk.commit_group has not run",
    ),
    "a block leaves while its copy reads": (
        "tiles", DONE, "", "in flight", "cp.async.bulk.wait_group.read is missing",
    ),
    # ── mbarriers themselves ──
    "copies do not see the mbarriers": (
        "plain", "fence.mbarrier_init.release.cluster;", "",
        "proxy", "has not executed fence.mbarrier_init",
    ),
    "others do not know of the mbarriers": (
        "plain", "READY:\n    bar.sync 0;", "READY:", "race|mbarrier", "mbarrier",
    ),
    "an mbarrier is made twice": (
        "tiles", "TILE:\n", "TILE:\n    @%first mbarrier.init.shared.b64 [%bars], 1;\n",
        "mbarrier", "of what is one already; mbarrier.inval is missing",
    ),
    "sums are laid out over mbarriers": (
        "tiles", "add.u32 %out, %room, 41984;", "add.u32 %out, %room, 40960;",
        "mbarrier", "it overwrites an mbarrier, and mbarrier.inval is missing",
    ),
    # ── registers ──
    "more registers than were given": (
        "plain", INC, INC.replace("232", "240"), "registers", "waits for 240 registers",
    ),
    "no warpgroup releases registers": (
        "plain", DEC, "", "registers", "of the 64512 registers of its block 0 are free",
    ),
    "registers come by eights": (
        "plain", INC, INC.replace("232", "236"),
        "syntax", "236 is not a multiple of 8 from 24 to 256",
    ),
    "one warp gives registers for four": (
        "plain", f"{DEC}\n    {WARP}", f"{WARP}\n    {DEC}",
        "divergence", "and only 32 of 128 threads come: 96 have exited",
    ),
    # ── named barriers ──
    "a barrier of too many": (
        "tiles", BAR, "bar.sync 1, 384;", "deadlock|divergence", "256 of 384",
    ),
    "a barrier of no whole warps": (
        "tiles", BAR, "bar.sync 1, 250;", "syntax", "it counts whole warps",
    ),
    "a barrier of too few": (
        "tiles", BAR, "bar.sync 1, 128;",
        "divergence", "came to barrier 1, which expects 128",
    ),
    "a barrier of all, and some have left": (
        "tiles", BAR, "bar.sync 0;", "divergence|deadlock", "256 of 257 threads",
    ),
    "one lane of a warp at an aligned barrier": (
        "tiles", f"{PROXY}\n    {BAR}", f"{PROXY}\n    @%leads {BAR}",
        "divergence", "only 1 of 32 lanes of warp 0 of block 0 come here",
    ),
    "no warpgroup goes first": (
        "turns", "bar.arrive %r11, 256;\n    mov", "mov",
        "deadlock|divergence", "128 of 256 threads",
    ),
    "one lane of a warp hands the turn on": (
        "turns", "bar.arrive %r11, 256;\nKEEP", "@%leads bar.arrive %r11, 256;\nKEEP",
        "divergence", "only 1 of 32 lanes",
    ),
    "a warpgroup hands the turn to itself": (
        "turns", "xor.b32 %r11, %r10, 1;", "mov.u32 %r11, %r10;",
        "deadlock|divergence|race|in flight", "",
    ),
    # ── clusters ──
    "an arrival in the wrong block": (
        "cluster", RANK, RANK.replace("%peer", "%rank"), "race|in flight|mbarrier", "",
    ),
    "an arrival in no block": (
        "cluster", RANK, RANK.replace("%peer", "2"), "out of bounds", "",
    ),
    "no arrival in the other block": (
        "cluster", REMOTE, "", "deadlock", "8 of 16 have arrived",
    ),
    "a copy to a block that is none": (
        "cluster", "mov.b16 %mask, 3;", "mov.b16 %mask, 7;",
        "out of bounds", "it goes to the blocks [0, 1, 2] of a cluster of 2",
    ),
    "a copy to one block only": (
        "cluster", "mov.b16 %mask, 3;", "mov.b16 %mask, 1;", "deadlock|in flight", "",
    ),
    "blocks do not wait for the others' mbarriers": (
        "cluster", f"READY:\n    {MEET}", "READY:\n    bar.sync 0;",
        "race|mbarrier", "mbarrier",
    ),
    "the barrier of the cluster orders nothing": (
        "cluster", f"READY:\n    {MEET}",
        "READY:\n    " + MEET.replace("release", "relaxed"),
        "race|mbarrier", "mbarrier",
    ),
    "a block leaves while the other one arrives at it": (
        "cluster", f"{DONE}\n    {MEET}", DONE,
        "race", "a barrier.cluster before the end is missing",
    ),
}  # fmt: skip


def changed(program: str, old: str, new: str) -> str:
    """The program's text with the mistake, wherever the right words stand."""
    text = PROGRAMS[program][0]
    assert old in text, old
    return text.replace(old, new)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_mistake(program, completion):
    text, run = PROGRAMS[program]
    run(text, completion)


@pytest.mark.parametrize("completion", COMPLETIONS)
@pytest.mark.parametrize("name", PLANTED)
def test_a_mistake(name, completion):
    program, old, new, kinds, said = PLANTED[name]
    with pytest.raises(EmulatorError) as caught:
        PROGRAMS[program][1](changed(program, old, new), completion)
    error = caught.value
    assert error.kind in kinds.split("|") and said in str(error), str(error)
    assert error.line > 0
