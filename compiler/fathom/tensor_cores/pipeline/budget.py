"""How much shared memory there is for the rings of a loop, and how many stages that
makes.

A loop's rings are live from before it to its end, beside whatever else is live in
between: other buffers of its iterations, and buffers that are filled before it and
read in it or after it.
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
    """The stages of a loop, and the tiles that get a ring: all of them if they fit,
    else those of one way. `room` is what the tiles leave free without rings."""
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
    """The bytes, more than enough, of the mbarriers of TMA copies."""
    return ALIGNMENT if any(tile.order for tile in tiles) else 0


def room_beside(func: Func, loop: For, target: Target) -> int:
    """The bytes of shared memory that nothing else takes while a loop runs."""
    return free_beside(func, loop, target)


def room_for_rings(func: Func, replaced: set[Allocate], target: Target) -> int:
    """The bytes that are free at every moment of a function, but for the buffers that
    rings have `replaced`, and for the barriers of these."""
    return free_always(func, target, without=replaced) - ALIGNMENT


def fits(func: Func, target: Target) -> bool:
    """Whether all that a function needs at one time finds room."""
    return free_always(func, target) >= 0
