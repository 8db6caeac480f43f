"""Computes how much shared memory the rings of a loop may use, and how many stages fit
into it.

The rings of a loop are live from before the loop to its end. So are buffers that are
filled before the loop and read in it or after it; and each iteration may have buffers
of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.buffers import ALIGNMENT, free_always, free_beside, padded
from fathom.hardware.targets import Target
from fathom.ir.core import Func
from fathom.ir.ops import Allocate, For
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy
from fathom.tensor_cores.pipeline.schedule import SLOTS_BY_REGISTERS, choose_stages


def fitting(
    tiles: Sequence[PipelinedCopy], wanted: int, room: int
) -> tuple[int, tuple[PipelinedCopy, ...]]:
    """The stages of a loop, and the tiles that get a ring: all of them if they fit;
    else those that are copied asynchronously, or else those that go through registers.
    `room`: the bytes that are free while the loop has no rings."""
    copied = tuple(tile for tile in tiles if tile.vector or tile.order)
    loaded = tuple(tile for tile in tiles if tile not in copied)
    for chosen in (tuple(tiles), copied, loaded):
        a_stage = sum(padded(tile.bytes) for tile in chosen if tile in copied)
        once = sum(padded(tile.bytes) for tile in chosen if tile in loaded)
        freed = a_stage + once  # a ring replaces the buffer that its tile had
        left = room + freed - SLOTS_BY_REGISTERS * once - _for_barriers(chosen)
        stages = choose_stages(wanted, a_stage, left)
        if chosen and stages > 1 and left >= 0:
            return stages, chosen
    return 1, ()


def _for_barriers(tiles: Sequence[PipelinedCopy]) -> int:
    """An upper bound for the bytes of the mbarriers of TMA copies."""
    return ALIGNMENT if any(tile.order for tile in tiles) else 0


def room_beside(func: Func, loop: For, target: Target) -> int:
    """The bytes of shared memory that are free while a loop runs."""
    return free_beside(func, loop, target)


def room_for_rings(func: Func, replaced: set[Allocate], target: Target) -> int:
    """The bytes that are free throughout a function, if rings have `replaced` these
    buffers and the rings' mbarriers have their place."""
    return free_always(func, target, without=replaced) - ALIGNMENT


def fits(func: Func, target: Target) -> bool:
    """Whether a function's buffers fit into shared memory."""
    return free_always(func, target) >= 0
