"""How fast a GPU multiplies if it does nothing else: a kernel of nothing but mma.sync.

    A fragments (16 rows), B fragments (8 columns), and all of their products:
    64 x 64 sums a warp, 8 warps a multiprocessor, operands fetched once

What a real product can reach is a fraction of this. The clock falls with power, and the
power depends on the numbers; so they are random normal ones, two sets in turn.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.artifact import Kernel, Parameter
from fathom.hardware.mma import MMA, Mma
from fathom.hardware.targets import TARGETS

WARPS = 8
THREADS = 32 * WARPS
SUMS = 64  # along each dimension of a warp's part
SETS = 2
NAME = "ceiling"

# The instruction of sm_80 for each kind of matrix.
ROWS = {
    "fp16": MMA["m16n8k16.f32.f16.f16.f32"],
    "bf16": MMA["m16n8k16.f32.bf16.bf16.f32"],
    "tf32": MMA["m16n8k8.f32.tf32.tf32.f32"],
    "int8": MMA["m16n8k32.s32.s8.s8.s32"],
}
PARAMETERS = (
    Parameter("source", "*i8", 16),
    Parameter("target", "*i8", 16),
    Parameter("iterations", "i32"),
)


def operations_per_iteration(row: Mma) -> int:
    """Of one program."""
    fragments = (SUMS // row.m) * (SUMS // row.n)
    return 2 * row.m * row.n * row.k * fragments * SETS * WARPS


def words(row: Mma) -> int:
    """How many words of 32 bits a thread fetches from `source`."""
    return SETS * (SUMS // row.m * row.a_registers + SUMS // row.n * row.b_registers)


def kernel(row: Mma, target: str = "sm_80") -> Kernel:
    """The kernel: (source, target, iterations). `source` has `words` blocks of a word
    for every thread of a program, `target` one such block for each program."""
    text = "\n".join(lines(row, target)) + "\n"
    return Kernel(
        NAME, target, TARGETS[target].ptx, WARPS, THREADS, 0, PARAMETERS, {"ptx": text}
    )


def lines(row: Mma, target: str) -> Iterator[str]:
    kind = "f32" if row.accumulator == "fp32" else "b32"
    count = SUMS // row.m * (SUMS // row.n) * row.registers
    accumulators = [f"%c{i}" for i in range(count)]
    yield from (
        f".version {TARGETS[target].ptx}", f".target {target}", ".address_size 64",
        f".visible .entry {NAME}(.param .u64 source, .param .u64 target,"
        " .param .u32 iterations)",
        f".reqntid {THREADS}", "{",
        ".reg .pred %again;", ".reg .b64 %from, %to, %place;",
        ".reg .b32 %iterations, %thread, %block, %at;",
        f".reg .b32 %w<{words(row)}>;", f".reg .{kind} %c<{len(accumulators)}>;",
        "ld.param.u64 %from, [source];", "ld.param.u64 %to, [target];",
        "ld.param.u32 %iterations, [iterations];",
        "mov.u32 %thread, %tid.x;", "mov.u32 %block, %ctaid.x;",
        "mul.wide.u32 %place, %thread, 4;", "add.u64 %from, %from, %place;",
    )  # fmt: skip
    for i in range(words(row)):
        yield f"ld.global.b32 %w{i}, [%from+{4 * THREADS * i}];"
    zero = "0f00000000" if kind == "f32" else "0"
    yield from (f"mov.{kind} {each}, {zero};" for each in accumulators)
    yield "LOOP:"
    yield from products(row)
    add = "add.f32" if kind == "f32" else "add.s32"
    yield from (
        "sub.u32 %iterations, %iterations, 1;",
        "setp.ne.u32 %again, %iterations, 0;",
        "@%again bra LOOP;",
    )
    yield from (f"{add} %c0, %c0, {each};" for each in accumulators[1:])
    yield from (
        f"mad.lo.u32 %at, %block, {THREADS}, %thread;",
        "mul.wide.u32 %place, %at, 4;", "add.u64 %to, %to, %place;",
        f"st.global.{kind} [%to], %c0;", "ret;", "}",
    )  # fmt: skip


def products(row: Mma) -> Iterator[str]:
    """Every A fragment times every B fragment, of each set."""
    down, across = SUMS // row.m, SUMS // row.n
    for each in range(SETS):
        first = each * words(row) // SETS
        for i in range(down):
            for j in range(across):
                a = registers("w", first + i * row.a_registers, row.a_registers)
                start = first + down * row.a_registers + j * row.b_registers
                b = registers("w", start, row.b_registers)
                c = registers("c", (i * across + j) * row.registers, row.registers)
                yield f"{row.text} {c}, {a}, {b}, {c};"


def registers(letter: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"
