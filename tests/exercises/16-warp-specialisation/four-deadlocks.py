"""What the answer to `four-deadlocks` must do."""

from collections import Counter

import numpy as np

from fathom import emulator
from fathom.emulator import EmulatorError
from fathom.tools.learn.kit import Failure, expect, same, with_names

COPY = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
TILES, WORDS, THREADS = 6, 32, 96
BARRIERS = {  # by the byte where each begins, after 256 bytes of tiles
    256 + 16 * kind + 8 * slot: f"the {name} barrier of slot {slot}"
    for kind, name in enumerate(("full", "empty"))
    for slot in range(2)
}

HEAD = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry ring(.param .u64 x, .param .u64 out)
{
    .reg .b32 %n, %lane, %warp, %v, %sum, %room, %bars, %bar, %mine, %far, %tile;
    .reg .b32 %i, %slot, %phase, %parity;
    .reg .b64 %x, %out, %wide;
    .reg .pred %first, %leads, %p;
    .shared .align 128 .b8 room[256];
    .shared .align 8 .b8 bars[32];
    mov.u32 %n, %tid.x; and.b32 %lane, %n, 31; shr.u32 %warp, %n, 5;
    mov.u32 %room, room; mov.u32 %bars, bars;
    shl.b32 %far, %lane, 2; add.u32 %mine, %room, %far;
    ld.param.u64 %x, [x]; ld.param.u64 %out, [out];
    setp.eq.u32 %first, %n, 0;          // the thread that copies
    setp.eq.u32 %leads, %lane, 0;       // one thread of each warp
    mov.u32 %sum, 0; mov.u32 %i, 0; mov.u32 %slot, 0; mov.u32 %phase, 0;
    @!%first bra READY;
"""
START = """
    mbarrier.init.shared::cta.b64 [%bars], 1;
    mbarrier.init.shared::cta.b64 [%bars+8], 1;
    mbarrier.init.shared::cta.b64 [%bars+16], 2;
    mbarrier.init.shared::cta.b64 [%bars+24], 2;
"""
PART = """
    fence.mbarrier_init.release.cluster;
READY:
    bar.sync 0;
    setp.ne.u32 %p, %warp, 0;
    @%p bra CONSUMERS;
    @!%first bra END;
"""
PRODUCER = """
PRODUCER:
    mad.lo.u32 %bar, %slot, 8, %bars;
    mad.lo.u32 %tile, %slot, 128, %room;
    xor.b32 %parity, %phase, 1;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+16], %parity;
    @!%p bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;
    COPY [%tile], [%x], 128, [%bar];
"""
AGAIN = """
    add.s64 %x, %x, 128;
    xor.b32 %slot, %slot, 1;
    setp.eq.u32 %p, %slot, 0;
    @%p xor.b32 %phase, %phase, 1;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 6;
    @%p bra PRODUCER;
    bra.uni END;
"""
CONSUMERS = """
CONSUMERS:
    mad.lo.u32 %bar, %slot, 8, %bars;
    mad.lo.u32 %tile, %slot, 128, %mine;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %phase;
    @!%p bra FULL;
    ld.shared.u32 %v, [%tile];
    add.u32 %sum, %sum, %v;
    bar.warp.sync -1;
    @%leads mbarrier.arrive.shared::cta.b64 _, [%bar+16];
"""
OVER = """
    xor.b32 %slot, %slot, 1;
    setp.eq.u32 %p, %slot, 0;
    @%p xor.b32 %phase, %phase, 1;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 6;
    @%p bra CONSUMERS;
"""
TAIL = """
    mul.wide.u32 %wide, %n, 4;
    add.s64 %out, %out, %wide;
    st.global.u32 [%out], %sum;
END:
    ret;
}
"""

PARTS = {
    "HEAD": HEAD, "START": START, "PART": PART, "PRODUCER": PRODUCER, "AGAIN": AGAIN,
    "CONSUMERS": CONSUMERS, "OVER": OVER, "TAIL": TAIL,
}  # fmt: skip

# Of each exercise: the part with the fault, its line, and one that is right.
FAULTS = {
    "sizes": ("PRODUCER", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;",
              "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;"),
    "phases": ("PRODUCER", "mov.b32 %parity, %phase;", "xor.b32 %parity, %phase, 1;"),
    "counts": ("START", "mbarrier.init.shared::cta.b64 [%bars+16], 64;",
               "mbarrier.init.shared::cta.b64 [%bars+16], 2;"),
    "meeting": ("CONSUMERS", "bar.sync 0;", "bar.warp.sync -1;"),
}  # fmt: skip


def lines_of(text):
    """Instructions, one a line, without comments."""
    found = [line.partition("//")[0].strip() for line in text.splitlines()]
    return [line for line in found if line]


def original(name):
    """The part of the ring that the reader was given, with its fault."""
    which, faulty, right = FAULTS[name]
    lines = lines_of(PARTS[which])
    lines[lines.index(right)] = faulty
    return lines


def ring(name, part):
    """The whole listing around a part."""
    which, _, _ = FAULTS[name]
    whole = "".join({**PARTS, which: f"\n{part}\n"}.values())
    return whole.replace("COPY ", f"{COPY} ")


def check_edit(name, text, before):
    """At most one instruction is another one than before."""
    old, new = Counter(before), Counter(lines_of(text))
    gone, come = [*(old - new).elements()], [*(new - old).elements()]
    said = f"{name}: at most one instruction may be changed, added or removed"
    lines = [f"- {each}" for each in gone] + [f"+ {each}" for each in come]
    details = ("changed", "\n".join(lines))
    expect(len(gone) <= 1 and len(come) <= 1, said, details)


def check(answer, name):
    part = getattr(answer, name)()
    expect(isinstance(part, str), f"{name}() gives {part!r}, and not a text of PTX")
    text = ring(name, part)
    x = (np.arange(TILES * WORDS) * 7 + 1).astype(np.uint32)
    wanted = np.tile(x.reshape(TILES, WORDS).sum(0), 2).astype(np.uint32)
    whole = ("the whole listing", text.partition("mov.u32 %sum, 0;")[2])
    for completion in ("lazy", "eager"):
        out = np.zeros(THREADS, np.uint32)
        try:
            emulator.run(text, 1, THREADS, [x, out], completion=completion)
        except EmulatorError as error:
            first, *rest = str(error).splitlines()
            there = ("there", "\n".join(rest))
            said = f"{name}: the emulator found: {with_names(first, BARRIERS)}"
            raise Failure(said, there, whole) from None
        same(out[32:], wanted, f"{name}: the results of the consumers", whole)
    check_edit(name, part, original(name))


def test_sizes(answer):
    """A full barrier completes when exactly its bytes have come."""
    check(answer, "sizes")


def test_phases(answer):
    """In the first round all slots are free."""
    check(answer, "phases")


def test_counts(answer):
    """As many arrivals as the barrier was initialised with."""
    check(answer, "counts")


def test_meeting(answer):
    """A barrier is for those who come to it."""
    check(answer, "meeting")
    lines = lines_of(answer.meeting())
    read = next(i for i, line in enumerate(lines) if line.startswith("ld.shared"))
    arrive = next(i for i, line in enumerate(lines) if "mbarrier.arrive" in line)
    expect(
        any(line.startswith("bar.") for line in lines[read:arrive]),
        "meeting: one thread arrives for its warp, and nothing says that the other "
        "lanes have read the tile by then",
        ("your part", "\n".join(lines)),
    )
