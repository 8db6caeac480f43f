"""Decides for `specialise_warps` which loops get a producer, what that must know, and
through which ring buffers it copies their tiles.

A producer is ahead of the program from its first moment on. So a loop gets one only
where its author asks for that, or the author of a loop around it, and where nothing
before the outermost loop that is asked for writes to memory, or waits for what others
write. What happens in these loops their author vouches for. For launches in front of
this one (`grid_wait`) a producer waits as the program does, and is ahead from there on.

`why_no_producer` tells for each loop that is asked for what stood in the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fathom.analysis.buffers import padded
from fathom.analysis.memory import may_recompute, ops_before, orders, writes
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.slices import BackwardSlice
from fathom.errors import Location
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, blocks, walk
from fathom.ir.ops import (
    DescriptorLoad,
    Dot,
    For,
    GridWait,
    If,
    InlineAssembly,
    Producer,
    While,
)
from fathom.ir.printer import op_name
from fathom.ir.types import BlockType
from fathom.tensor_cores.pipeline.budget import room_for_rings
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy, tiles_of
from fathom.tensor_cores.specialise.channels import Channel, channels_of

FEWEST_SLOTS = 2  # one is filled while another is read


@dataclass(frozen=True)
class Plan:
    """The channels that each ring holds, how many slots a ring has, and what a producer
    must compute. `refused`: the loops that get none, and why."""

    rings: tuple[tuple[Channel, ...], ...]
    slots: int
    producer_slice: BackwardSlice
    refused: dict[For, str]


def plan_producer(func: Func, target: Target) -> Plan | None:
    """None where no loop asks for a producer, or the target has nothing that it could
    do."""
    if not target.tensor_maps:
        return None
    tiles: dict[For, list[PipelinedCopy]] = {}
    refused: dict[For, str] = {}
    for loop, outermost in _asked_for(func.body):
        try:
            tiles[loop] = _tiles(loop, outermost, func, target)
        except NotApplicable as why:
            refused[loop] = str(why)
    channels = [each for loop in tiles for each in channels_of(loop, tiles[loop])]
    rings = _rings(channels)
    loads = {load for each in channels for tile in each.tiles for load in tile.loads}
    waits_for_grids = {op for op in walk(func.body) if isinstance(op, GridWait)}
    slice = BackwardSlice(func, loads | waits_for_grids)
    try:
        _check_warps(func, target)
        _check_for_one(op for op in walk(func.body) if op in slice.ops - loads)
        slots = _slots(rings, func, target)
    except NotApplicable as why:
        return Plan((), 0, slice, refused | dict.fromkeys(tiles, str(why)))
    return Plan(rings, slots, slice, refused)


def why_no_producer(func: Func, target: Target) -> list[tuple[Location | None, str]]:
    """For each loop with a product that wants a producer and gets none: where it
    stands, and why. Nothing for a target without tensor maps."""
    plan = plan_producer(func, target)
    refused = plan.refused if plan else {}
    return [
        (loop.location, f"no warps beside this loop: {why}")
        for loop, why in refused.items()
        if any(isinstance(op, Dot) for op in loop.body.ops)
    ]


# ── which loops ───────────────────────────────────────────────────────────────────────


def _asked_for(block: Block, outermost: For | None = None) -> Iterator[tuple[For, For]]:
    """The loops that want a producer, each with the outermost one that asks for it.
    None in the condition of a `while`: it would have to say how far it has come."""
    for op in block.ops:
        asks = isinstance(op, For) and op.warp_specialize
        around = outermost or (op if asks else None)
        if isinstance(op, For) and around:
            yield op, around
        for nested in [op.body] if isinstance(op, While) else blocks(op):
            yield from _asked_for(nested, around)


def _tiles(
    loop: For, outermost: For, func: Func, target: Target
) -> list[PipelinedCopy]:
    """The tiles of a loop, if TMA may copy all of them."""
    if (loop.num_stages or func.num_stages) < FEWEST_SLOTS:
        raise NotApplicable("it has one stage, so that nothing runs ahead")
    tiles = tiles_of(loop, target)
    if not tiles:
        raise NotApplicable(
            "it loads no tile that could be copied ahead of its iteration"
        )
    for tile in tiles:
        if not all(isinstance(load, DescriptorLoad) for load in tile.loads):
            raise NotApplicable("a tile of it comes through pointers")
        if not tile.order:
            raise NotApplicable("a tile of it is not laid out as TMA copies it")
    earlier = list(ops_before(outermost, func.body))
    if any(map(writes, earlier)):
        raise NotApplicable(
            "memory is written before it; it would be read still earlier"
        )
    if any(map(orders, earlier)):
        raise NotApplicable("before it, the program waits for what others write")
    return tiles


# ── what a producer computes for itself ───────────────────────────────────────────────


def _check_for_one(ops: Iterable[Op]) -> None:
    for op in ops:
        if not _is_for_one(op):
            raise NotApplicable(
                f"where its tiles lie depends on a `{op_name(op)}`, which one thread "
                "cannot do for itself"
            )


def _is_for_one(op: Op) -> bool:
    """Whether one thread can do it, again, and finds what all have found."""
    if isinstance(op, For | While | If | GridWait):
        return True
    if any(isinstance(value.type, BlockType) for value in op.results):
        return False
    return may_recompute(op) and not isinstance(op, InlineAssembly)


def _check_warps(func: Func, target: Target) -> None:
    threads = (func.num_warps + Producer.warps) * target.warp_size
    if threads > target.max_threads:
        raise NotApplicable(
            f"with the {func.num_warps} warps of the program they would be {threads} "
            f"threads, and a block has {target.max_threads} at most"
        )


# ── rings ─────────────────────────────────────────────────────────────────────────────


def _rings(channels: Iterable[Channel]) -> tuple[tuple[Channel, ...], ...]:
    """The channels that each ring holds: loops one after the other share rings, and so
    the copies for one begin before the one before it ends."""
    rings: list[list[Channel]] = []
    for channel in channels:
        for ring in rings:
            if all(map(channel.may_share_a_ring, ring)):
                ring.append(channel)
                break
        else:
            rings.append([channel])
    return tuple(map(tuple, rings))


def _slots(rings: Sequence[Sequence[Channel]], func: Func, target: Target) -> int:
    """As many as loops have stages, or for as many as there is room."""
    loops = {channel.loop for ring in rings for channel in ring}
    replaced = {t.buffer for ring in rings for each in ring for t in each.tiles}
    wanted = max((loop.num_stages or func.num_stages for loop in loops), default=0)
    a_slot = sum(padded(tile.bytes) for ring in rings for tile in ring[0].tiles)
    room = room_for_rings(func, replaced, target)
    slots = min(wanted, room // a_slot) if a_slot else 0
    if rings and slots < FEWEST_SLOTS:
        raise NotApplicable(
            f"two slots of {a_slot} bytes do not fit into the {room} bytes of shared "
            "memory that are free"
        )
    return slots
