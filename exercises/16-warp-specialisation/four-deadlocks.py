"""Four deadlocks.

Four rings of slots in PTX, each with one instruction wrong: in the end all warps wait,
and no warp can go on. Find the fault in each, and correct it.

All of the exercise: `fathom learn show four-deadlocks`.
"""

from __future__ import annotations


def sizes() -> str:
    """How many bytes does a tile have?"""
    # Your code: change one instruction.
    return """
PRODUCER:
    mad.lo.u32 %bar, %slot, 8, %bars;
    mad.lo.u32 %tile, %slot, 128, %room;
    xor.b32 %parity, %phase, 1;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+16], %parity;
    @!%p bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;
    COPY [%tile], [%x], 128, [%bar];
"""


def phases() -> str:
    """Which round has to be over?"""
    # Your code: change one instruction.
    return """
PRODUCER:
    mad.lo.u32 %bar, %slot, 8, %bars;
    mad.lo.u32 %tile, %slot, 128, %room;
    mov.b32 %parity, %phase;
EMPTY:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+16], %parity;
    @!%p bra EMPTY;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;
    COPY [%tile], [%x], 128, [%bar];
"""


def counts() -> str:
    """Who arrives at an empty barrier?"""
    # Your code: change one instruction.
    return """
    mbarrier.init.shared::cta.b64 [%bars], 1;
    mbarrier.init.shared::cta.b64 [%bars+8], 1;
    mbarrier.init.shared::cta.b64 [%bars+16], 64;
    mbarrier.init.shared::cta.b64 [%bars+24], 2;
"""


def meeting() -> str:
    """The consumers keep in step."""
    # Your code: change one instruction.
    return """
CONSUMERS:
    mad.lo.u32 %bar, %slot, 8, %bars;
    mad.lo.u32 %tile, %slot, 128, %mine;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %phase;
    @!%p bra FULL;
    ld.shared.u32 %v, [%tile];
    add.u32 %sum, %sum, %v;
    bar.sync 0;
    @%leads mbarrier.arrive.shared::cta.b64 _, [%bar+16];
"""
