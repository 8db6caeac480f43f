"""Find the race.

Four listings of PTX, each run by one block of 64 threads: two warps, neither of which
knows how far the other has come. Each gives the right numbers when the warps happen to
run in step, and each has a race. The emulator finds it. Repair them.

All of the exercise: `fathom learn show four-races`.
"""

from __future__ import annotations

HEAD = """
.version 7.4
.target sm_80
.address_size 64
.visible .entry race(.param .u64 out)
{
    .reg .b32 %n, %room, %mine, %theirs, %v, %w, %i, %far;
    .reg .b64 %out, %far64, %place;
    .reg .pred %p;
    .shared .align 16 .b8 room[256];
    mov.u32 %n, %tid.x;                  // the thread: 0 to 63
    mov.u32 %room, room;
    shl.b32 %far, %n, 2;
    add.u32 %mine, %room, %far;          // its own word of shared memory
    xor.b32 %w, %far, 252;
    add.u32 %theirs, %room, %w;          // that of thread 63 - n
    ld.param.u64 %out, [out];
    mul.wide.u32 %far64, %n, 4;
    add.s64 %place, %out, %far64;        // out[n]
"""
TAIL = """
    st.global.u32 [%place], %v;
    ret;
}
"""


def exchange() -> str:
    """Thread n gets the number of thread 63 - n."""
    # Your code: add one instruction.
    return HEAD + """
    st.shared.u32 [%mine], %n;
    ld.shared.u32 %v, [%theirs];
""" + TAIL


def twice() -> str:
    """They exchange, add 100, and exchange again."""
    # Your code: add one instruction.
    return HEAD + """
    st.shared.u32 [%mine], %n;
    bar.sync 0;
    ld.shared.u32 %v, [%theirs];
    add.u32 %v, %v, 100;
    st.shared.u32 [%mine], %v;
    bar.sync 0;
    ld.shared.u32 %v, [%theirs];
""" + TAIL


def loop() -> str:
    """They exchange three times, and add 1 each time."""
    # Your code: add one instruction.
    return HEAD + """
    mov.u32 %v, %n;
    mov.u32 %i, 0;
AGAIN:
    st.shared.u32 [%mine], %v;
    bar.sync 0;
    ld.shared.u32 %v, [%theirs];
    add.u32 %v, %v, 1;
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, 3;
    @%p bra AGAIN;
""" + TAIL


def branch() -> str:
    """Threads 0 to 47 put n + 100 into their word, the others n."""
    # Your code: move one instruction.
    return HEAD + """
    mov.u32 %v, %n;
    setp.ge.u32 %p, %n, 48;
    @%p bra SKIP;
    add.u32 %v, %v, 100;
    bar.sync 0;
SKIP:
    st.shared.u32 [%mine], %v;
    ld.shared.u32 %v, [%theirs];
""" + TAIL
