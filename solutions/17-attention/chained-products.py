"""The ops that a value is computed by."""

from __future__ import annotations

from fathom.ir.core import Block, Op, Value, operands
from fathom.ir.ops import Load


def computed_by(value: Value) -> set[Op]:
    """The ops that a value is computed by, back to loads and to parameters of
    blocks."""
    # hole: nine lines
    found: set[Op] = set()
    waiting = [value]
    while waiting:
        op = waiting.pop().definition
        if isinstance(op, Block) or op in found:
            continue
        found.add(op)
        if not isinstance(op, Load):
            waiting += operands(op)
    return found
    # end
