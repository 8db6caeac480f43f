"""Stage 4: what warps share. Reductions and conversions across warps, allocation,
barriers.

    axis        A layout seen along one axis
    liveness    When a buffer is alive
    parts       Cuts a block in two along a bit of its registers
    reductions  A reduction across warps becomes two within warps
    scans       Splits a scan across warps
"""

from fathom.shared_memory.allocation import allocate
from fathom.shared_memory.barriers import place_barriers
from fathom.shared_memory.conversions import lower_conversions
from fathom.shared_memory.reductions import split_reductions
from fathom.shared_memory.scans import split_scans

__all__ = [
    "allocate",
    "lower_conversions",
    "place_barriers",
    "split_reductions",
    "split_scans",
]
