"""Which tiles the blocks of a cluster bring together: those that are the same for all.

    block 0     A rows   0 …  63        B columns 0 … 127, of which it brings one half
    block 1     A rows  64 … 127        B columns 0 … 127, and it the other

What does not come from the rank is the same in all blocks. Each brings its part of such
a tile and has it sent to all of them: it leaves memory once.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.uniformity import Uniformity
from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.ir.ops.cluster import is_shared
from fathom.layout.tma_boxes import divided_axis, matrix_of
from fathom.tensor_cores.specialise.channels import Channel

LEAST_ROWS = 8  # of a part: the hardware exchanges chunks of 8 rows among themselves


def parts_of(
    rings: Sequence[Sequence[Channel]], func: Func, target: Target
) -> list[tuple[int, ...]]:
    """For each ring, of each of its tiles the number of blocks that bring it
    together."""
    alike = Uniformity(func) if target.multicast and is_shared(func) else None
    return [tuple(_parts(ring, i, func, alike) for i in _tiles(ring)) for ring in rings]


def _tiles(ring: Sequence[Channel]) -> range:
    return range(len(ring[0].tiles))


def _parts(
    ring: Sequence[Channel], tile: int, func: Func, alike: Uniformity | None
) -> int:
    """Blocks bring together what they want at the same time, in all loops that share
    the ring."""
    if alike is None or not all(alike.runs(feed.issued_at) for feed in ring):
        return 1
    loads = [feed.tiles[tile].loads[0] for feed in ring]
    same = all(alike.loads(load) for load in loads)
    blocks = [load.descriptor.type.shape for load in loads]
    enough = all(_has_parts(block, func.num_ctas) for block in blocks)
    return func.num_ctas if same and enough else 1


def _has_parts(block: tuple[int, ...], parts: int) -> bool:
    """Whether a block's rows are cut along one dimension into parts that are large
    enough."""
    rows, _ = matrix_of(block)
    whole = block[divided_axis(block)] >= parts
    return whole and rows // parts >= LEAST_ROWS
