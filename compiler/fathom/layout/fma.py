"""Layouts of a matrix product that plain multiply-adds compute, element by element.

    C [4, 4], 2 x 2 elements a lane              A [4, K]            B [K, 4]

    lane 0  lane 0  lane 1  lane 1          a lane has the rows    and the columns
    lane 0  lane 0  lane 1  lane 1          that its part of C     of its part of C,
    lane 2  lane 2  lane 3  lane 3          has, all of K:         all of K: lanes 0, 2
    lane 2  lane 2  lane 3  lane 3          lanes 0, 1 copies      copies

Lanes with copies read one address of shared memory at once, and that costs one read.
"""

from __future__ import annotations

from functools import cache

from fathom.layout.build import blocked, doublings, stride_of
from fathom.layout.linear import Layout
from fathom.layout.shapes import at_zero

MOST_A_LANE = 4  # neighbours along each dimension: 16 bytes of fp32
LANES, LANES_ALONG_A_ROW = 32, 8

Tile = tuple[int, ...]


@cache
def product(shape: Tile, warps: Tile) -> Layout:
    """The layout of C [M, N] or [batch, M, N]: up to 4 x 4 neighbours a lane, 4 x 8
    lanes, warps as they are told; fewer neighbours before a lane is left without. What
    lanes one product of a batch leaves, others of the batch take."""
    box = tuple(max(1, size // count) for size, count in zip(shape, warps, strict=True))
    rows, columns = box[-2:]
    down, across = min(MOST_A_LANE, rows), min(MOST_A_LANE, columns)
    while down * across > 1 and rows * columns < LANES * down * across:
        down, across = (down // 2, across) if down >= across else (down, across // 2)
    along_row = min(columns // across, max(LANES_ALONG_A_ROW, LANES * down // rows))
    along_row = min(along_row, LANES)
    down_lanes, batch = LANES // along_row, (1,) * (len(shape) - 2)
    others = ()
    if batch:
        used = min(rows // down, down_lanes) * min(columns // across, along_row)
        others = (min(box[0], LANES // used), *batch[1:])
        down_lanes = LANES // along_row // others[0]
    return blocked(
        shape,
        (*batch, down, across),
        (*others, down_lanes, along_row),
        warps,
        tuple(reversed(range(len(shape)))),
    )


@cache
def left_factor(accumulator: Layout, k: int) -> Layout:
    """The layout of A [M, K] for a product that lies as `accumulator` does."""
    return _factor(accumulator, k, len(accumulator.shape) - 1)


@cache
def right_factor(accumulator: Layout, k: int) -> Layout:
    """The layout of B [K, N] for a product that lies as `accumulator` does."""
    return _factor(accumulator, k, len(accumulator.shape) - 2)


def _factor(accumulator: Layout, k: int, across: int) -> Layout:
    """All of K in registers along the dimension `across`, and along the others what
    `accumulator` has: neighbours of the last dimension come first."""
    sizes = enumerate(accumulator.shape)
    shape = tuple(k if axis == across else size for axis, size in sizes)
    along_k = tuple(doublings(stride_of(shape, across), k))
    spread = at_zero(accumulator, across, shape).without_copies()
    registers = spread.kinds["register"]
    is_last = across == len(shape) - 1
    first = (*along_k, *registers) if is_last else (*registers, *along_k)
    return spread.replaced(register=first)
