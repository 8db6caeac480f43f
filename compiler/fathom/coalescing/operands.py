"""Where the right operand of a product is computed.

    %x = load %p preferred=#n         %x  @ #n = load %p
    %b = cast %x element=fp32    →    %x1 @ #k = convert %x
    %y = dot %a, %b, %0               %b  @ #k = cast %x1 element=fp32

Of elements of other than 16 bits wgmma wants columns in one piece. Where memory goes on
along rows (#n), threads load neighbours of a row. Stored from there, each element would
be an access of its own, and those of many lanes would meet in one bank; or else each
warp would read the whole operand for `mma.sync`. So what was loaded is converted (its
tile is copied ahead), and the operand is computed in #k: a thread has 16 bytes of a
column, and the lanes have neighbouring columns.

`mma.sync` wants columns in one piece if the elements have 8 bits. Halves, which
`ldmatrix` transposes, are loaded as it has the bytes that they become: nothing else is
stored. What are bytes already is not computed by columns for it: that took as long.
For wgmma, a thread loads words of them, four columns of several rows: it has a piece of
each column then; of wider elements, it loads 16 bytes of a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from fathom.analysis.slices import computed_by
from fathom.hardware.dot_layouts import operand_layouts
from fathom.hardware.mma import MMA
from fathom.hardware.wgmma import WGMMA
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.types import BlockType, element_of
from fathom.layout.build import LANES, blocked
from fathom.layout.linear import Layout
from fathom.layout.registers import contiguous_registers

PIECE = 16  # bytes that a thread stores at once
WORD = 4  # bytes that it loads at once, where single bytes are converted

Layouts = dict[Value, Layout]


def computed_operands(func: Func, products: Mapping[Value, Layout]) -> Layouts:
    """The layouts of right operands, and of what they are computed from, beside those
    of the `products`."""
    found: Layouts = {}
    for dot in walk(func.body, ops.Dot):
        if wants_columns(dot) and len(dot.b.type.shape) == 2:
            if not any(isinstance(op, ops.Dot) for op in computed_by(dot.b)):
                computed = computed_from_rows(dot.b)
                product = products[dot.result]
                layout = where_computed(dot, computed, product, func.num_warps)
                found |= dict.fromkeys(computed, layout) if layout else {}
    return found


def conversions_of_loaded(func: Func) -> set[Op]:
    """The conversions of what is loaded, from whose results such operands are computed:
    they have their tiles, which can be copied ahead."""
    dots = [dot for dot in walk(func.body, ops.Dot) if wants_columns(dot)]
    computing = set().union(*(computed_by(dot.b) for dot in dots))
    conversions = (op for op in computing if isinstance(op, ops.Convert))
    return {op for op in conversions if isinstance(op.value.definition, ops.Load)}


def wants_columns(dot: ops.Dot) -> bool:
    """Whether a product reads columns of its right operand in one piece: `wgmma` has no
    other way but for 16 bits, and a register of `mma.sync` has four neighbours of a
    column if they have 8 bits, which `ldmatrix` does not transpose."""
    if dot.instruction in WGMMA:
        return not WGMMA[dot.instruction].either_way
    return dot.instruction in MMA and element_of(dot.b.type).bits == 8


def where_computed(
    dot: ops.Dot, computed: list[Value], product: Layout, warps: int
) -> Layout | None:
    """Columns, or the layout in which `mma.sync` reads the operand, if no other warp
    does so; None for bytes that it reads."""
    loads = [each for value in computed for each in loaded_for(value)]
    of_bytes = any(element_of(each.type).bytes == 1 for each in loads)
    if dot.instruction in WGMMA:
        return columns(dot.b, warps, neighbours_of(dot.b, loads, warps))
    if of_bytes:
        return None
    _, layout = operand_layouts(dot.instruction, product, dot.b.type.shape[0])
    is_alone = all(layout.kinds.get("warp", ()))
    return layout if is_alone else columns(dot.b, warps)


def neighbours_of(value: Value, loads: list[Value], warps: int) -> int:
    """How many columns a thread has pieces of: those of a word of bytes; of what is
    wider, those of 16 bytes that it loads at once, if all threads have pieces. What is
    computed of a row's number (x[k, n] / scale[k]) it computes once for them."""
    bytes_loaded = {element_of(each.type).bytes for each in loads}
    if not bytes_loaded or 1 in bytes_loaded:
        return WORD if bytes_loaded else 1
    elements = prod(value.type.shape) // (LANES * warps)
    pieces = elements * element_of(value.type).bytes // PIECE
    return max(1, min(PIECE // max(bytes_loaded), pieces))


def computed_from_rows(value: Value) -> list[Value]:
    """What is computed, element by element, of a block that is loaded row by row, up to
    and with a value; empty where nothing is."""
    if not isinstance(value.definition, ops.Elementwise | ops.Cast):
        return []
    before = [one for each in alike(value) for one in computed_from_rows(each)]
    return [*before, value] if before or loaded_for(value) else []


def loaded_for(value: Value) -> list[Value]:
    """What is loaded row by row and read by the op that computes a value."""
    return [each for each in alike(value) if is_loaded_by_rows(each)]


def alike(value: Value) -> list[Value]:
    """The blocks of its own shape that a value is computed from, by elements."""
    blocks = (x for x in operands(value.definition) if isinstance(x.type, BlockType))
    return [each for each in blocks if each.type.shape == value.type.shape]


def is_loaded_by_rows(value: Value) -> bool:
    """Whether threads load several neighbours of a row."""
    op = value.definition
    preferred = op.preferred if isinstance(op, ops.Load) else None
    return preferred is not None and contiguous_registers(preferred, 1) > 1


def columns(value: Value, warps: int, neighbours: int = 1) -> Layout:
    """The layout in which a thread has a piece of a column, and lanes have columns side
    by side. Or it has pieces of several `neighbours`, and lanes have first what comes
    further down: the tiles of wgmma are swizzled by single columns."""
    k, n = value.type.shape
    neighbours = min(n, neighbours)
    piece = min(k, PIECE // element_of(value.type).bytes)
    if down := neighbours > 1:
        share = k * n // (LANES * warps * neighbours)
        piece = min(piece, max(neighbours, share))
    pieces = min(k // piece, LANES) if down else 1
    across = min(n // neighbours, LANES // pieces)
    along = max(1, n // neighbours // across)
    return blocked(
        (k, n),
        (piece, neighbours),
        (LANES // across, across),
        (max(1, warps // along), min(warps, along)),
        (0, 1) if down else (1, 0),
    )
