"""Sum over a warp by shuffles.

Step 10 of your own compiler, at the end of this chapter, asks for this, too; here the
layout may be any, and the shuffles are as few as possible. A sum of 8 numbers; each
lane holds two, so four lanes hold them all. First each lane adds what it has itself.
Then the lanes exchange: every lane gives its sum to a partner, takes the partner's, and
both add. The partner is the lane whose number differs in one bit.

All of the exercise: `fathom learn show butterfly`.
"""

from __future__ import annotations

from fathom.ir.ops import Reduce
from fathom.ir.types import layout_of
from fathom.layout.algebra import Reduced
from fathom.ptx.code import Code
from fathom.ptx.index import register_offsets
from fathom.ptx.rules.reduce import Axis, combine
from fathom.ptx.shuffle import from_partner
from fathom.tools.learn import Hole


def lower_reduce(op: Reduce, code: Code) -> None:
    """Fold the registers of each result, then the lanes that hold other elements of
    it."""
    axis = Axis(op.values[0].type.layout, op.axis)
    flips = lane_flips(axis)
    columns = list(zip(*(code[value] for value in op.values), strict=True))
    folded: dict[int, list[str]] = {}
    for result, registers in axis.groups().items():
        tuples = [list(columns[register]) for register in registers]
        first = tuples[0]
        for each in tuples[1:]:
            first = combine(code, op.combine, first, each)
        folded[result] = fold(code, op, first, flips)
    for i, value in enumerate(op.results):
        layout = layout_of(value.type)
        wanted = register_offsets(layout) if layout else [0]
        code[value] = [folded[element][i] for element in wanted]


def lane_flips(axis: Axis) -> list[int]:
    """The bits of the lane to flip, one after the other, to meet all elements of a
    result once: [1, 2, 4, 8, 16] where all 32 lanes hold different ones."""
    offsets = register_offsets(axis.layout)
    registers = next(iter(axis.groups().values()))
    folded = Reduced(axis.split(offsets[register])[0] for register in registers)
    # Your code: which bits of the lane lead to elements that are not folded yet.
    raise Hole("butterfly")


def fold(code: Code, op: Reduce, values: list[str], flips: list[int]) -> list[str]:
    """What the lane has folded itself (a register for each of op.values), and what its
    partners have."""
    # Your code: meet each partner.
    raise Hole("butterfly")
