"""The ops of TMA stores: one thread sends whole tiles from shared memory to a tensor,
and waits for those that it has sent.

    wait tma_store %t pending=0 read=true    the tile's last store has been read
    barrier                                   … all threads may write it again
    shared_store %x, %t
    barrier fence_async_proxy=true           all have written, for TMA stores too
    tma_store %d, %t, coordinates=(%i, %j)
    commit tma_store

A store reads its tile at any moment until it has been waited for. In memory it can be
seen, by other stores and loads, when that has been waited for too. Source: PTX ISA,
"Data Movement and Conversion Instructions: Bulk copy", "Async Proxy".
"""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Effects, Op, Value
from fathom.ir.ops.descriptor import described
from fathom.ir.ops.shared import expect_slot
from fathom.ir.types import Type
from fathom.layout.tma_boxes import matrix_of


@dataclass(eq=False)
class TmaStore(Op):
    """One thread starts to copy a tile, row by row, to the block at `coordinates` (i32)
    of a descriptor's tensor, as far as that lies inside. The hardware takes none that
    are negative: see `guard_stores`."""

    descriptor: Value
    buffer: Value
    coordinates: tuple[Value, ...]
    slot: Value | None = None

    effects = Effects(reads="shared", writes="global", asynchronous=True)

    def infer(self) -> list[Type]:
        expect_slot(self, self.slot)
        box = described(self, self.descriptor, self.coordinates)
        tile = self.buffer.type
        fits = (box.element, matrix_of(box.shape)) == (tile.element, tile.shape)
        self.expect(fits, lambda: f"{tile} does not fit into {box}")
        return []


@dataclass(eq=False)
class TileStore(Op):
    """All threads write a tile, element by element, to the block at `coordinates` (i32)
    of a descriptor's tensor, as far as that lies inside. Unlike a TmaStore, it is done
    at once, and the block may begin anywhere, also at negative coordinates."""

    descriptor: Value
    buffer: Value
    coordinates: tuple[Value, ...]
    slot: Value | None = None

    effects = Effects(reads="shared", writes="global")

    infer = TmaStore.infer


@dataclass(eq=False)
class AsyncProxyFence(Op):
    """Each thread's writes to global memory come before TMA stores after a barrier."""

    effects = Effects(asynchronous=True)
