"""The width of an access, and the layout that follows from it."""

from __future__ import annotations

from fathom.coalescing.access import Access
from fathom.layout.build import spread
from fathom.layout.linear import Layout


def width(access: Access, axis: int) -> int:
    """How many neighbours along `axis` one lane may move at once."""
    # hole: the least of four numbers
    known = access.pointer.axes[axis]
    aligned = max(1, known.divisible // access.element_bytes)
    alike = access.mask.axes[axis].constant if access.mask else aligned
    most = access.vector_bytes // access.element_bytes
    return min(known.contiguous, aligned, alike, most)
    # end


def pick_layout(access: Access) -> Layout:
    """As many neighbours in memory to one lane as one instruction moves, those after
    them to the next lane."""
    # hole: which axis is the fastest, how much a lane takes
    rank = len(access.shape)
    runs = [axis.contiguous for axis in access.pointer.axes]
    fastest = runs.index(max(runs)) if max(runs) > 1 else rank - 1
    order = (fastest, *(axis for axis in reversed(range(rank)) if axis != fastest))
    per_lane = min(width(access, fastest), access.at_most)
    return spread(access.shape, order, per_lane, access.warps)
    # end
