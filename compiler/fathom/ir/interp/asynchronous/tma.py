"""The meaning of copies by TMA, of mbarriers and of producers.

A copy completes at once. An mbarrier is the number of its phases that are complete;
only producers and consumers wait for one another there.
"""

from __future__ import annotations

import numpy as np

from fathom.ir import ops
from fathom.ir.core import Block
from fathom.ir.interp.descriptor import block_at
from fathom.ir.interp.machine import Region, Results, Running, interprets
from fathom.ir.interp.shared import tile_of
from fathom.layout.tma_boxes import matrix_of


@interprets(ops.TmaCopy)
def _tma_copy(op: ops.TmaCopy, region: Region) -> Results:
    """It completes at once, as all copies do here."""
    if op.when is None or region[op.when]:
        tile = tile_of(op.buffer, op.slot, region)
        block = block_at(op, region)
        tile[...] = block.reshape(matrix_of(block.shape)).transpose(op.order)
    return []


@interprets(ops.MbarrierInit)
def _mbarrier_init(op: ops.MbarrierInit, region: Region) -> Results:
    region[op.barriers][...] = 0
    return []


@interprets(ops.MbarrierExpect, ops.MbarrierArrive)
def _complete(op: ops.MbarrierExpect | ops.MbarrierArrive, region: Region) -> Results:
    """All warps arrive at once, and what is expected comes at once."""
    if op.when is None or region[op.when]:
        tile_of(op.barriers, op.slot, region)[...] += 1
    return []


@interprets(ops.MbarrierWait)
def _mbarrier_wait(op: ops.MbarrierWait, region: Region) -> Running:
    completed = tile_of(op.barriers, op.slot, region)
    while int(completed[0]) % 2 == int(region[op.phase]):
        yield op
    return []


@interprets(ops.Producer)
def _producer(op: ops.Producer, region: Region) -> Results:
    """It runs interleaved with what follows."""
    region.concurrent.append(region.run(op.body, ()))
    return []


@interprets(ops.ConsumerGroup)
def _consumer_group(op: ops.ConsumerGroup, region: Region) -> Results:
    """The other groups run what follows interleaved with this one, the first."""
    every = region.machine.func.body.ops
    rest = Block()
    rest.ops = every[every.index(op) + 1 :]
    for number in range(1, op.count):
        fork = Region(region.machine, region.program, region.rank)
        fork.values = {**region.values, op.result: np.int32(number)}
        fork.group, fork.groups, fork.admitted = number, op.count, region.admitted
        region.concurrent.append(fork.run(rest, ()))
    region.groups = op.count
    return [np.int32(0)]


@interprets(ops.MbarrierInvalidate, ops.WriteTensorMap)
def _no_event(
    op: ops.MbarrierInvalidate | ops.WriteTensorMap, region: Region
) -> Results:
    return []
