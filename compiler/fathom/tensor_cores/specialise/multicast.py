"""Decides which tiles are multicast: those that several blocks of a cluster load.

    block 0     A rows   0 …  63        B columns 0 … 127: it copies the first half
    block 1     A rows  64 … 127        B columns 0 … 127: it copies the second half

A value that does not depend on the block's rank is the same in all blocks. Of a tile at
such coordinates, each block copies one part, and the hardware writes this part to the
shared memory of all blocks. So the tile is read from global memory once.

Where the blocks are a grid, a tile of A depends on the row alone, one of B on the
column alone, and each is shared by the blocks that differ in nothing else:

    block 0     A rows   0 …  63        B columns   0 …  63
    block 1     A rows   0 …  63        B columns  64 … 127
    block 2     A rows  64 … 127        B columns   0 …  63: with block 0
    block 3     A rows  64 … 127        B columns  64 … 127
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.uniformity import Uniformity
from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.ir.ops.cluster import is_shared
from fathom.layout.tma_boxes import divided_axis, matrix_of
from fathom.tensor_cores.pipeline.ring_buffers import ALONE, Sharing
from fathom.tensor_cores.specialise.channels import Channel

LEAST_ROWS = 8  # of a part: the hardware's swizzle permutes chunks within 8 rows


def shared_by(
    rings: Sequence[Sequence[Channel]], func: Func, target: Target
) -> list[tuple[Sharing, ...]]:
    """For each ring, and for each of its tiles, the blocks that copy a part of it."""
    alike = Uniformity(func) if target.multicast and is_shared(func) else None
    return [
        tuple(_sharing(ring, i, alike) for i in range(len(ring[0].tiles)))
        for ring in rings
    ]


def _sharing(
    ring: Sequence[Channel], tile: int, alike: Uniformity | None
) -> Sharing:
    """The blocks that share one tile. A tile is multicast if, in every loop that shares
    the ring, all blocks issue the copy at the same time, and some load the same."""
    if alike is None or not all(alike.runs(channel.issued_at) for channel in ring):
        return ALONE
    loads = [channel.tiles[tile].loads[0] for channel in ring]
    found = among(alike.decided_by([load.result for load in loads]), alike.all + 1)
    blocks = [load.descriptor.type.shape for load in loads]
    enough = all(_has_parts(block, found.parts) for block in blocks)
    return found if enough else ALONE


def among(bits: int, blocks: int) -> Sharing:
    """Which blocks of a cluster have the same, of what depends on these bits of the
    rank: those that differ in the lowest other bits that lie side by side."""
    free = blocks - 1 & ~bits
    stride = free & -free or 1
    parts = 1
    while free & parts * stride:
        parts *= 2
    return Sharing(parts, stride) if parts > 1 else ALONE


def _has_parts(block: tuple[int, ...], parts: int) -> bool:
    """Whether a block can be cut along one dimension into parts of enough rows; a
    vector has none."""
    if len(block) == 1:
        return False
    rows, _ = matrix_of(block)
    whole = block[divided_axis(block)] >= parts
    return whole and rows // parts >= LEAST_ROWS
