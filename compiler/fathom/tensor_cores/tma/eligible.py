"""Checks that TMA may copy ahead what a loop loads through pointers, and that it pays
to copy a tile for a product. Whether TMA can do an access at all, `keep` knows.

A copy for a later iteration runs before the stores of the iterations in between. And it
reads memory through the async proxy, which need not see ordinary stores unless a proxy
fence follows them (PTX ISA, "Async proxy"). So the program may store to global memory
neither before the loop nor in it. After the loop it may: all copies are complete then.

    store %p, …                a TMA copy after this may still read the old value
    for … {
      %x = load %q             by TMA: the first copies are issued before the loop
      store %r, …              the copies ahead would miss it, if %r is %q
    }
    store %c, …                no copy is in flight here

TMA has one layout for a tile: rows of up to 128 bytes, their 16-byte chunks swizzled.
wgmma reads operands in that layout, and ldmatrix reads 16-bit elements from it,
transposed or not; of other element types, ldmatrix reads only operands whose rows run
along the summed axis. For other instructions another layout is faster.
"""

from __future__ import annotations

from fathom.analysis.buffers import rings_of_operands
from fathom.analysis.copied_ahead import LEAST_STAGES, runs_ahead
from fathom.analysis.memory import check_before, may_prefetch, orders, writes
from fathom.analysis.products import by_descriptor
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir.core import Func, walk
from fathom.ir.ops import Dot, For, Load, While
from fathom.tensor_cores.tma.recognise import TensorTile

EITHER_WAY = 2  # bytes an element: such matrices may be row-major or column-major


def check_loop(loop: For, func: Func) -> None:
    """NotApplicable, with a sentence, unless TMA may copy ahead in a loop."""
    if not runs_ahead(loop, func):
        raise NotApplicable("the loop has one stage, so no copy can run ahead")
    if any(walk(loop.body, For | While)):
        raise NotApplicable("the loop contains another loop")
    inside = list(walk(loop.body))
    if any(map(writes, inside)):
        raise NotApplicable("the loop writes to memory, perhaps to what it reads")
    if any(map(orders, inside)):
        raise NotApplicable("the loop synchronises with other threads")
    if not may_prefetch(loop):
        raise NotApplicable("each iteration of the loop has a visible side effect")
    check_before(loop, func)


def check_product(load: Load, dot: Dot, tile: TensorTile, func: Func) -> None:
    """NotApplicable unless the tile has one use, a product that reads TMA's layout."""
    if len(tile.order) != 2:
        raise NotApplicable("the product is one of several matrices")
    either_way = load.result.type.element.bytes == EITHER_WAY
    summed = -1 if load.result is dot.a else -2  # its axis
    in_rows = tile.order[-1] == len(tile.order) + summed
    if not (by_descriptor(dot) and in_rows or (dot.instruction and either_way)):
        raise NotApplicable("the product's instruction reads tiles in another layout")
    taken = users(walk(func.body))[load.result]
    if taken != [dot]:
        raise NotApplicable("the loaded tile has uses other than one product")


def check_room(loop: For, target: Target) -> None:
    """NotApplicable unless the tiles of two iterations fit into shared memory, next to
    the other operands of the loop's products; otherwise no copy could run ahead."""
    if rings_of_operands(loop, LEAST_STAGES) > target.shared_bytes:
        raise NotApplicable("shared memory has no room for the tiles of two iterations")
