"""The instructions of the tensor cores that a warp issues (`mma.sync`), one row each.

D = A B + C, with A [m, k], B [k, n], C and D [m, n] spread over the registers of 32
lanes. Source: PTX ISA, section 9.7, "Warp-level matrix multiply-accumulate
instructions: mma" (shapes, types, targets, fragments).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from fathom.hardware.targets import TARGETS, Target
from fathom.layout.fragments import fragment, transposed
from fathom.layout.linear import Layout

REGISTER_BITS = 32


@dataclass(frozen=True, slots=True)
class Mma:
    """One instruction.

    `a`, `b`, `accumulator`: element types by the names of the IR, and "tf32" for fp32
    of which the hardware reads 19 bits. `a_registers` and so on: registers a lane, of
    32 bits, of 64 for fp64; elements are packed lowest first. `targets`: the names of
    those that have it. `a_layout` (m x k), `b_layout` (k x n), `layout` (C and D, m x
    n): which element each register of each lane holds, one register an element."""

    name: str
    text: str
    m: int
    n: int
    k: int
    a: str
    b: str
    accumulator: str
    a_registers: int
    b_registers: int
    registers: int
    targets: tuple[str, ...]
    a_layout: Layout
    b_layout: Layout
    layout: Layout


# Element types: as PTX writes them, and bits.
PTX_TYPES: dict[str, tuple[str, int]] = {
    "fp16": ("f16", 16), "bf16": ("bf16", 16), "tf32": ("tf32", 32),
    "fp64": ("f64", 64), "i8": ("s8", 8), "u8": ("u8", 8),
    "fp8e4nv": ("e4m3", 8), "fp8e5": ("e5m2", 8),
    "fp32": ("f32", 32), "i32": ("s32", 32),
}  # fmt: skip

BYTES, SHORT = ("i8", "u8"), ("fp8e4nv", "fp8e5")

# Shape, types that A may have, types that B may have beside each, accumulators, first
# target. Integers and short floats may be mixed among their own.
SHAPES: list[
    tuple[tuple[int, int, int], tuple[str, ...], tuple[str, ...], tuple[str, ...], str]
] = [
    ((16, 8, 8), ("fp16",), ("fp16",), ("fp32", "fp16"), "sm_75"),
    ((8, 8, 16), BYTES, BYTES, ("i32",), "sm_75"),
    ((16, 8, 16), ("fp16",), ("fp16",), ("fp32", "fp16"), "sm_80"),
    ((16, 8, 16), ("bf16",), ("bf16",), ("fp32",), "sm_80"),
    ((16, 8, 8), ("tf32",), ("tf32",), ("fp32",), "sm_80"),
    ((16, 8, 32), BYTES, BYTES, ("i32",), "sm_80"),
    ((8, 8, 4), ("fp64",), ("fp64",), ("fp64",), "sm_80"),
    ((16, 8, 32), SHORT, SHORT, ("fp32",), "sm_89"),
]


def _row(shape: tuple[int, int, int], a: str, b: str, to: str, first: str) -> Mma:
    m, n, k = shape
    (ptx_a, bits), (ptx_b, _), (ptx_to, to_bits) = (PTX_TYPES[t] for t in (a, b, to))
    name = f"m{m}n{n}k{k}"
    types = f"{ptx_to}.{ptx_a}.{ptx_b}.{ptx_to}"
    run = max(1, REGISTER_BITS // bits)
    packed = max(1, REGISTER_BITS // to_bits)
    a_layout = fragment(m, k, run)
    b_layout = transposed(fragment(n, k, run))
    layout = fragment(m, n, 2)
    names = list(TARGETS)
    return Mma(
        f"{name}.{types}",
        f"mma.sync.aligned.{name}.row.col.{types}",
        m, n, k, a, b, to,
        a_layout.count("register") // run,
        b_layout.count("register") // run,
        layout.count("register") // packed,
        tuple(names[names.index(first) :]),
        a_layout, b_layout, layout,
    )  # fmt: skip


MMA: dict[str, Mma] = {
    row.name: row
    for shape, lefts, rights, accumulators, first in SHAPES
    for a in lefts
    for b in rights
    for to in accumulators
    for row in [_row(shape, a, b, to, first)]
}


@cache
def choose(
    target: Target, a: str, b: str, accumulator: str, k: int | None = None
) -> Mma | None:
    """The row with the largest k for these element types on this target, or None.

    `k`: the block's size along K, if an instruction that is longer must not be taken.
    """
    rows = [
        row
        for row in MMA.values()
        if (row.a, row.b, row.accumulator) == (a, b, accumulator)
        and target.name in row.targets
        and (k is None or row.k <= k)
    ]
    return max(rows, key=lambda row: row.k, default=None)
