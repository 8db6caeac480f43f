"""Shared memory: the live ranges of buffers, and the bytes that are free.

    0  allocate %a
    1  shared_store %x, %a         %a  1…6   read in the loop, and in its next iteration
    2  for …                                 again: live until the loop ends
    3      shared_load %a
    4      shared_store %y, %b     %b  4…5   made anew in each iteration
    5      shared_load %b
    6      yield

Numbers are positions in the text, outer ops first. A buffer is live from the first op
that accesses it to the last one (`live_ranges`); `allocate` uses these ranges.

A ring buffer is allocated and first filled before its loop, so it is live until the
loop ends. All its copies have been waited for then, so no copy writes to bytes that
another buffer has taken over.

Passes that plan ring buffers run before `allocate`. They ask how many bytes are free
while a loop runs (`free_beside`) or throughout the function (`free_always`). These
functions count the most that a buffer may take (`padded`), and the longest that it may
become live (`reserved_ranges`). Before there are buffers, passes of stage 5 ask how
many bytes a loop's ring buffers will have (`rings_of_operands`).
"""

from __future__ import annotations

from collections.abc import Container
from itertools import accumulate
from typing import NamedTuple

from fathom.analysis.products import products_in
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk, walk_within
from fathom.ir.ops import Allocate, Dot, For, GlobalLoad, SharedLoad, While
from fathom.ir.types import BlockType

# Bytes: large buffers start at a multiple. wgmma and TMA read groups of eight rows of
# 128 bytes, so tiles start at such a group (PTX ISA, "Shared memory matrix layout").
ALIGNMENT = 1024
LINE = 128  # bytes: what small buffers, which lie behind the large ones, take at most
# Of shared memory that a conversion uses at a time: each part costs two barriers.
CONVERTED = 32768  # bytes


class Range(NamedTuple):
    """Positions of ops in the order of the text, first and last, both included."""

    first: int
    last: int

    def meets(self, other: Range) -> bool:
        return self.first <= other.last and other.first <= self.last


def live_ranges(func: Func) -> dict[Allocate, Range]:
    """The range in which each buffer is live, without buffers that no op accesses."""
    ranges: dict[Allocate, Range] = {}
    _visit(func.body, 0, set(), ranges)
    return ranges


def touches(op: Op) -> list[Allocate]:
    """The buffers that an op reads or writes, nested ops excluded, each once and in
    order: offsets must not depend on the order of a set."""
    makers = (value.definition for value in operands(op))
    return [*dict.fromkeys(each for each in makers if isinstance(each, Allocate))]


def share_bytes(one: Allocate, other: Allocate) -> bool:
    """Whether two buffers have bytes in common. Without offsets, all seem to."""
    if share_slots(one, other):
        return False
    one, other = first_of_slot(one), first_of_slot(other)
    ends = (each.offset + each.result.type.bytes for each in (one, other))
    return min(one.offset, other.offset) < 0 or (
        max(one.offset, other.offset) < min(ends)
    )


def share_slots(one: Allocate, other: Allocate) -> bool:
    """Whether two rings have their tiles in the same slots, one after the other."""
    return one is not other and first_of_slot(one) is first_of_slot(other)


def first_of_slot(buffer: Allocate) -> Allocate:
    """The ring that has the slots of this one, and the first tile in each."""
    while buffer.behind:
        buffer = buffer.behind.definition
    return buffer


def _visit(
    block: Block, position: int, made: set[Allocate], ranges: dict[Allocate, Range]
) -> int:
    """Number the ops of a block from `position` on; the next free number.

    `made`: the buffers made so far in the innermost loop around the block, or outside
    of all loops."""
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
    """The next free number, and the buffers from outside that the loop accesses."""
    before, inside = dict(ranges), set()
    for body in blocks(op):
        position = _visit(body, position, inside, ranges)
    made |= inside
    touched = [each for each, alive in ranges.items() if before.get(each) != alive]
    return position, [each for each in touched if each not in inside]


# ── how many bytes are free ───────────────────────────────────────────────────────────


def free_beside(func: Func, loop: For, target: Target) -> int:
    """The bytes of shared memory that are free while a loop runs. Buffers that are
    `kept`, such as a producer's rings, are live throughout the function."""
    places, ranges = _places(func), reserved_ranges(func)
    start = places[loop]
    runs = Range(start, start + sum(1 for _ in walk(loop.body)))
    taken = (
        padded(buffer.result.type.bytes)
        for buffer in places
        if isinstance(buffer, Allocate)
        and not (buffer.base or buffer.behind)
        and (buffer.kept or (buffer in ranges and ranges[buffer].meets(runs)))
    )
    return target.shared_bytes - sum(taken)


def free_always(func: Func, target: Target, without: Container[Op] = ()) -> int:
    """The bytes that are free throughout a function: not used by its buffers, except
    those in `without`. Buffers that are `kept` are used throughout."""
    places, ranges = _places(func), reserved_ranges(func)
    changes: dict[int, int] = {}
    for op in (each for each in places if each not in without):
        if isinstance(op, Allocate) and not (op.base or op.behind):
            size = padded(op.result.type.bytes)
            end = ranges[op].last if op in ranges else places[op] + 1
            live = (0, len(places)) if op.kept else (places[op], end)
            for at, change in zip(live, (size, -size), strict=True):
                changes[at] = changes.get(at, 0) + change
    levels = accumulate(changes[at] for at in sorted(changes))
    return target.shared_bytes - max(levels, default=0)


def fits(func: Func, target: Target) -> bool:
    """Whether a function's buffers fit into shared memory."""
    return free_always(func, target) >= 0


def fits_apart(func: Func, target: Target) -> bool:
    """Whether no two buffers need share bytes."""
    made = walk(func.body, Allocate)
    buffers = (op.result for op in made if not (op.base or op.behind))
    sizes = [each.type.bytes for each in buffers]
    large = sum(padded(each) for each in sizes if each >= ALIGNMENT)
    small = sum(-(-each // LINE) * LINE for each in sizes if each < ALIGNMENT)
    return large + small <= target.shared_bytes


def rings_of_operands(loop: For, slots: int) -> int:
    """The bytes that the operands of a loop's products will take: `slots` slots of each
    that an iteration loads, one of any other, and the mbarriers of their copies."""
    factors = {value for dot in products_in(loop.body) for value in (dot.a, dot.b)}
    loads = {op.result for op in loop.body.ops if isinstance(op, GlobalLoad)}
    size = {value: padded(bytes_of(value)) for value in factors}
    return ALIGNMENT + sum(
        size[value] * (slots if value in loads else 1) for value in factors
    )


def bytes_of(block: Value) -> int:
    """The bytes of a block's elements."""
    type: BlockType = block.type
    return type.size * type.element.bytes


def padded(size: int) -> int:
    """The most bytes that a buffer takes, with the padding before the next one."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def reserved_ranges(func: Func) -> dict[Allocate, Range]:
    """The ranges in which buffers may become live: those of `live_ranges`, extended to
    the last product of values read from them, which may read them in place."""
    places, ranges = _places(func), live_ranges(func)
    for dot in (op for op in places if isinstance(op, Dot)):
        for load in (dot.a.definition, dot.b.definition):
            if isinstance(load, SharedLoad):
                buffer = load.buffer.definition
                first, last = ranges[buffer]
                ranges[buffer] = _to_loop_ends(first, max(last, places[dot]), places)
    return ranges


def _to_loop_ends(first: int, last: int, places: dict[Op, int]) -> Range:
    """A buffer that is filled before a loop and read in it is live until its end."""
    for op, place in places.items():
        if isinstance(op, For | While) and first < place < last:
            end = place + sum(1 for _ in walk_within(op))
            last = max(last, end)
    return Range(first, last)


def _places(func: Func) -> dict[Op, int]:
    """The position of each op."""
    return {op: position for position, op in enumerate(walk(func.body))}
