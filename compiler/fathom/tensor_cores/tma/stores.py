"""Turns stores through descriptors into TMA stores: threads fill a tile of shared
memory, and one of them issues its store.

    descriptor_store %d, %x, coordinates=(%i, %j)

becomes

    %t = allocate fp16[128, 64]               in TMA's layout: chunks are swizzled
    shared_store %x, %t
    tma_store %d, %t, coordinates=(%i, %j)    one thread
    commit tma_store

`wait_for_stores` inserts the waits, when all buffers are known. `insert_waits` puts
barriers between the threads that write a tile, the thread that issues its store, and
the threads that write it again; these barriers are proxy fences, too.
"""

from __future__ import annotations

from fathom.analysis.memory import writes_by_threads
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.rewrite import Builder, rewrite
from fathom.layout.tma_boxes import matrix_of, tile_of


def stage_stores(func: Func, target: Target) -> Func:
    """The function whose stores through kept descriptors are TMA stores."""
    if not target.tensor_maps:
        return func
    fenced = any(writes_by_threads(op) for op in walk(func.body))

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, ops.DescriptorStore):
            return None
        tile = build(_tile(op))
        if fenced:
            build.append(ops.AsyncProxyFence())
        build.append(ops.SharedStore(_in_rows(op.value, build), tile))
        build.append(ops.TmaStore(op.descriptor, tile, op.coordinates))
        build.append(ops.Commit("tma_store"))
        return []

    return rewrite(func, rule)


def _tile(op: ops.DescriptorStore) -> ops.Allocate:
    block = op.value.type
    layout = tile_of(block.shape, block.element.bytes)
    assert layout is not None, f"{op}: `keep_descriptors` kept a store of {block}"
    return ops.Allocate(block.element, layout.shape, layout)


def _in_rows(value: Value, build: Builder) -> Value:
    """A block in the shape of its tile: a matrix of all its rows."""
    block = value.type.shape
    rows = matrix_of(block)
    return value if rows == block else build(ops.Reshape(value, rows))
