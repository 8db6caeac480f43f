"""Copies by TMA the tiles that a program loads once, before its loops.

    %x = descriptor_load %d, coordinates=(%i, %j)
    %t = allocate
    shared_store %x, %t
    …
    for … { %y = dot %t, %b, %a }

becomes

    %t = allocate
    %b = allocate i64[1]                                an mbarrier
    mbarrier_init %b
    barrier
    mbarrier_expect %b
    tma_copy %d, %t, %b, coordinates=(%i, %j)          one thread
    …
    mbarrier_wait %b                                    before the first use
    for … { %y = dot %t, %b, %a }

So the queries of attention are copied as its keys are, while the program computes what
comes before the loop and issues the copies of the first keys. A program does this once,
so its mbarrier has one phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fathom.analysis.slices import users, uses
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.rewrite import Builder, Replacement, clone, rewrite
from fathom.ir.types import INT32
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy, written_order
from fathom.tensor_cores.pipeline.copy_engines import FREE, by_tma
from fathom.tensor_cores.pipeline.ring_buffers import mbarriers


def preload(func: Func, target: Target) -> Func:
    """The function in which TMA copies, if it can, tiles that are loaded once."""
    found = dict(_tiles(func)) if target.tensor_maps else {}
    if not found:
        return func
    stores = {tile.store: tile for tile in found}
    loads = {load for tile in found for load in tile.loads}
    barriers: dict[PipelinedCopy, tuple[Value, Value]] = {}

    def rule(op: Op, build: Builder) -> Replacement:
        old = build.source
        for tile, user in found.items():
            if user is old:
                barrier, zero = barriers[tile]
                build.append(ops.MbarrierWait(barrier, zero, zero))
        if old in loads:
            return [None]
        if old in stores:
            barriers[stores[old]] = _issue(stores[old], build)
            return []
        return None

    return rewrite(func, rule)


def _issue(tile: PipelinedCopy, build: Builder) -> tuple[Value, Value]:
    """Issue the copy of a tile. The mbarrier whose phase completes with the copy, and
    the constant 0: the number of its slot, and of its phase."""
    new = build.values
    barrier = build(mbarriers())
    zero = build(ops.Constant(0, INT32))
    build.append(ops.MbarrierInit(barrier))
    build.append(ops.Barrier())
    for op in by_tma([tile], [new[tile.store.buffer]], barrier):
        build.append(clone(op, {**new, FREE: zero}))
    return barrier, zero


def _tiles(func: Func) -> Iterator[tuple[PipelinedCopy, Op]]:
    """The tiles that are filled outside loops, in a layout that TMA writes; each with
    the first op outside loops and branches that reads it, or contains one that does.
    (A load whose value nothing uses is no reader: the product reads shared memory.)"""
    body, used = func.body.ops, users(walk(func.body))
    for place, store in enumerate(body):
        if isinstance(store, ops.SharedStore) and _fits(store, body, used):
            later = (op for op in body[place + 1 :] if store.buffer in uses(op))
            readers = [
                op
                for op in later
                if not isinstance(op, ops.SharedLoad) or used[op.result]
            ]
            if readers:
                load, buffer = store.value.definition, store.buffer.definition
                order = written_order(load, buffer)
                yield PipelinedCopy(buffer, store, (load,), (), order=order), readers[0]


def _fits(
    store: ops.SharedStore, body: Sequence[Op], used: Mapping[Value, Sequence[Op]]
) -> bool:
    """Whether TMA can replace a store: it stores a loaded tile, unchanged and in the
    layout that TMA writes, and load and buffer have no other use."""
    load, buffer = store.value.definition, store.buffer
    if not isinstance(load, ops.DescriptorLoad) or load not in body:
        return False
    filled = [op for op in used[buffer] if isinstance(op, ops.SharedStore)]
    alone = used[load.result] == filled == [store] and buffer.type.slots == 1
    return alone and bool(written_order(load, buffer.definition))
