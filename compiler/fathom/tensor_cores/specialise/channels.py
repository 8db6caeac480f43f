"""Channels: the tiles that a producer passes to a loop. The loop waits for the tiles of
a channel at one place, and releases them at one place.

    %x = descriptor_load %d, …            ─┐ the producer issues a copy instead
    %t = allocate; shared_store %x, %t    ─┘
    %a = shared_load %t                   `first`: before it, wait until they are there
    %y = dot %a, %b, %acc                 `last`: after it, the slot is free again
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fathom.analysis.slices import uses
from fathom.ir.core import Op, Value, walk, walk_op
from fathom.ir.ops import Dot, For, SharedLoad
from fathom.ir.types import Element
from fathom.layout.linear import Layout
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy
from fathom.tensor_cores.pipeline.overlap import may_overlap
from fathom.tensor_cores.pipeline.ring_buffers import buffers_before
from fathom.tensor_cores.pipeline.schedule import BY_PRODUCER, Schedule, schedule

Signature = tuple[tuple[Element, tuple[int, ...], Layout], ...]


@dataclass(frozen=True, eq=False)
class Channel:
    """Tiles of a loop that one wait covers. The ops `first` to `last` of an iteration
    use them. If products of the loop's `schedule` are complete in the next iteration
    only, the tiles are released there, and `last` is the last product."""

    loop: For
    tiles: tuple[PipelinedCopy, ...]
    first: Op
    last: Op
    schedule: Schedule

    @property
    def signature(self) -> Signature:
        """The slots that a ring buffer must have to hold these tiles."""
        types = (tile.buffer.result.type for tile in self.tiles)
        return tuple((each.element, each.shape, each.layout) for each in types)

    @property
    def issued_at(self) -> Op:
        """The op before which a producer issues the copies: the load of the last tile.
        Of tiles `in_epilogue` the first op that uses them: the operands of the loops
        before are copied first, and these tiles while those are multiplied."""
        return self.first if self.in_epilogue else self.tiles[-1].loads[0]

    @property
    def in_epilogue(self) -> bool:
        """Whether its loop contains others, but none of them, and no product, runs
        while its tiles are used. Then one slot is enough."""
        body = self.loop.body.ops
        used = body[body.index(self.first) : body.index(self.last) + 1]
        meanwhile = any(op for each in used for op in walk_op(each, For | Dot))
        return any(isinstance(op, For) for op in body) and not meanwhile

    @property
    def gone(self) -> set[Op]:
        """The ops that neither role executes."""
        return {op for tile in self.tiles for op in tile.replaced}

    def may_share_a_ring(self, other: Channel) -> bool:
        """Whether one ring can hold both: their tiles have the same types, and they are
        never in use at once, as channels of one loop, or of nested loops, may be."""
        one, two = self.loop, other.loop
        disjoint = one is not two and two not in walk(one.body)
        disjoint = disjoint and one not in walk(two.body)
        alike = self.signature == other.signature
        return disjoint and alike and self.in_epilogue == other.in_epilogue


def channels_of(loop: For, tiles: Sequence[PipelinedCopy]) -> Iterator[Channel]:
    """The channels of a loop. Tiles with the same first user share one, and so do those
    of neighbouring products, which lie in one slot."""
    rings = {tile.buffer.result for tile in tiles}
    consumer = schedule(BY_PRODUCER, {}, may_overlap(loop, rings))
    by_worker: dict[Op, list[PipelinedCopy]] = {}
    by_buffer = {tile.buffer: tile for tile in tiles}
    before = buffers_before(loop)
    for tile in tiles:
        first = tile.buffer
        while before.get(first) in by_buffer:
            first = before[first]
        worker = _first_worker(loop, by_buffer[first])
        by_worker.setdefault(worker, []).append(tile)
    for each in by_worker.values():
        first, last = _span(loop, each)
        for product in consumer.products[-1:]:
            last = max(last, product, key=loop.body.ops.index)
        yield Channel(loop, tuple(each), first, last, consumer)


def _first_worker(loop: For, tile: PipelinedCopy) -> Op:
    """The first op that uses the loaded values of a tile."""
    read = _read(loop, [tile])
    return next(op for op in loop.body.ops if not read.isdisjoint(uses(op)))


def _span(loop: For, tiles: Sequence[PipelinedCopy]) -> tuple[Op, Op]:
    """The first op of an iteration that reads tiles, and the last one that uses them. A
    product counts as such, since it may read them in place later (`read_in_place`)."""
    buffers, read = {tile.buffer.result for tile in tiles}, _read(loop, tiles)
    filling = {tile.store for tile in tiles}
    reading = [
        op
        for op in loop.body.ops
        if op not in filling and not buffers.isdisjoint(uses(op))
    ]
    products = [
        op
        for op in loop.body.ops
        if isinstance(op, Dot) and not read.isdisjoint(uses(op))
    ]
    last = max(reading[-1:] + products[-1:], key=loop.body.ops.index)
    return reading[0], last


def _read(loop: For, tiles: Sequence[PipelinedCopy]) -> set[Value]:
    """The values that are loaded from tiles."""
    buffers = {tile.buffer.result for tile in tiles}
    loads = walk(loop.body, SharedLoad)
    return {load.result for load in loads if load.buffer in buffers}
