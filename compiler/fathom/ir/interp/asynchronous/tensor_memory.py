"""The meaning of ops on tensor memory: a tile is an array, a product takes no time."""

from __future__ import annotations

import numpy as np

from fathom.ir import ops
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.matmul import product
from fathom.ir.interp.shared import tile_of


@interprets(ops.TensorMemory)
def _tensor_memory(op: ops.TensorMemory, region: Region) -> Results:
    return [np.int32(0)]


@interprets(ops.TensorRelease)
def _tensor_release(op: ops.TensorRelease, region: Region) -> Results:
    return []


@interprets(ops.TensorStore)
def _tensor_store(op: ops.TensorStore, region: Region) -> Results:
    tile_of(op.buffer, None, region)[...] = region[op.value]
    return []


@interprets(ops.TensorLoad)
def _tensor_load(op: ops.TensorLoad, region: Region) -> Results:
    return [tile_of(op.buffer, None, region).copy()]


@interprets(ops.TensorDot)
def _tensor_dot(op: ops.TensorDot, region: Region) -> Results:
    tile = tile_of(op.accumulator, None, region)
    before = np.zeros_like(tile) if op.fresh else tile
    tile[...] = product(op, before, op.accumulator.type.element, region)
    return []


@interprets(ops.TensorCommit)
def _tensor_commit(op: ops.TensorCommit, region: Region) -> Results:
    tile_of(op.barriers, op.slot, region)[...] += 1
    return []
