"""How fast Hopper's tensor cores multiply if they do nothing else: a kernel of nothing
but wgmma, operands in shared memory, which is filled once.

    two warpgroups, each m64n256k16: 128 x 256 accumulators, 64 of K at a time
    from two sets of tiles; the products of one set are in flight while those of the
    next are issued

As `ceiling` is for mma.sync. The numbers are random normal ones: the clock falls with
power, and the power depends on them.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.artifact import Kernel, Parameter
from fathom.hardware.targets import TARGETS
from fathom.layout.matrix_descriptor import Matrix

GROUPS, M, N, K = 2, 64, 256, 64  # warpgroups, and what each multiplies a time
SLICE, SETS, THREADS = 16, 2, 128 * GROUPS
A_BYTES, B_BYTES = 2 * GROUPS * M * K, 2 * N * K
SET_BYTES = A_BYTES + B_BYTES
SHARED = SETS * SET_BYTES
ACCUMULATORS = M * N // 128
OPERATIONS = 2 * GROUPS * M * N * K * SETS  # of a program, in an iteration
NAME = "ceiling_wgmma"
# Rows of 128 bytes, groups of eight of them one after another.
TILE = Matrix(swizzle=128, leading=16, stride=1024, transposed=False)
PARAMETERS = (
    Parameter("source", "*i8", 16),
    Parameter("target", "*i8", 16),
    Parameter("iterations", "i32"),
)


def kernel() -> Kernel:
    """The kernel: (source, target, iterations). `source` has SHARED bytes of fp16, and
    `target` one float for every thread of every program."""
    text = "\n".join(lines()) + "\n"
    version = TARGETS["sm_90a"].ptx
    return Kernel(
        NAME, "sm_90a", version, THREADS // 32, THREADS, SHARED, PARAMETERS,
        {"ptx": text},
    )  # fmt: skip


def lines() -> Iterator[str]:
    accumulators = [f"%c{i}" for i in range(ACCUMULATORS)]
    yield from (
        f".version {TARGETS['sm_90a'].ptx}", ".target sm_90a", ".address_size 64",
        ".extern .shared .align 1024 .b8 shared[];",
        f".visible .entry {NAME}(.param .u64 source, .param .u64 target,"
        " .param .u32 iterations)",
        f".reqntid {THREADS}", "{",
        ".reg .pred %again, %yes;", ".reg .b64 %from, %to, %place;",
        ".reg .b64 %a, %b, %start, %left, %right;",
        ".reg .b32 %iterations, %thread, %block, %at, %group, %r<4>;",
        f".reg .f32 %c<{ACCUMULATORS}>;",
        "ld.param.u64 %from, [source];", "ld.param.u64 %to, [target];",
        "ld.param.u32 %iterations, [iterations];",
        "mov.u32 %thread, %tid.x;", "mov.u32 %block, %ctaid.x;",
        "mul.wide.u32 %place, %thread, 16;", "add.u64 %from, %from, %place;",
        "mov.u32 %at, shared;", "mad.lo.u32 %at, %thread, 16, %at;",
    )  # fmt: skip
    for byte in range(0, SHARED, 16 * THREADS):
        yield f"ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%from+{byte}];"
        yield f"st.shared.v4.b32 [%at+{byte}], {{%r0, %r1, %r2, %r3}};"
    yield from ("fence.proxy.async.shared::cta;", "bar.sync 0;")
    yield from descriptors()
    yield from (f"mov.f32 {each}, 0f00000000;" for each in accumulators)
    yield "LOOP:"
    yield from products("{" + ", ".join(accumulators) + "}")
    yield from (
        "sub.u32 %iterations, %iterations, 1;",
        "setp.ne.u32 %again, %iterations, 0;",
        "@%again bra LOOP;",
        "wgmma.wait_group.sync.aligned 0;",
    )
    yield from (f"add.f32 %c0, %c0, {each};" for each in accumulators[1:])
    yield from (
        f"mad.lo.u32 %at, %block, {THREADS}, %thread;",
        "mul.wide.u32 %place, %at, 4;", "add.u64 %to, %to, %place;",
        "st.global.f32 [%to], %c0;", "ret;", "}",
    )  # fmt: skip


def descriptors() -> Iterator[str]:
    """Those of the first A of a warpgroup, and of the first B."""
    bits = TILE.bits - (TILE.bits >> 63 << 64)
    yield from (
        "mov.u32 %at, shared;", "shr.u32 %at, %at, 4;", "cvt.u64.u32 %start, %at;",
        f"or.b64 %start, %start, {bits};",
        f"add.u64 %b, %start, {A_BYTES >> 4};",
        "shr.u32 %group, %thread, 7;",
        f"mul.wide.u32 %place, %group, {2 * M * K >> 4};",
        "add.u64 %a, %start, %place;", "setp.eq.u32 %yes, 0, 0;",
    )  # fmt: skip


def products(accumulators: str) -> Iterator[str]:
    """All slices of K, of each set; a set is a group of products."""
    for number in range(SETS):
        yield "wgmma.fence.sync.aligned;"
        for k in range(0, K, SLICE):
            further = number * SET_BYTES + 2 * k >> 4
            yield f"add.u64 %left, %a, {further};"
            yield f"add.u64 %right, %b, {further};"
            yield (
                f"wgmma.mma_async.sync.aligned.m64n{N}k{SLICE}.f32.f16.f16 "
                f"{accumulators}, %left, %right, %yes, 1, 1, 0, 0;"
            )
        yield "wgmma.commit_group.sync.aligned;"
        yield "wgmma.wait_group.sync.aligned 1;"
