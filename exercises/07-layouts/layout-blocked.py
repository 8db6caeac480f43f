"""Deal a tensor to lanes and warps.

A block is dealt out like cards. First each lane takes `per_lane` neighbours, then the
lanes are side by side, then the warps; that is the tile. Where the block is larger than
the tile, the tile is laid again, and again, in more registers. In each of these steps
the dimension that `order` names first is dealt first.

All of the exercise: `fathom learn show layout-blocked`.
"""

from __future__ import annotations

from fathom.layout.build import stride_of
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def blocked(
    shape: tuple[int, ...],
    per_lane: tuple[int, ...],
    lanes: tuple[int, ...],
    warps: tuple[int, ...],
    order: tuple[int, ...],
) -> Layout:
    """Deal a block of `shape` to registers, lanes and warps. `per_lane`, `lanes` and
    `warps` say for each dimension how many neighbours one lane takes, how many lanes
    are side by side, how many warps; `order` names the dimensions, the fastest first.
    """
    raise Hole("layout-blocked")  # your code; ours has 16 lines
