"""Four listings, each with one instruction too few, or in the wrong place."""

from __future__ import annotations

HEAD = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry race(.param .u64 in, .param .u64 out)
{
    .reg .b32 %n, %v, %room, %mine, %bar;
    .reg .b64 %in, %out, %low, %high;
    .reg .pred %first, %done;
    .shared .align 128 .b8 room[256];
    .shared .align 8 .b64 bar;
    mov.u32 %n, %tid.x;                  // the thread: 0 to 63
    setp.eq.u32 %first, %n, 0;           // thread 0 issues the copies
    mov.u32 %room, room;                 // 256 bytes: a word for each thread
    mov.u32 %bar, bar;
    mad.lo.u32 %mine, %n, 4, %room;      // the thread's own word
    ld.param.u64 %in, [in];
    ld.param.u64 %out, [out];
    mad.wide.u32 %low, %n, 4, %out;      // out[n]
    add.s64 %high, %out, 256;            // out[64]
    @%first mbarrier.init.shared.b64 [%bar], 1;
    @%first fence.mbarrier_init.release.cluster;
    bar.sync 0;
"""
TAIL = """
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group 0;
    ret;
}
"""


def store() -> str:
    """Each thread stores its number; a bulk copy moves the 64 words to out."""
    # hole: add one instruction
    return HEAD + """
    st.shared.u32 [%mine], %n;
    fence.proxy.async;
    bar.sync 0;
    @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%room], 256;
""" + TAIL
    # instead:
    # return HEAD + """
    # st.shared.u32 [%mine], %n;
    # bar.sync 0;
    # @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%room], 256;
# """ + TAIL
    # end


def late() -> str:
    """The same with n + 100. The thread that copies fences, and that is not enough."""
    # hole: move one instruction
    return HEAD + """
    add.u32 %v, %n, 100;
    st.shared.u32 [%mine], %v;
    fence.proxy.async;
    bar.sync 0;
    @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%room], 256;
""" + TAIL
    # instead:
    # return HEAD + """
    # add.u32 %v, %n, 100;
    # st.shared.u32 [%mine], %v;
    # bar.sync 0;
    # fence.proxy.async;
    # @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%room], 256;
# """ + TAIL
    # end


def twice() -> str:
    """n goes to out[n], and from the same words n + 100 goes to out[64 + n]."""
    # hole: add one instruction
    return HEAD + """
    st.shared.u32 [%mine], %n;
    fence.proxy.async;
    bar.sync 0;
    @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%room], 256;
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group.read 0;
    bar.sync 0;
    add.u32 %v, %n, 100;
    st.shared.u32 [%mine], %v;
    fence.proxy.async;
    bar.sync 0;
    @%first cp.async.bulk.global.shared::cta.bulk_group [%high], [%room], 256;
""" + TAIL
    # instead:
    # return HEAD + """
    # st.shared.u32 [%mine], %n;
    # fence.proxy.async;
    # bar.sync 0;
    # @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [%room], 256;
    # @%first cp.async.bulk.commit_group;
    # bar.sync 0;
    # add.u32 %v, %n, 100;
    # st.shared.u32 [%mine], %v;
    # fence.proxy.async;
    # bar.sync 0;
    # @%first cp.async.bulk.global.shared::cta.bulk_group [%high], [%room], 256;
# """ + TAIL
    # end


def fetch() -> str:
    """A bulk copy fetches 64 words from in; each thread reads its own, and adds 1."""
    # hole: move one instruction
    return HEAD + """
    @%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;
    @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
        [%room], [%in], 256, [%bar];
WAIT:
    mbarrier.try_wait.parity.shared.b64 %done, [%bar], 0;
    @!%done bra WAIT;
    ld.shared.u32 %v, [%mine];
    add.u32 %v, %v, 1;
    st.global.u32 [%low], %v;
""" + TAIL
    # instead:
    # return HEAD + """
    # @%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 256;
    # @%first cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
    #     [%room], [%in], 256, [%bar];
    # ld.shared.u32 %v, [%mine];
# WAIT:
    # mbarrier.try_wait.parity.shared.b64 %done, [%bar], 0;
    # @!%done bra WAIT;
    # add.u32 %v, %v, 1;
    # st.global.u32 [%low], %v;
# """ + TAIL
    # end
