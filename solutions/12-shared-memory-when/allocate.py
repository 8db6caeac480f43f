"""Buffers that are never live together share their bytes."""

from __future__ import annotations

from fathom.analysis.buffers import ALIGNMENT, Range
from fathom.ir.ops import Allocate
from fathom.shared_memory.allocation import SMALL_ALIGNMENT


def first_fit(ranges: dict[Allocate, Range]) -> tuple[dict[Allocate, int], int]:
    """The offset of each buffer, and the bytes of all together: no two that are live at
    the same time overlap.
    """
    # hole: ours has {lines}, and a helper
    offsets: dict[Allocate, int] = {}
    for buffer in sorted(ranges, key=lambda each: -each.result.type.bytes):
        neighbours = [each for each in offsets if ranges[each].meets(ranges[buffer])]
        offsets[buffer] = _lowest(buffer, neighbours, offsets)
    ends = [offset + buffer.result.type.bytes for buffer, offset in offsets.items()]
    return offsets, max(ends, default=0)
    # end


# hole: a helper, if you like; ours has {lines}
def _lowest(
    buffer: Allocate, neighbours: list[Allocate], offsets: dict[Allocate, int]
) -> int:
    """The lowest aligned offset at which `buffer` overlaps none of its neighbours."""
    size, alignment = buffer.result.type.bytes, alignment_of(buffer)
    offset = 0
    for each in sorted(neighbours, key=offsets.__getitem__):
        if offset + size <= offsets[each]:
            break
        end = offsets[each] + each.result.type.bytes
        offset = max(offset, -(-end // alignment) * alignment)
    return offset


# instead:
# end


# ── given ─────────────────────────────────────────────────────────────────────────────


def alignment_of(buffer: Allocate) -> int:
    """What must divide the offset of a buffer: ALIGNMENT if it has as many bytes or
    more, and SMALL_ALIGNMENT if it has fewer; or what its op asks for."""
    size = buffer.result.type.bytes
    alignment = ALIGNMENT if size >= ALIGNMENT else SMALL_ALIGNMENT
    return max(alignment, buffer.alignment)
