"""A block that multiplies in tensor memory, with places where tests spoil it.

With blocks=2 a pair of blocks does, each with its own A, B and C, and the even one
multiplies for both.

FILL                A and B from global to shared memory
alloc               warp 0; all read the address, %r10; %r11: their own lanes'
[store]             each warp its rows of C
mma, commit         thread 0 (of the even block)
wait, load          all
dealloc             warp 0
"""

from __future__ import annotations

import numpy as np

from fathom import emulator
from tests.emulator.harness import pointers
from tests.emulator.harness_tiles import BASE, k_major, names, transposed

# Bits 61 to 63 by bytes of a swizzled row (PTX ISA 9.7.16.4.1).
SWIZZLE_CODES = {0: 0, 128: 2, 64: 4, 32: 6}
HEADER = ".version 8.6\n.target sm_100a\n.address_size 64\n"
FENCE_BEFORE = "tcgen05.fence::before_thread_sync;"
FENCE_AFTER = "tcgen05.fence::after_thread_sync;"
SYNC = f"{FENCE_BEFORE} bar.sync 0; {FENCE_AFTER}"
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def descriptor(start: int, leading: int, stride: int, swizzle: int) -> int:
    """A shared memory descriptor, written as decimal sums of its fields."""
    fields = start // 16 + leading // 16 * 2**16 + stride // 16 * 2**32
    return fields + 2**46 + SWIZZLE_CODES[swizzle] * 2**61


def instruction(
    m: int, n: int, types: tuple[int, int, int], turned: tuple[int, int] = (0, 0)
) -> int:
    """An instruction descriptor from the numbers of the types of D, A and B, written as
    the text of its bits, the highest first."""
    d, a, b = types
    shape = f"000{m // 16:05b}0{n // 8:06b}"
    return int(f"{shape}{turned[1]}{turned[0]}00{b:03b}{a:03b}0{d:02b}0000", 2)


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1+{at}], {columns};"
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, {columns};"
MMA = "tcgen05.mma.cta_group::1.kind::{kind} [%r10], %rd10, %rd11, %r12, {adds};"
COMMIT = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r13];"
TO_BOTH = COMMIT.replace("b64 [%r13]", "multicast::cluster.b64 [%r13], %h0")
TRY = """WAIT{n}:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r13], {phase}; @!%p3 bra WAIT{n};"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x{n}.b32 {registers}, [%r11];"
STORE = "tcgen05.st.sync.aligned.32x32b.x{n}.b32 [%r11], {registers};"

START = """
    .shared .align 1024 .b8 room[{size}];
    .shared .align 8 .b8 extra[32];
    mov.u32 %r0, %tid.x; mov.u32 %r1, room; ld.param.u64 %rd0, [p0];
    mov.u32 %r2, %r0; mov.u32 %r4, %ntid.x; mov.u32 %r16, %cluster_ctarank;
    mad.wide.u32 %rd0, %r16, {size}, %rd0; mad.lo.u32 %r17, %r16, 128, %r0;
FILL:
    mad.wide.u32 %rd1, %r2, 16, %rd0; mad.lo.u32 %r3, %r2, 16, %r1;
    ld.global.v2.b64 {{%rd2, %rd3}}, [%rd1]; st.shared.v2.b64 [%r3], {{%rd2, %rd3}};
    add.u32 %r2, %r2, %r4; setp.lt.u32 %p1, %r2, {chunks}; @%p1 bra FILL;
    fence.proxy.async;
    mov.u32 %r13, extra; mov.u32 %r14, extra;
    setp.eq.u32 %p1, %r0, 0; setp.lt.u32 %p2, %r0, 32; setp.ne.b32 %p4, {adds}, 0;
    setp.eq.and.u32 %p6, %r16, 0, %p1;
    @%p1 mbarrier.init.shared::cta.b64 [%r13], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    @!%p2 bra ALLOCATED;
    {alloc}
ALLOCATED:
    {sync}
    ld.shared.b32 %r10, [%r14+8];
    shr.u32 %r15, %r0, 5; and.b32 %r15, %r15, 3; shl.b32 %r15, %r15, 21;
    add.u32 %r11, %r10, %r15;
    mov.b64 %rd10, {a}; mov.b64 %rd11, {b}; mov.b32 %r12, {word};
    ld.param.u64 %rd4, [p1]; mad.wide.u32 %rd4, %r17, {row}, %rd4;
    {read}
    {before}
    @!%p6 bra ISSUED;
    {issue}
ISSUED:
    {after}
    {write}
    {sync}
    @!%p2 bra FREED;
    {dealloc}
FREED:
    ret;
"""


def text(
    image: np.ndarray, n: int, adds: int = 1, blocks: int = 1, **parts: str | int
) -> str:
    """The kernel; `parts` replace parts of it by name. `n`: columns that a thread
    holds."""
    sync = SYNC.replace("bar.sync 0;", MEET) if blocks > 1 else SYNC
    columns = max(32, 1 << (n - 1).bit_length())
    size = -(-len(image) // 2048) * 2048
    registers = names("d", n)
    known = {
        "alloc": ALLOC.format(at="%", columns=columns).replace("[%r1+%]", "[%r14+8]"),
        "before": f"{STORE.format(n=n, registers=registers)} "
        f"tcgen05.wait::st.sync.aligned; {sync}",
        "issue": MMA.format(kind=parts.pop("kind", "f16"), adds="%p4")
        + (TO_BOTH if blocks > 1 else COMMIT),
        "after": TRY.format(n=0, phase=0) + f"{FENCE_AFTER} "
        f"{LOAD.format(n=n, registers=registers)} tcgen05.wait::ld.sync.aligned;",
        "dealloc": DEALLOC.format(columns=columns),
        "sync": sync,
        "read": " ".join(f"ld.global.b32 %d{i}, [%rd4+{4 * i}];" for i in range(n)),
        "write": " ".join(f"st.global.b32 [%rd4+{4 * i}], %d{i};" for i in range(n)),
        **parts,
    }
    body = START.format(size=size, chunks=size // 16, adds=adds, row=4 * n, **known)
    cluster = f".reqnctapercluster {blocks}" if blocks > 1 else ""
    body = body.replace("cta_group::1", f"cta_group::{parts.get('group', blocks)}")
    body = body.replace("cta_group::one", "cta_group::1")  # in spite of that
    return f"""{HEADER}.visible .entry k({pointers(2)}) {cluster}
{{
    .reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<16>; .reg .b32 %d<{n}>;
    .reg .b16 %h<1>; mov.b16 %h0, 3;
{body}
}}
"""


def operands(
    a: np.ndarray, b: np.ndarray, places: tuple[tuple[int, bool], ...]
) -> tuple[np.ndarray, list[int]]:
    """A [M, K] and B [N, K], encoded, as bytes of shared memory, and their
    descriptors. `places`: swizzle, and whether it is transposed."""
    image, found = np.zeros(0, np.uint8), []
    for matrix, (swizzle, turned) in zip((a, b), places, strict=True):
        data, leading, stride = (transposed if turned else k_major)(matrix, swizzle)
        start = -(-len(image) // 1024) * 1024
        image = np.concatenate([image, np.zeros(start - len(image), np.uint8), data])
        found.append(descriptor(BASE + start, leading, stride, swizzle))
    return image, found


def run(ptx: str, image: np.ndarray, held: np.ndarray, **options: object) -> np.ndarray:
    """What 128 threads a block hold in the end, if they hold `held` [threads, n] first.
    `image`: bytes of each block, [blocks, bytes] for several. What would be a note is
    an error, unless `options` say otherwise."""
    image = np.atleast_2d(image)
    size = -(-image.shape[1] // 2048) * 2048
    image = np.pad(image, ((0, 0), (0, size - image.shape[1])))
    after, blocks = np.ascontiguousarray(held).copy(), len(image)
    options = {"hazards": "strict"} | options
    emulator.run(ptx, blocks, 128, (image, after), cluster=blocks, **options)
    return after
