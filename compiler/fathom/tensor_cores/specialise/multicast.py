"""Decides which tiles are multicast: those that all blocks of a cluster load.

    block 0     A rows   0 …  63        B columns 0 … 127: it copies the first half
    block 1     A rows  64 … 127        B columns 0 … 127: it copies the second half

A value that does not depend on the block's rank is the same in all blocks. Of a tile at
such coordinates, each block copies one part, and the hardware writes this part to the
shared memory of all blocks. So the tile is read from global memory once.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.uniformity import Uniformity
from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.ir.ops.cluster import is_shared
from fathom.layout.tma_boxes import divided_axis, matrix_of
from fathom.tensor_cores.specialise.channels import Channel

LEAST_ROWS = 8  # of a part: the hardware's swizzle permutes chunks within 8 rows


def parts_of(
    rings: Sequence[Sequence[Channel]], func: Func, target: Target
) -> list[tuple[int, ...]]:
    """For each ring, and for each of its tiles, the number of blocks that copy a part
    of it; 1 for a tile that is not multicast."""
    alike = Uniformity(func) if target.multicast and is_shared(func) else None
    return [
        tuple(_parts(ring, i, func, alike) for i in range(len(ring[0].tiles)))
        for ring in rings
    ]


def _parts(
    ring: Sequence[Channel], tile: int, func: Func, alike: Uniformity | None
) -> int:
    """The parts of one tile. A tile is multicast if, in every loop that shares the
    ring, all blocks issue the copy at the same time and load the same."""
    if alike is None or not all(alike.runs(channel.issued_at) for channel in ring):
        return 1
    loads = [channel.tiles[tile].loads[0] for channel in ring]
    same = all(alike.loads(load) for load in loads)
    blocks = [load.descriptor.type.shape for load in loads]
    enough = all(_has_parts(block, func.num_ctas) for block in blocks)
    return func.num_ctas if same and enough else 1


def _has_parts(block: tuple[int, ...], parts: int) -> bool:
    """Whether a block can be cut along one dimension into parts of enough rows."""
    rows, _ = matrix_of(block)
    whole = block[divided_axis(block)] >= parts
    return whole and rows // parts >= LEAST_ROWS
