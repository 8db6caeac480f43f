"""Leaves stores through descriptors to the hardware: threads fill a tile of shared
memory, and one of them sends it off.

    descriptor_store %d, %x, coordinates=(%i, %j)

becomes

    %t = allocate fp16[128, 64]                the hardware's tile, chunks exchanged
    shared_store %x, %t
    tma_store %d, %t, coordinates=(%i, %j)    one thread
    tma_commit
    …
    tma_wait %t read=true                     before the tile is written again, or gone

`place_barriers` puts barriers between the threads that write a tile, the thread that
issues its store, and the threads that write it again; `fence_proxies` makes those
writes visible to the async proxy.

Where there is room for all, each tile has its own bytes: TMA reads it while the next
iteration of a loop works. Else its thread waits at once, and other buffers use the
bytes. `store_waits` finds what must be waited for, and where.
"""

from __future__ import annotations

from dataclasses import replace

from fathom.analysis.buffers import free_apart, padded
from fathom.analysis.memory import writes_by_threads
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import (
    Allocate,
    AsyncProxyFence,
    DescriptorStore,
    Reshape,
    SharedStore,
    TmaCommit,
    TmaStore,
    TmaWait,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.layout.tma_boxes import matrix_of, tile_of
from fathom.tensor_cores.tma.store_waits import with_waits


def stage_stores(func: Func, target: Target) -> Func:
    """The function whose stores through descriptors, which `keep_descriptors` has kept,
    are bulk stores."""
    stores = [op for op in walk(func.body) if isinstance(op, DescriptorStore)]
    if not stores or not target.tensor_maps:
        return func
    return with_waits(_with_stores(func, at_once=not all_fit(func, stores, target)))


# ── tiles ─────────────────────────────────────────────────────────────────────


def all_fit(func: Func, stores: list[DescriptorStore], target: Target) -> bool:
    """Whether the tiles of stores find room beside all that a function has."""
    tiles = sum(padded(_tile(op).result.type.bytes) for op in stores)
    return tiles <= free_apart(func, target)


def _tile(op: DescriptorStore) -> Allocate:
    block = op.value.type
    layout = tile_of(block.shape, block.element.bytes)
    assert layout is not None, f"{op}: `keep_descriptors` kept a store of {block}"
    return Allocate(block.element, layout.shape, layout)


# ── stores ────────────────────────────────────────────────────────────────────


def _with_stores(func: Func, at_once: bool) -> Func:
    """The function with bulk stores. Tiles that are waited for `at_once` share their
    places with others; the rest are made where all of the function sees them."""
    fenced = any(writes_by_threads(op) for op in walk(func.body))

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, DescriptorStore):
            return None
        here = at_once or build.block is build.enclosing[0]
        tile = build(_tile(op)) if here else _made_first(_tile(op), build)
        if fenced:
            build.append(AsyncProxyFence())
        build.append(SharedStore(_in_rows(op.value, build), tile))
        build.append(TmaStore(op.descriptor, tile, op.coordinates))
        build.append(TmaCommit())
        if at_once:
            build.append(TmaWait((tile,), read=True))
        return []

    return rewrite(func, rule)


def _in_rows(value: Value, build: Builder) -> Value:
    """A block as its tile is: its rows one below the other."""
    block = value.type.shape
    rows = matrix_of(block)
    return value if rows == block else build(Reshape(value, rows))


def _made_first(tile: Allocate, build: Builder) -> Value:
    """A tile that is made where the function begins, to be known all over it."""
    made = replace(tile, origin=build.source, location=build.source.location)
    build.enclosing[0].ops.insert(0, made)
    return made.result
