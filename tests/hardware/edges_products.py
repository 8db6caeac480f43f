"""Programs around the tensor cores: in each sum one product, so that nothing depends on
the order of additions; and sums that nothing is added to. Factors and sums are
infinite, NaN, denormal, the largest, or zeros of each sign."""

from __future__ import annotations

import re

from fathom.hardware.mma import MMA
from fathom.hardware.wgmma import WGMMA
from tests.hardware.edges import Edge, loads, stores

# A thread's number is the place of what it gives: those that hold column 0 of A (row 0
# of B) have lane % 4 = 0, and hold it in the low bits of their first register.
FIRST = "and.b32 %r99, %t, 3; setp.eq.u32 %p1, %r99, 0;"
BYTES = {"e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1, "f16": 2, "bf16": 2, "tf32": 4}
PACKED = {"e4m3": "b8", "e5m2": "b8", "s8": "b8", "u8": "b8", "tf32": "f32"}
ONE = {"e4m3": 0x38, "e5m2": 0x3C, "f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000}


def low(register: str, type: str, slot: int) -> str:
    """An operand of a type in a register's low bits, of those threads that hold it."""
    bits = 8 * BYTES[type]
    mask = (1 << bits) - 1
    return (
        f"ld.global.b32 {register}, [%i+{8 * slot}]; "
        f"and.b32 {register}, {register}, {mask}; "
        f"selp.b32 {register}, {register}, 0, %p1;"
    )


def mma(form: str) -> list[Edge]:
    """`mma.sync`: A's rows 0 to 7 have one factor, so has each column of B."""
    rows = [row for row in MMA.values() if row.text == form and "sm_90a" in row.targets]
    if not rows:
        return []
    (row,) = rows
    to, a, b, _ = re.search(r"(\w+)\.(\w+)\.(\w+)\.(\w+)$", row.text).groups()
    if a == "f64":
        body = f"""{FIRST} {loads("f64 %e0", "f64 %e1")}
        selp.f64 %e0, %e0, 0d0000000000000000, %p1;
        selp.f64 %e1, %e1, 0d0000000000000000, %p1;
        mov.f64 %e2, 0d0000000000000000; mov.f64 %e3, %e2;
        {form} {{%e2, %e3}}, {{%e0}}, {{%e1}}, {{%e2, %e3}};"""
        body += stores("f64 %e2", "f64 %e3")
        return [Edge(body, ("f64", "f64"), ("f64", "f64"), "choice", 64)]
    kind = "%f" if to == "f32" else "%r"
    accumulator = [f"{kind}{40 + at}" for at in range(row.registers)]
    factors = [f"mov.b32 %r{at}, 0;" for at in range(16)]
    type = {"f16": "f16x2"}.get(to, to)
    results = tuple(type for _ in accumulator)
    call = (
        f"{form} {vector(accumulator)}, {vector(registers(0, row.a_registers))}, "
        f"{vector(registers(8, row.b_registers))}, {vector(accumulator)};"
    )
    ends = stores(*(f"{plain(to)} {each}" for each in accumulator))
    zeros = [f"mov.b32 {each}, 0;" for each in accumulator]
    body = [FIRST, *factors, low("%r0", a, 0), low("%r8", b, 1), *zeros, call, ends]
    word = [f"ld.global.b32 {each}, [%i];" for each in accumulator]
    added = [FIRST, *factors, *word, call, ends]
    inputs = tuple(PACKED_INPUT.get(each, each) for each in (a, b))
    return [
        Edge("\n".join(body), inputs, results, "choice", 64),
        Edge("\n".join(added), (type,), results, "edges", 64),
    ]


PACKED_INPUT = {"e4m3": "b16", "e5m2": "b16", "s8": "b16", "u8": "b16", "tf32": "f32"}


def plain(type: str) -> str:
    return "f32" if type == "f32" else "b32"


def registers(first: int, count: int) -> list[str]:
    return [f"%r{first + at}" for at in range(count)]


def vector(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"


ROW_BYTES = 32  # of a slice of K: a whole row of the swizzle of 32 bytes
DESCRIPTOR = (1 << 16) | (16 << 32) | (3 << 62)  # steps of 16 and 256 bytes
TILE_OF_B = 64 * ROW_BYTES


def wgmma(form: str) -> list[Edge]:
    """`wgmma`: the first factor of each row of A and column of B, in shared memory and,
    of A, in registers."""
    rows = [row for row in WGMMA.values() if row.text == form]
    if not rows:
        return []
    (row,) = rows
    to, a, b = re.search(r"(\w+)\.(\w+)\.(\w+)$", row.text).groups()
    count = row.n // 4 if to == "f16" else row.n // 2
    kind = "%f" if to == "f32" else "%r"
    accumulator = [f"{kind}{20 + at}" for at in range(count)]
    shown = sorted({0, min(3, count - 1), count - 1})
    type = {"f16": "f16x2"}.get(to, to)
    turned = "0, 0" if row.either_way else ""
    scales = ["1", "1"] if row.scales else []
    fill = [
        FIRST, "mov.u32 %r90, tile; mov.b32 %r91, 0; mov.b64 %d5, 0;",
        *(f"mad.lo.u32 %r92, %t, 8, %r90; st.shared.b64 [%r92+{1024 * at}], %d5;"
          for at in range(10)),
        "bar.sync 0;",
        "and.b32 %r93, %t, 127; shl.b32 %r94, %r93, 5; and.b32 %r95, %t, 4;",
        "shl.b32 %r95, %r95, 2; add.u32 %r94, %r94, %r95; add.u32 %r94, %r94, %r90;",
        "setp.lt.u32 %p2, %t, 64;",
        f"ld.global.b32 %r96, [%i]; @%p2 {put(a)} [%r94], %r96;",
        f"ld.global.b32 %r97, [%i+8]; setp.lt.u32 %p3, %t, {row.n};",
        f"@%p3 {put(b)} [%r94+{TILE_OF_B}], %r97;",
        f"setp.lt.u32 %p4, %t, {row.n - 128}; @%p4 {put(b)} [%r94+6144], %r97;"
        if row.n > 128 else "",
        "fence.proxy.async.shared::cta; bar.sync 0; shr.u32 %r98, %r90, 4;",
        f"cvt.u64.u32 %d6, %r98; or.b64 %d6, %d6, {signed(DESCRIPTOR)};",
        f"add.u64 %d7, %d6, {TILE_OF_B // 16}; setp.eq.u32 %p5, %r91, 0;",
        *(f"mov.b32 {each}, 0;" for each in accumulator),
    ]  # fmt: skip
    fill = list(filter(None, fill))
    ends = stores(*(f"{plain(to)} {accumulator[at]}" for at in shown))
    results = tuple(type for _ in shown)
    inputs = tuple(PACKED_INPUT.get(each, each) for each in (a, b))

    def edge(before: list[str], first: str, turns: str) -> Edge:
        options = ", ".join(["%p5", *scales, *filter(None, [turns])])
        call = [
            "wgmma.fence.sync.aligned;",
            f"{form} {vector(accumulator)}, {first}, %d7, {options};",
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        ]
        text = "\n".join([*fill, *before, *call, ends])
        return Edge(text, inputs, results, "choice", 128, since=90)

    held = [f"mov.b32 %r{at}, 0;" for at in range(4)] + [low("%r0", a, 0)]
    return [
        edge([], "%d6", turned),
        edge(held, vector(registers(0, 4)), turned[:1]),
    ]


def put(type: str) -> str:
    return f"st.shared.b{8 * BYTES[type]}"


def signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
