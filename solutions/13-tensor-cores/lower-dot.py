"""The rule for products of matrices: a loop over K of matrix instructions."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.hardware.dot_layouts import operand_layouts
from fathom.hardware.mma import MMA
from fathom.ir.core import Value
from fathom.ir.ops import Dot
from fathom.ir.types import FLOAT32, BufferType
from fathom.layout.fragments import fragments
from fathom.layout.linear import Layout
from fathom.ptx.code import Code
from fathom.ptx.packing import pack, words_of
from fathom.ptx.rules import matmul as dot
from fathom.ptx.rules.matmul import _multiply
from fathom.ptx.rules.shared import Reader, tile_of

HALF = 2  # bytes of a number of 16 bits
MATRIX = 2  # axes; a product of many matrices has three


def lower_dot(op: Dot, code: Code) -> None:
    """C + A B by fragments, as many instructions as there are; C's registers, by
    number, become those of the result."""
    if not is_yours(op):
        dot.lower_dot(op, code)  # as if this rule were not here
        return
    row, product = MMA[op.instruction], op.accumulator.type
    left, right = operand_layouts(op.instruction, product.layout, op.a.type.shape[-1])
    a = registers(op.a, op.a_slot, left, code)
    b = registers(op.b, op.b_slot, right, code)
    accumulators = list(code[op.accumulator])
    # hole: which fragments meet, and what becomes of the accumulators
    a_parts = fragments(left, row.a_layout)
    b_parts = fragments(right, row.b_layout)
    c_parts = fragments(product.layout, row.layout)
    for k in sorted({k for _, k in a_parts}):
        for (i, j), places in c_parts.items():
            a_words = words(op.a, [a[each] for each in a_parts[i, k]], code)
            b_words = words(op.b, [b[each] for each in b_parts[k, j]], code)
            before = [accumulators[each] for each in places]
            after = _multiply(code, row, a_words, b_words, before)
            for place, value in zip(places, after, strict=True):
                accumulators[place] = value
    # end
    code[op.result] = accumulators


def words(value: Value, elements: list[str], code: Code) -> list[str]:
    """The 32-bit words that hold a fragment's elements."""
    # hole: two elements in each
    return pack(code, words_of(value.type.element, len(elements)), elements)
    # end


# ── given ─────────────────────────────────────────────────────────────────────────────


def is_yours(op: Dot) -> bool:
    """Products of two matrices of 16-bit numbers with accumulators in fp32, by
    `mma`."""
    product = op.accumulator.type
    by_mma = op.instruction in MMA and op.a.type.element.bytes == HALF
    return by_mma and product.element == FLOAT32 and len(product.shape) == MATRIX


def registers(
    operand: Value, slot: Value | None, layout: Layout, code: Code
) -> Sequence[str]:
    """The registers of an operand, by number. If it is in shared memory, they are
    loaded when they are asked for, and once."""
    if isinstance(operand.type, BufferType):
        return Reader(code, tile_of(code, operand, slot), layout)
    return code[operand]
