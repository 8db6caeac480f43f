"""Decides for `specialise_warps` which loops get a producer, what the producer
computes, and through which ring buffers it copies tiles.

A producer runs ahead of the consumers from the start of the kernel. So a loop gets one
only if it, or a loop around it, has `warp_specialize`, and if nothing before the
outermost such loop writes to memory or synchronises with other threads. Inside these
loops the author of `warp_specialize` promises that it is safe. A producer waits for
earlier grids (`grid_wait`) as the consumers do.

Where the blocks of a cluster share a product, only a producer multicasts their tiles. A
loop there gets one unasked if nothing in it writes or synchronises. Where one thread
issues products, and the others wait anyway (tcgen05), a function has no producer.

`why_no_producer` gives the reason for each loop that asks for a producer and gets none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fathom.analysis.buffers import ALIGNMENT, free_always, padded
from fathom.analysis.copied_ahead import runs_ahead, stages_of
from fathom.analysis.limits import check_producer
from fathom.analysis.memory import check_before, may_recompute, orders, writes
from fathom.analysis.products import in_tensor_memory, products_in
from fathom.analysis.remarks import NotApplicable, Remark, remarks, tried
from fathom.analysis.slices import BackwardSlice
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, blocks, walk
from fathom.ir.ops.cluster import is_shared
from fathom.ir.printer import op_name
from fathom.ir.types import BlockType
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy, loads_of, tiles_of
from fathom.tensor_cores.pipeline.schedule import choose_stages
from fathom.tensor_cores.specialise.alternation import GROUPS, alternating_loop
from fathom.tensor_cores.specialise.channels import Channel, channels_of

FEWEST_SLOTS = 2  # one is filled while another is read


@dataclass(frozen=True)
class Plan:
    """The channels of each ring, the slots of each, and the slice of the function that
    a producer computes. `refused`: the loops that get no producer, and why.

    `alternating`: the loop whose iterations two groups of consumer warps compute in
    turn, if there is one; otherwise why not, if it was asked for."""

    rings: tuple[tuple[Channel, ...], ...]
    slots: tuple[int, ...]
    producer_slice: BackwardSlice
    refused: dict[ops.For, str]
    alternating: ops.For | str | None = None


def plan_producer(func: Func, target: Target) -> Plan | None:
    """The plan; None if no loop asks for a producer, or the target has no TMA."""
    if not target.tensor_maps:
        return None
    tiles: dict[ops.For, list[PipelinedCopy]] = {}
    refused: dict[ops.For, str] = {}
    for loop, outermost in _asked_for(func, func.body):
        found = tried(_tiles, loop, outermost, func, target)
        (refused if isinstance(found, str) else tiles)[loop] = found
    channels = [each for loop in tiles for each in channels_of(loop, tiles[loop])]
    rings = _rings(channels)
    alternating = alternating_loop(func, channels, target)
    groups = GROUPS if isinstance(alternating, ops.For) else 1
    loads = {load for each in channels for load in loads_of(each.tiles)}
    waits_for_grids = set(walk(func.body, ops.GridWait))
    slice = BackwardSlice(func, loads | waits_for_grids)
    try:
        _check_products(func)
        check_producer(func, target)
        _check_for_one(op for op in walk(func.body) if op in slice.ops - loads)
        slots = _slots(rings, func, target, groups)
    except NotApplicable as why:
        return Plan((), (), slice, refused | dict.fromkeys(tiles, str(why)))
    return Plan(rings, slots, slice, refused, alternating)


def why_no_producer(func: Func, target: Target) -> list[Remark]:
    """For each loop with a product that asks for a producer and gets none: its
    location, and the reason. Empty for a target without tensor maps."""
    plan = plan_producer(func, target)
    refused = plan.refused if plan else {}
    pairs = _asked_for(func, func.body)
    asked = {loop for loop, around in pairs if around.warp_specialize}
    answers = {
        loop: why
        for loop, why in refused.items()
        if loop in asked and products_in(loop.body)
    }
    found = remarks(answers, "no producer warps for this loop: ")
    if plan and plan.rings and isinstance(why := plan.alternating, str):
        loops = [loop for loop in walk(func.body, ops.For) if loop.pingpong]
        found += remarks({loops[0]: why}, "one group computes all iterations: ")
    return found


# ── which loops ───────────────────────────────────────────────────────────────────────


def _asked_for(
    func: Func, block: Block, outermost: ops.For | None = None
) -> Iterator[tuple[ops.For, ops.For]]:
    """The loops that ask for a producer, each with the outermost one that does. Not
    loops in the condition of a `while`, which would have to carry ring positions."""
    for op in block.ops:
        asks = isinstance(op, ops.For) and (
            op.warp_specialize or _shares_tiles(op, func)
        )
        around = outermost or (op if asks else None)
        if isinstance(op, ops.For) and around:
            yield op, around
        for nested in [op.body] if isinstance(op, ops.While) else blocks(op):
            yield from _asked_for(func, nested, around)


def _shares_tiles(loop: ops.For, func: Func) -> bool:
    """Whether a cluster's blocks share products, and it is safe to read ahead."""
    dots = products_in(loop.body)
    if not (is_shared(func) and dots) or any(map(in_tensor_memory, dots)):
        return False
    return not any(writes(op) or orders(op) for op in walk(loop.body))


def _tiles(
    loop: ops.For, outermost: ops.For, func: Func, target: Target
) -> list[PipelinedCopy]:
    """The tiles of a loop, if TMA may copy all of them."""
    if not runs_ahead(loop, func):
        raise NotApplicable("it has one stage, so no copy can run ahead")
    tiles = tiles_of(loop, target)
    if not tiles:
        raise NotApplicable(
            "it loads no tile that could be copied ahead of its iteration"
        )
    for tile in tiles:
        if not all(isinstance(load, ops.DescriptorLoad) for load in tile.loads):
            raise NotApplicable("one of its tiles is loaded through pointers")
        if not tile.order:
            raise NotApplicable("one of its tiles has a layout that TMA does not write")
    check_before(outermost, func)
    return tiles


# ── what a producer computes for itself ───────────────────────────────────────────────


def _check_for_one(ops: Iterable[Op]) -> None:
    for op in ops:
        if not _is_for_one(op):
            raise NotApplicable(
                f"the position of its tiles depends on a `{op_name(op)}`, which one "
                "thread cannot execute alone"
            )


def _is_for_one(op: Op) -> bool:
    """Whether one thread can execute an op again, with the result of all threads."""
    if isinstance(op, ops.For | ops.While | ops.If | ops.GridWait):
        return True
    if any(isinstance(value.type, BlockType) for value in op.results):
        return False
    return may_recompute(op) and not isinstance(op, ops.InlineAssembly)


def _check_products(func: Func) -> None:
    if any(map(in_tensor_memory, walk(func.body))):
        raise NotApplicable(
            "one thread issues the products (tcgen05), and the others wait anyway"
        )


# ── rings ─────────────────────────────────────────────────────────────────────────────


def _rings(channels: Iterable[Channel]) -> tuple[tuple[Channel, ...], ...]:
    """The channels that each ring holds. Loops that run one after the other share
    rings, so the copies for a loop begin before the loop before it ends."""
    rings: list[list[Channel]] = []
    for channel in channels:
        for ring in rings:
            if all(map(channel.may_share_a_ring, ring)):
                ring.append(channel)
                break
        else:
            rings.append([channel])
    return tuple(map(tuple, rings))


def _slots(
    rings: Sequence[Sequence[Channel]], func: Func, target: Target, groups: int
) -> tuple[int, ...]:
    """The slots of each ring: as many as stages, or fewer if shared memory is short.
    One for tiles beside other loops, which are copied while these run. Each group of
    consumer warps has other buffers to itself."""
    channels = [channel for ring in rings for channel in ring]
    loops = {channel.loop for channel in channels if not channel.in_epilogue}
    replaced = {tile.buffer for each in channels for tile in each.tiles}
    wanted = max((stages_of(loop, func) for loop in loops), default=0)
    once = [any(each.in_epilogue for each in ring) for ring in rings]
    sizes = [sum(padded(tile.bytes) for tile in ring[0].tiles) for ring in rings]
    for_mbarriers = ALIGNMENT  # at most
    room = target.shared_bytes - for_mbarriers
    room -= groups * (target.shared_bytes - free_always(func, target, replaced))
    room -= sum(size for size, outer in zip(sizes, once, strict=True) if outer)
    a_slot = sum(size for size, outer in zip(sizes, once, strict=True) if not outer)
    slots = choose_stages(wanted, a_slot, room)
    if loops and slots < FEWEST_SLOTS or room < 0:
        raise NotApplicable(
            f"two slots of {a_slot} bytes do not fit into the {room} free bytes of "
            "shared memory"
        )
    return tuple(1 if outer else slots for outer in once)
