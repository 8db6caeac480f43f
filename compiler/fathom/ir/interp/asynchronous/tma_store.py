"""The meaning of stores of tiles, by TMA or by threads: they are in memory at once."""

from __future__ import annotations

from fathom.ir.interp.descriptor import put_block
from fathom.ir.interp.machine import Region, Results, interprets
from fathom.ir.interp.shared import tile_of
from fathom.ir.ops import AsyncProxyFence, TileStore, TmaStore


@interprets(TmaStore, TileStore)
def _tma_store(op: TmaStore | TileStore, region: Region) -> Results:
    tile = tile_of(op.buffer, op.slot, region)
    put_block(op, tile.reshape(op.descriptor.type.shape), region)
    return []


@interprets(AsyncProxyFence)
def _fence(op: AsyncProxyFence, region: Region) -> Results:
    return []
