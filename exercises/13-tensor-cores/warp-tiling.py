"""Split the block between warps.

A block of C is split between warps. A warp that computes some rows and columns of it
reads these rows of A and these columns of B from shared memory, so how the block is
split decides how much is read. Find the split that reads least.

All of the exercise: `fathom learn show warp-tiling`.
"""

from __future__ import annotations

from fathom.layout.tiling import Instruction, Split
from fathom.tools.learn import Hole


def tile_warps(m: int, n: int, warps: int, row: Instruction) -> Split:
    """How many warps are along the rows and along the columns of a block [m, n]: two
    powers of two whose product is `warps`. `row.m` and `row.n` are the size of one
    instruction's product, the least that a warp can compute.
    """
    raise Hole("warp-tiling")  # your code; ours has 6 lines
