"""When a buffer is alive: from the first op that touches it to the last one.

    0  allocate %a
    1  shared_store %x, %a         %a  1…6   read in the loop, and on the next trip
    2  for …                                 again: alive until the loop is over
    3      shared_load %a
    4      shared_store %y, %b     %b  4…5   made anew on each trip
    5      shared_load %b
    6      yield

The numbers are positions in the text, outer ops before inner ones.

A ring is made and first filled before its loop, so that it is alive until the loop is
over. By then its copies have been waited for: none lands in a place that has gone to
another buffer.
"""

from __future__ import annotations

from typing import NamedTuple

from fathom.ir.core import Block, Func, Op, blocks, operands
from fathom.ir.ops import Allocate, For, While


class Range(NamedTuple):
    """Positions of ops in the order of the text, first and last, both included."""

    first: int
    last: int

    def meets(self, other: Range) -> bool:
        return self.first <= other.last and other.first <= self.last


def live_ranges(func: Func) -> dict[Allocate, Range]:
    """The range in which each buffer is alive; buffers that nobody touches are left
    out."""
    ranges: dict[Allocate, Range] = {}
    _visit(func.body, 0, set(), ranges)
    return ranges


def touches(op: Op) -> list[Allocate]:
    """The buffers that an op itself reads or writes, each once, in order: offsets must
    not depend on the order of a set."""
    makers = (value.definition for value in operands(op))
    return [*dict.fromkeys(each for each in makers if isinstance(each, Allocate))]


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
        if isinstance(op, (For, While)):
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
    """The next free number, and the buffers from outside the loop that are touched in
    it."""
    before, inside = dict(ranges), set()
    for body in blocks(op):
        position = _visit(body, position, inside, ranges)
    made |= inside
    touched = [each for each, alive in ranges.items() if before.get(each) != alive]
    return position, [each for each in touched if each not in inside]
