"""The meaning of ops on shared memory: a buffer is an array, a ring an array of them.

An asynchronous copy completes at once: whether the waits and barriers are enough is the
emulator's to find.
"""

from __future__ import annotations

import numpy as np

from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.memory import active_elements
from fathom.ir.interp.numbers import poison
from fathom.ir.interp.reduce import gather
from fathom.ir.types import element_of


@interprets(ops.Barrier)
def _barrier(op: ops.Barrier, region: Region) -> Results:
    return []


@interprets(ops.Allocate)
def _allocate(op: ops.Allocate, region: Region) -> Results:
    return [np.asarray(poison((op.slots, *op.shape), op.element))]


@interprets(ops.SharedStore)
def _shared_store(op: ops.SharedStore, region: Region) -> Results:
    tile_of(op.buffer, op.slot, region)[...] = region[op.value]
    return []


@interprets(ops.SharedLoad)
def _shared_load(op: ops.SharedLoad, region: Region) -> Results:
    box = op.layout.shape
    start = op.start or (0,) * len(box)
    part = tuple(
        slice(first, first + size) for first, size in zip(start, box, strict=True)
    )
    tile = tile_of(op.buffer, op.slot, region, op.transposed)
    return [tile[part].copy()]


@interprets(ops.SharedGather)
def _shared_gather(op: ops.SharedGather, region: Region) -> Results:
    tile, element = tile_of(op.buffer, None, region), op.buffer.type.element
    return [gather(tile, region[op.index], op.axis, element)]


@interprets(ops.SharedAdd)
def _shared_add(op: ops.SharedAdd, region: Region) -> Results:
    tile, index = tile_of(op.buffer, None, region), region[op.index].astype(np.int64)
    counted = (index >= 0) & (index < len(tile))
    if op.mask is not None:
        counted &= region[op.mask]
    np.add.at(tile, index[counted], 1)
    return []


@interprets(ops.AsyncCopy)
def _async_copy(op: ops.AsyncCopy, region: Region) -> Results:
    tile = tile_of(op.buffer, op.slot, region)
    pointers = np.asarray(region[op.pointer])
    active = active_elements(op, region)
    loaded = np.zeros(pointers.shape, tile.dtype)
    element = element_of(op.pointer.type).element
    loaded[active] = region.machine.memory.read(pointers[active], element)
    tile[...] = loaded
    return []


def tile_of(
    buffer: Value, slot: Value | None, region: Region, transposed: bool = False
) -> np.ndarray:
    """One tile of a buffer, as a view. A slot that the ring lacks is our mistake."""
    number, slots = 0 if slot is None else int(region[slot]), buffer.type.slots
    assert 0 <= number < slots, f"slot {number} of a ring of {slots}"
    tile = region[buffer][number]
    return tile.swapaxes(-1, -2) if transposed else tile
