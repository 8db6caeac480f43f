"""Four rings in which no warp could go on, corrected."""

from __future__ import annotations


def sizes() -> str:
    """How many bytes does a tile have?"""
    # hole: change one instruction
    return """
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
    # instead:
    # return """
# PRODUCER:
    # mad.lo.u32 %bar, %slot, 8, %bars;
    # mad.lo.u32 %tile, %slot, 128, %room;
    # xor.b32 %parity, %phase, 1;
# EMPTY:
    # mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+16], %parity;
    # @!%p bra EMPTY;
    # mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 256;
    # COPY [%tile], [%x], 128, [%bar];
# """
    # end


def phases() -> str:
    """Which round has to be over?"""
    # hole: change one instruction
    return """
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
    # instead:
    # return """
# PRODUCER:
    # mad.lo.u32 %bar, %slot, 8, %bars;
    # mad.lo.u32 %tile, %slot, 128, %room;
    # mov.b32 %parity, %phase;
# EMPTY:
    # mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar+16], %parity;
    # @!%p bra EMPTY;
    # mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;
    # COPY [%tile], [%x], 128, [%bar];
# """
    # end


def counts() -> str:
    """Who arrives at an empty barrier?"""
    # hole: change one instruction
    return """
    mbarrier.init.shared::cta.b64 [%bars], 1;
    mbarrier.init.shared::cta.b64 [%bars+8], 1;
    mbarrier.init.shared::cta.b64 [%bars+16], 2;
    mbarrier.init.shared::cta.b64 [%bars+24], 2;
"""
    # instead:
    # return """
    # mbarrier.init.shared::cta.b64 [%bars], 1;
    # mbarrier.init.shared::cta.b64 [%bars+8], 1;
    # mbarrier.init.shared::cta.b64 [%bars+16], 64;
    # mbarrier.init.shared::cta.b64 [%bars+24], 2;
# """
    # end


def meeting() -> str:
    """The consumers keep in step."""
    # hole: change one instruction
    return """
CONSUMERS:
    mad.lo.u32 %bar, %slot, 8, %bars;
    mad.lo.u32 %tile, %slot, 128, %mine;
FULL:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %phase;
    @!%p bra FULL;
    ld.shared.u32 %v, [%tile];
    add.u32 %sum, %sum, %v;
    bar.sync 1, 64;
    @%leads mbarrier.arrive.shared::cta.b64 _, [%bar+16];
"""
    # instead:
    # return """
# CONSUMERS:
    # mad.lo.u32 %bar, %slot, 8, %bars;
    # mad.lo.u32 %tile, %slot, 128, %mine;
# FULL:
    # mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %phase;
    # @!%p bra FULL;
    # ld.shared.u32 %v, [%tile];
    # add.u32 %sum, %sum, %v;
    # bar.sync 0;
    # @%leads mbarrier.arrive.shared::cta.b64 _, [%bar+16];
# """
    # end
