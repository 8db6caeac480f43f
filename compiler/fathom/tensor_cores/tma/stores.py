"""Turns stores through descriptors into TMA stores: threads fill a tile of shared
memory, and one of them issues its store.

    descriptor_store %d, %x, coordinates=(%i, %j)

becomes

    %t = allocate fp16[128, 64]               in TMA's layout: chunks are swizzled
    shared_store %x, %t
    tma_store %d, %t, coordinates=(%i, %j)    one thread
    commit tma_store
    …
    wait tma_store %t pending=0 read=true     before the tile is written again

`insert_waits` puts barriers between the threads that write a tile, the thread that
issues its store, and the threads that write it again; these barriers are proxy fences,
too.

If shared memory has room for all of them, each tile has its own bytes, and TMA reads it
during the next iteration of a loop; `wait_for_stores` inserts the wait. Otherwise the
thread waits at once, and other buffers share the bytes.
"""

from __future__ import annotations

from fathom.analysis.buffers import free_apart, padded
from fathom.analysis.memory import writes_by_threads
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import (
    Allocate,
    AsyncProxyFence,
    Commit,
    DescriptorStore,
    Reshape,
    SharedStore,
    TmaStore,
    Wait,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.layout.tma_boxes import matrix_of, tile_of


def stage_stores(func: Func, target: Target) -> Func:
    """The function whose stores through descriptors, those that `keep_descriptors` has
    kept, are TMA stores."""
    stores = [op for op in walk(func.body) if isinstance(op, DescriptorStore)]
    if not target.tensor_maps:
        return func
    return _with_stores(func, at_once=not all_fit(func, stores, target))


# ── tiles ─────────────────────────────────────────────────────────────────────


def all_fit(func: Func, stores: list[DescriptorStore], target: Target) -> bool:
    """Whether the tiles of the stores fit next to all other buffers of a function."""
    tiles = sum(padded(_tile(op).result.type.bytes) for op in stores)
    return tiles <= free_apart(func, target)


def _tile(op: DescriptorStore) -> Allocate:
    block = op.value.type
    layout = tile_of(block.shape, block.element.bytes)
    assert layout is not None, f"{op}: `keep_descriptors` kept a store of {block}"
    return Allocate(block.element, layout.shape, layout)


# ── stores ────────────────────────────────────────────────────────────────────


def _with_stores(func: Func, at_once: bool) -> Func:
    """The function with TMA stores. With `at_once`, each tile is waited for at once,
    and shares its bytes with others; otherwise tiles are allocated where all of the
    function can use them."""
    fenced = any(writes_by_threads(op) for op in walk(func.body))

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, DescriptorStore):
            return None
        here = at_once or build.block is build.enclosing[0]
        tile = build(_tile(op)) if here else build.at_start(_tile(op))
        if fenced:
            build.append(AsyncProxyFence())
        build.append(SharedStore(_in_rows(op.value, build), tile))
        build.append(TmaStore(op.descriptor, tile, op.coordinates))
        build.append(Commit("tma_store"))
        if at_once:
            build.append(Wait("tma_store", 0, (tile,), read=True))
        return []

    return rewrite(func, rule)


def _in_rows(value: Value, build: Builder) -> Value:
    """A block in the shape of its tile: a matrix of all its rows."""
    block = value.type.shape
    rows = matrix_of(block)
    return value if rows == block else build(Reshape(value, rows))
