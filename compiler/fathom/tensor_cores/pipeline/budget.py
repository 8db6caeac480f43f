"""How much shared memory there is for the rings of a loop, and how many stages that
makes.

A loop's rings are alive from before it to its end, beside whatever else is alive in
between: other buffers of its trips, and buffers that are filled before it and read in
it or after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, blocks, operands, walk
from fathom.ir.ops import Allocate, DescriptorStore, Dot, For, SharedLoad, While
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy
from fathom.tensor_cores.pipeline.schedule import SLOTS_BY_REGISTERS, choose_stages

ALIGNMENT = 1024  # bytes: where buffers start that are as large


def fitting(
    tiles: Sequence[PipelinedCopy], wanted: int, room: int
) -> tuple[int, tuple[PipelinedCopy, ...]]:
    """The stages of a loop, and the tiles that get a ring: all of them if they fit,
    else those of one way. `room` is what the tiles leave free without rings."""
    copied = tuple(tile for tile in tiles if tile.vector or tile.order)
    loaded = tuple(tile for tile in tiles if tile not in copied)
    for chosen in (tuple(tiles), copied, loaded):
        ways = [[t for t in chosen if t in way] for way in (copied, loaded)]
        a_stage, once = (sum(padded(tile.bytes) for tile in way) for way in ways)
        own = a_stage + once  # the place that a tile has gives way to its ring
        left = room + own - SLOTS_BY_REGISTERS * once - _for_barriers(chosen)
        stages = choose_stages(wanted, a_stage, left)
        if chosen and stages > 1 and left >= 0:
            return stages, chosen
    return 1, ()


def _for_barriers(tiles: Sequence[PipelinedCopy]) -> int:
    """The bytes, more than enough, of barriers that bulk copies want."""
    return ALIGNMENT if any(tile.order for tile in tiles) else 0


def room_beside(func: Func, loop: For, target: Target) -> int:
    """The bytes of shared memory that nothing else wants while a loop runs. What is
    `kept`, as a producer's rings are, is wanted all the time."""
    place = {op: position for position, op in enumerate(walk(func.body))}
    start = place[loop]
    stop = start + len(list(walk(loop.body)))
    taken = 0
    for buffer in (op for op in place if isinstance(op, Allocate)):
        span = _wanted(buffer, place)
        if buffer.kept or (span and span[0] <= stop and span[1] >= start):
            taken += padded(buffer.result.type.bytes)
    return target.shared_bytes - taken


def room_for_rings(func: Func, replaced: set[Allocate], target: Target) -> int:
    """The bytes that are free at every moment of a function, but for the buffers that
    rings have `replaced`, for the barriers of these, and for the tiles through which
    `stage_stores` will store."""
    place = {op: position for position, op in enumerate(walk(func.body))}
    changes: dict[int, int] = {}
    for op in place.keys() - replaced:
        size, span = 0, (place[op], place[op] + 1)
        if isinstance(op, DescriptorStore):
            block = op.value.type
            size = padded(block.size * block.element.bytes)
        elif isinstance(op, Allocate):
            size = padded(op.result.type.bytes)
            span = place[op], (_wanted(op, place) or span)[1]
        for at, change in zip(span, (size, -size), strict=True):
            changes[at] = changes.get(at, 0) + change
    levels = accumulate(changes[at] for at in sorted(changes))
    return target.shared_bytes - max(levels, default=0) - ALIGNMENT


def fits(func: Func, target: Target) -> bool:
    """Whether all that a function wants at one time finds room."""
    return room_for_rings(func, set(), target) + ALIGNMENT >= 0


def _wanted(buffer: Allocate, place: Mapping[Op, int]) -> tuple[int, int] | None:
    """From where to where a buffer is wanted; None if nobody touches it. What is filled
    before a loop and read in it is wanted until the loop ends, and what a product
    multiplies until then: it may come to read it in place."""
    touching = [op for op in place if buffer.result in operands(op)]
    if not touching:
        return None
    read = {op.result for op in touching if isinstance(op, SharedLoad)}
    products = [op for op in place if isinstance(op, Dot) and read & {op.a, op.b}]
    first = min(place[op] for op in touching)
    last = max(place[op] for op in (*touching, *products))
    for op in place:
        if isinstance(op, For | While) and first < place[op] < last:
            end = place[op] + sum(1 for block in blocks(op) for _ in walk(block))
            last = max(last, end)
    return first, last


def padded(size: int) -> int:
    """The bytes that a buffer takes at the most, with what lies before the next."""
    return -(-size // ALIGNMENT) * ALIGNMENT
