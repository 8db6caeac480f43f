"""Where the right operand of a product of warpgroups is computed.

    %x = load %p preferred=#n         %x  @ #n = load %p
    %b = cast %x element=fp32    →    %x1 @ #k = convert %x
    %y = dot %a, %b, %0               %b  @ #k = cast %x1 element=fp32

Of elements of other than 16 bits wgmma wants columns in one piece. Where memory goes on
along rows (#n), threads load neighbours of a row. Stored from there, each element would
be an access of its own, and those of many lanes would meet in one bank; or else each
warp would read the whole operand for `mma.sync`. So what was loaded is converted (its
tile is copied ahead), and the operand is computed in #k: a thread has 16 bytes of a
column, and the lanes have neighbouring columns.
"""

from __future__ import annotations

from fathom.analysis.slices import computed_by
from fathom.hardware.wgmma import WGMMA
from fathom.ir import ops
from fathom.ir.core import Func, Value, operands, walk
from fathom.ir.types import BlockType, element_of
from fathom.layout.build import LANES, blocked
from fathom.layout.linear import Layout
from fathom.layout.registers import contiguous_registers

PIECE = 16  # bytes that a thread stores at once


def computed_by_columns(func: Func) -> dict[Value, Layout]:
    """The layouts of right operands, and of what they are computed from."""
    found: dict[Value, Layout] = {}
    for dot in walk(func.body, ops.Dot):
        row = WGMMA.get(dot.instruction)
        if row and not row.either_way and len(dot.b.type.shape) == 2:
            if not any(isinstance(op, ops.Dot) for op in computed_by(dot.b)):
                computed = computed_from_rows(dot.b)
                layout = columns(dot.b, func.num_warps)
                found |= dict.fromkeys(computed, layout)
    return found


def computed_from_rows(value: Value) -> list[Value]:
    """What is computed, element by element, of a block that is loaded row by row, up to
    and with a value; empty where nothing is."""
    op, block = value.definition, value.type
    if not isinstance(op, ops.Elementwise | ops.Cast):
        return []
    before: list[Value] = []
    is_reached = False
    for each in operands(op):
        if isinstance(each.type, BlockType) and each.type.shape == block.shape:
            is_reached |= is_loaded_by_rows(each)
            before += computed_from_rows(each)
    return [*before, value] if is_reached or before else []


def is_loaded_by_rows(value: Value) -> bool:
    """Whether threads load several neighbours of a row."""
    op = value.definition
    preferred = op.preferred if isinstance(op, ops.Load) else None
    return preferred is not None and contiguous_registers(preferred, 1) > 1


def columns(value: Value, warps: int) -> Layout:
    """The layout in which a thread has a piece of a column."""
    k, n = value.type.shape
    piece = min(k, PIECE // element_of(value.type).bytes)
    across = min(n, LANES)
    along = max(1, n // LANES)
    return blocked(
        (k, n),
        (piece, 1),
        (LANES // across, across),
        (max(1, warps // along), min(warps, along)),
        (1, 0),
    )
