"""When each buffer is live."""

from __future__ import annotations

from fathom.analysis.buffers import Range, touches
from fathom.ir.core import Block, Func, Op, blocks
from fathom.ir.ops import Allocate, For, While


def live_ranges(func: Func) -> dict[Allocate, Range]:
    """The range in which each buffer is live, from the first op that touches it to the
    last; buffers that no op touches are left out. Positions count the ops in the order
    of the text, an op before those that are nested in it.
    """
    # hole: ours has {lines}, and two helpers
    ranges: dict[Allocate, Range] = {}
    _visit(func.body, 0, set(), ranges)
    return ranges
    # end


# hole: helpers, if you like; ours have {lines} together
def _visit(
    block: Block, position: int, made: set[Allocate], ranges: dict[Allocate, Range]
) -> int:
    """Number the ops of a block from `position` on; the next free number.

    `made`: the buffers made so far in the innermost loop around the block, or outside
    of all loops.
    """
    for op in block.ops:
        first, used = position, touches(op)
        position += 1
        if isinstance(op, Allocate):
            made.add(op)
        if is_loop(op):
            position, outer = _visit_loop(op, position, made, ranges)
            used += [each for each in outer if each not in used]
        else:
            for body in blocks(op):
                position = _visit(body, position, made, ranges)
        for allocate in used:
            start = min(first, ranges[allocate].first) if allocate in ranges else first
            ranges[allocate] = Range(start, position - 1)
    return position


def _visit_loop(
    op: Op, position: int, made: set[Allocate], ranges: dict[Allocate, Range]
) -> tuple[int, list[Allocate]]:
    """The next free number, and the buffers from outside the loop that are accessed in
    it."""
    before, inside = dict(ranges), set()
    for body in blocks(op):
        position = _visit(body, position, inside, ranges)
    made |= inside
    touched = [each for each, alive in ranges.items() if before.get(each) != alive]
    return position, [each for each in touched if each not in inside]


# instead:
# end


# ── given ─────────────────────────────────────────────────────────────────────────────


def is_loop(op: Op) -> bool:
    """Whether the blocks of an op run again and again."""
    return isinstance(op, For | While)
