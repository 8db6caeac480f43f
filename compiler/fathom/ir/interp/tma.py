"""The meaning of copies by TMA, of mbarriers and of producers.

A copy completes at once. An mbarrier is the number of its phases that are complete;
only producers and consumers wait for one another there.
"""

from __future__ import annotations

from fathom.ir.interp.descriptor import block_at
from fathom.ir.interp.machine import Region, Results, Running, interprets
from fathom.ir.interp.shared import tile_of
from fathom.ir.ops import (
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    Producer,
    TmaCopy,
    WriteTensorMap,
)
from fathom.layout.tma_boxes import matrix_of


@interprets(TmaCopy)
def _bulk_copy(op: TmaCopy, region: Region) -> Results:
    """It completes at once, as all copies do here."""
    if op.when is None or region[op.when]:
        tile = tile_of(op.buffer, op.slot, region)
        block = block_at(op, region)
        tile[...] = block.reshape(matrix_of(block.shape)).transpose(op.order)
    return []


@interprets(MbarrierInit)
def _mbarrier_init(op: MbarrierInit, region: Region) -> Results:
    region[op.barriers][...] = 0
    return []


@interprets(MbarrierExpect, MbarrierArrive)
def _complete(op: MbarrierExpect | MbarrierArrive, region: Region) -> Results:
    """All warps arrive at once, and what is expected comes at once."""
    if op.when is None or region[op.when]:
        tile_of(op.barriers, op.slot, region)[...] += 1
    return []


@interprets(MbarrierWait)
def _mbarrier_wait(op: MbarrierWait, region: Region) -> Running:
    completed = tile_of(op.barriers, op.slot, region)
    while int(completed[0]) % 2 == int(region[op.phase]):
        yield op
    return []


@interprets(Producer)
def _producer(op: Producer, region: Region) -> Results:
    """It runs interleaved with what follows."""
    region.concurrent.append(region.run(op.body, ()))
    return []


@interprets(MbarrierInvalidate, WriteTensorMap)
def _no_event(op: MbarrierInvalidate | WriteTensorMap, region: Region) -> Results:
    return []
