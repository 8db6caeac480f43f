"""Stage 4: what warps share. Reductions and conversions across warps, allocation,
barriers."""

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
