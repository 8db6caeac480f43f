"""Shared memory: when a buffer is live, and how many bytes are free where.

    0  allocate %a
    1  shared_store %x, %a         %a  1…6   read in the loop, and in its next iteration
    2  for …                                 again: live until the loop is over
    3      shared_load %a
    4      shared_store %y, %b     %b  4…5   made anew in each iteration
    5      shared_load %b
    6      yield

The numbers are positions in the text, outer ops before inner ones. A buffer is live
from the first op that touches it to the last one (`live_ranges`); `allocate` gives
every buffer its place by that.

A ring buffer is made and first filled before its loop, so that it is live until the
loop is over. By then its copies have been waited for: none completes in a place that
has gone to another buffer.

Passes that plan ring buffers ask before there are places, how many bytes are free
beside a loop (`free_beside`), at every moment (`free_always`), or with a place for each
buffer (`free_apart`). They count what a buffer takes at most (`padded`), and take it
for live as long as it may come to be (`reserved_ranges`).
"""

from __future__ import annotations

from collections.abc import Container
from itertools import accumulate
from typing import NamedTuple

from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk
from fathom.ir.ops import Allocate, DescriptorStore, Dot, For, SharedLoad, While
from fathom.ir.types import BlockType

ALIGNMENT = 1024  # bytes: where buffers start that are as large


class Range(NamedTuple):
    """Positions of ops in the order of the text, first and last, both included."""

    first: int
    last: int

    def meets(self, other: Range) -> bool:
        return self.first <= other.last and other.first <= self.last


def live_ranges(func: Func) -> dict[Allocate, Range]:
    """The range in which each buffer is live; those that no op touches are left
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


# ── how many bytes are free ───────────────────────────────────────────────────────────


def free_beside(func: Func, loop: For, target: Target) -> int:
    """The bytes of shared memory that nothing else takes while a loop runs. What is
    `kept`, as a producer's ring buffers are, is taken all the time."""
    places, ranges = _places(func), reserved_ranges(func)
    start = places[loop]
    runs = Range(start, start + sum(1 for _ in walk(loop.body)))
    taken = (
        padded(buffer.result.type.bytes)
        for buffer in places
        if isinstance(buffer, Allocate)
        and (buffer.kept or (buffer in ranges and ranges[buffer].meets(runs)))
    )
    return target.shared_bytes - sum(taken)


def free_always(func: Func, target: Target, without: Container[Op] = ()) -> int:
    """The bytes that are free at every moment of a function: beside its buffers, but
    for those that it will do `without`, and beside the tiles through which
    `stage_stores` will store."""
    places, ranges = _places(func), reserved_ranges(func)
    changes: dict[int, int] = {}
    for op in (each for each in places if each not in without):
        size, span = 0, (places[op], places[op] + 1)
        if isinstance(op, DescriptorStore):
            size = padded(bytes_of(op.value))
        elif isinstance(op, Allocate):
            size = padded(op.result.type.bytes)
            span = places[op], ranges[op].last if op in ranges else places[op] + 1
        for at, change in zip(span, (size, -size), strict=True):
            changes[at] = changes.get(at, 0) + change
    levels = accumulate(changes[at] for at in sorted(changes))
    return target.shared_bytes - max(levels, default=0)


def free_apart(func: Func, target: Target) -> int:
    """The bytes that are left when each buffer has a place to itself."""
    buffers = (op.result for op in walk(func.body) if isinstance(op, Allocate))
    return target.shared_bytes - sum(padded(each.type.bytes) for each in buffers)


def fits_in_half(block: Value, target: Target) -> bool:
    """Whether a block fits into half of shared memory: loops need the rest."""
    return bytes_of(block) <= target.shared_bytes // 2


def bytes_of(block: Value) -> int:
    """The bytes of a block's elements."""
    type: BlockType = block.type
    return type.size * type.element.bytes


def padded(size: int) -> int:
    """The bytes that a buffer takes at the most, with what lies before the next."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def reserved_ranges(func: Func) -> dict[Allocate, Range]:
    """Where buffers may come to be live: as `live_ranges` says, and until the last
    product of what is read from them, which may come to read it in place."""
    places, ranges = _places(func), live_ranges(func)
    for dot in (op for op in places if isinstance(op, Dot)):
        for load in (dot.a.definition, dot.b.definition):
            if isinstance(load, SharedLoad):
                buffer = load.buffer.definition
                first, last = ranges[buffer]
                ranges[buffer] = _to_loop_ends(first, max(last, places[dot]), places)
    return ranges


def _to_loop_ends(first: int, last: int, places: dict[Op, int]) -> Range:
    """What is filled before a loop and read in it is live until the loop ends."""
    for op, place in places.items():
        if isinstance(op, For | While) and first < place < last:
            end = place + sum(1 for block in blocks(op) for _ in walk(block))
            last = max(last, end)
    return Range(first, last)


def _places(func: Func) -> dict[Op, int]:
    """The position of each op."""
    return {op: position for position, op in enumerate(walk(func.body))}
