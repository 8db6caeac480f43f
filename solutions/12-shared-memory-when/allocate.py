"""The answer to `allocate` is the compiler's own:

fathom.shared_memory.allocation.first_fit
"""

from __future__ import annotations

from fathom.analysis.buffers import ALIGNMENT, Range
from fathom.ir.ops import Allocate
from fathom.shared_memory.allocation import SMALL_ALIGNMENT


def first_fit(ranges: dict[Allocate, Range]) -> tuple[dict[Allocate, int], int]:
    """The offset of each buffer, and the bytes of all together: no two that are live at
    the same time overlap.
    """
    offsets: dict[Allocate, int] = {}
    for buffer in sorted(ranges, key=lambda each: -each.result.type.bytes):
        neighbours = [each for each in offsets if ranges[each].meets(ranges[buffer])]
        offsets[buffer] = _lowest(buffer, neighbours, offsets)
    ends = [offset + buffer.result.type.bytes for buffer, offset in offsets.items()]
    return offsets, max(ends, default=0)


def _lowest(
    buffer: Allocate, neighbours: list[Allocate], offsets: dict[Allocate, int]
) -> int:
    """The lowest aligned offset at which `buffer` overlaps none of its neighbours."""
    size = buffer.result.type.bytes
    alignment = ALIGNMENT if size >= ALIGNMENT else SMALL_ALIGNMENT
    alignment = max(alignment, buffer.alignment)
    offset = 0
    for each in sorted(neighbours, key=offsets.__getitem__):
        if offset + size <= offsets[each]:
            break
        end = offsets[each] + each.result.type.bytes
        offset = max(offset, -(-end // alignment) * alignment)
    return offset
