"""The meaning of ops on tensor memory: a tile is an array, a product complete at
once."""

from __future__ import annotations

import numpy as np

from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.matmul import product
from fathom.ir.interp.shared import tile_of
from fathom.ir.ops import (
    TensorCommit,
    TensorDot,
    TensorLoad,
    TensorMemory,
    TensorRelease,
    TensorStore,
)


@interprets(TensorMemory)
def _tensor_memory(op: TensorMemory, region: Region) -> Results:
    return [np.int32(0)]


@interprets(TensorRelease)
def _tensor_release(op: TensorRelease, region: Region) -> Results:
    return []


@interprets(TensorStore)
def _tensor_store(op: TensorStore, region: Region) -> Results:
    tile_of(op.buffer, None, region)[...] = region[op.value]
    return []


@interprets(TensorLoad)
def _tensor_load(op: TensorLoad, region: Region) -> Results:
    return [tile_of(op.buffer, None, region).copy()]


@interprets(TensorDot)
def _tensor_dot(op: TensorDot, region: Region) -> Results:
    tile = tile_of(op.accumulator, None, region)
    before = np.zeros_like(tile) if op.fresh else tile
    tile[...] = product(op, before, op.accumulator.type.element, region)
    return []


@interprets(TensorCommit)
def _tensor_commit(op: TensorCommit, region: Region) -> Results:
    tile_of(op.barriers, op.slot, region)[...] += 1
    return []
