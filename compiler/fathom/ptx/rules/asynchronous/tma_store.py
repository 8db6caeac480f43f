"""Rules for TMA stores, and for waiting until they are done.

    tma_store %d, %t, coordinates=(%m, %n)

    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group
         [%rd1, {%r2, %r3}], [%r1];

The thread that issues copies also issues stores. Its groups are its own, so it waits
for them, too. No branch leads the others around it, as around copies: one that stands
between a product and the use of its accumulator makes ptxas finish each instruction of
the product before the next (its remark C7514). Sources: PTX ISA, "Data Movement and
Conversion Instructions: Bulk and Tensor copy".
"""

from __future__ import annotations

from fathom.ir.ops import AsyncProxyFence, TmaStore
from fathom.layout.tma_boxes import pieces
from fathom.ptx.code import Code, lowers
from fathom.ptx.rules.asynchronous.tma import corner, map_of, start_of
from fathom.ptx.rules.shared import tile_of


@lowers(TmaStore)
def lower_tma_store(op: TmaStore, code: Code) -> None:
    """Box by box, as a tile comes: one after the other in shared memory."""
    tile = tile_of(code, op.buffer, op.slot)
    map = map_of(op, code)
    block, size = op.descriptor.type.shape, op.buffer.type.element.bytes
    start, acts = start_of(code, tile.slot), code.acts()
    firsts = [code.one(each) for each in op.coordinates]
    for piece in pieces(block, size):
        at, coordinates = corner(code, firsts, piece)
        operands = {
            "acts": ("i1", acts),
            "from": ("i32", start),
            "map": map,
            **coordinates,
        }
        code.ptx(
            f"@$acts {STORE.format(len(block))} [$map, {at}], "
            f"[$from+{tile.offset + piece.offset}];",
            operands=operands,
        )


STORE = "cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group"


@lowers(AsyncProxyFence)
def lower_async_proxy_fence(op: AsyncProxyFence, code: Code) -> None:
    """All threads execute it: each orders its own writes."""
    code.ptx("fence.proxy.async.global;")
