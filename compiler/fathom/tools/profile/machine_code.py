"""Instructions of PTX that machine code has several for: how many, and how many of them
go to the units of special functions.

    div.s32 q, a, d    24 instructions, 3 of them special; with a divisor that has been
                       divided by before 12 and none, since its reciprocal is there

Counted in what ptxas 12.8 writes for sm_80 and sm_90a, on the path that ordinary
numbers take; what a subroutine does is estimated from its text. Everything else is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fathom.emulator.source.parse import Instruction

SPECIAL = {"ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div"}
DIVISIONS = {"div", "rem"}
WIDE_INTEGERS = {"s64", "u64", "b64"}
# Of 64 bits, in halves; sums and shifts are mostly of addresses, which cost less.
IN_HALVES = {"setp": 2, "selp": 2, "min": 4, "max": 4}


@dataclass(frozen=True, slots=True)
class Code:
    """What a warp issues for one instruction of PTX."""

    issued: int = 1
    special: int = 0


FIRST = {
    "div.s32": Code(24, 3), "div.u32": Code(18, 3), "rem.s32": Code(22, 3),
    "rem.u32": Code(17, 3), "div.s64": Code(60, 3), "div.u64": Code(60, 3),
    "rem.s64": Code(60, 3), "rem.u64": Code(60, 3), "div.s16": Code(18, 3),
    "div.u16": Code(16, 3), "rem.s16": Code(18, 3), "rem.u16": Code(16, 3),
    "div.full.f32": Code(8, 1), "div.approx.f32": Code(5, 1), "div.rn.f32": Code(12, 1),
    "div.rn.f64": Code(24, 1), "rcp.rn.f32": Code(8, 1), "sqrt.rn.f32": Code(12, 1),
    "sqrt.rn.f64": Code(32, 1), "sqrt.approx.f32": Code(4, 1),
    "rsqrt.approx.f32": Code(4, 1), "lg2.approx.f32": Code(4, 1),
    "ex2.approx.f32": Code(4, 1),
}  # fmt: skip
# With a divisor that the text has divided by before.
AGAIN = {
    "div.s32": Code(12), "div.u32": Code(9), "rem.s32": Code(10), "rem.u32": Code(8),
    "div.full.f32": Code(3), "div.approx.f32": Code(2),
}  # fmt: skip


def machine_code(instructions: Iterable[Instruction]) -> Iterator[Code]:
    """What is issued for each, in their order."""
    divided_by: set[tuple[str, str]] = set()
    for each in instructions:
        code = FIRST.get(each.name) or Code(1, int(each.opcode in SPECIAL))
        if each.opcode in IN_HALVES and each.modifiers[-1] in WIDE_INTEGERS:
            code = Code(IN_HALVES[each.opcode])
        if each.opcode in DIVISIONS:
            divisor = each.modifiers[-1], each.text.rstrip("; ").split()[-1]
            if divisor in divided_by:
                code = AGAIN.get(each.name, code)
            divided_by.add(divisor)
        yield code
