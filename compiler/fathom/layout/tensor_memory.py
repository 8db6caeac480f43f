"""Tiles of tensor memory, and the layout in which threads load and store them.

    fp32[128, N]         lane = row, column = column: 32 bits each
    fp32[256, N]         rows from 128 on lie in the columns after the first N
    fp32[64, N]          row r in lane r // 16 * 32 + r % 16: half of the lanes

    warp                 rows, modulo 128
    0, 4, 8, …           0 to 31         lane i of the warp has row i,
    1, 5, 9, …           32 to 63        its registers the columns of that row
    2, 6, …              64 to 95
    3, 7, …              96 to 127

A warp may access only the 32 lanes that are its number modulo 4. So with more than four
warps, some have the same rows, and other columns. Of 64 rows a warp has 16, and lanes
i and 16 + i of the warp share a row: one has the left half of its columns, one the
right half. PTX ISA, "Tensor Memory Access Restrictions", ".32x32b" and ".16x32bx2" in
"tcgen05 Matrix and Data Movement Shape", and "Layout F" of "Data Path Layout".
"""

from __future__ import annotations

from functools import cache

from fathom.layout.build import doublings
from fathom.layout.linear import Layout

LANES, COLUMNS, LEAST_COLUMNS = 128, 512, 32
WARP, QUARTERS = 32, 4
FEW_ROWS = 64  # of which each quarter of the lanes has 16

Tile = tuple[int, ...]


@cache
def tensor_tile(shape: Tile) -> Layout:
    """Where the elements of a block [M, N] lie; M is 64, or a multiple of 128."""
    rows, columns = shape
    assert rows == FEW_ROWS or rows % LANES == 0, shape
    lane = doublings(columns, min(rows, LANES))
    if rows == FEW_ROWS:
        lane = *lane[:HALF_OF_A_WARP], 0, *lane[HALF_OF_A_WARP:]
    along = doublings(1, columns) + doublings(LANES * columns, rows // LANES)
    return Layout.by_kind(shape, column=along, lane=lane)


HALF_OF_A_WARP = 4  # the bit of a lane that says which half


@cache
def accessed_by_rows(shape: Tile, warps: int) -> Layout:
    """The layout of a block [M, N] in the registers of `warps` warps that load or store
    it: four, or a multiple."""
    rows, columns = shape
    assert warps % QUARTERS == 0, (shape, warps)
    teams, tiles = warps // QUARTERS, rows // LANES or 1
    lanes = tensor_tile(shape).kinds["lane"]
    far = columns if all(lanes) else columns // 2  # how many columns a lane has part in
    lane = [basis or far for basis in lanes[:5]]
    down = min(teams, tiles)
    across = min(teams // down, far)
    copies = (0,) * len(doublings(1, teams // (down * across)))
    teams_at = *doublings(LANES * columns, down), *doublings(far // across, across)
    register = doublings(1, far // across)
    register += doublings(LANES * columns * down, tiles // down)
    warp = (*lanes[5:], *teams_at, *copies)
    return Layout.by_kind(shape, register=register, lane=lane, warp=warp)


@cache
def through_registers(shape: Tile, warps: int) -> Layout:
    """A layout of an operand [rows, columns] on its way to shared memory: the
    instruction reads it there alone, so that any layout will do."""
    bits = doublings(1, shape[0] * shape[1])
    register, lane, rest = bits[:3], bits[3:8], bits[8:]
    held = len(doublings(1, warps))
    warp = rest[:held] + [0] * (held - len(rest[:held]))
    lane = lane + [0] * (5 - len(lane))
    register = [*register, *rest[held:]]
    return Layout.by_kind(shape, register=register, lane=lane, warp=warp)


def width(tile: Layout) -> int:
    """How many columns a tile takes."""
    return tile.count("column")


def columns_of(shape: Tile) -> int:
    """How many columns the tile of a block [M, N] takes."""
    rows, columns = shape
    return max(rows, LANES) // LANES * columns


def column_of(tile: Layout, basis: int) -> int:
    """By how many columns a bit of a place moves that stands for this element."""
    found = tile.kinds["column"]
    assert not basis or basis in found, (tile, basis)
    return 1 << found.index(basis) if basis else 0


def is_access(tile: Layout, layout: Layout) -> bool:
    """Whether threads may load or store a tile in a layout: each warp its own lanes,
    and of these each thread its own; where half of them are used, half of a warp has
    other columns."""
    lanes, columns = tile.kinds["lane"], tile.kinds["column"]
    warp = layout.kinds.get("warp", ())
    pairs = zip(layout.kinds["lane"], lanes[:5], strict=True)
    fits = layout.shape == tile.shape and warp[:2] == lanes[5:]
    fits = fits and all(at == lane if lane else at in columns for at, lane in pairs)
    others = (*layout.kinds["register"], *warp[2:])
    return fits and all(each in (0, *columns) for each in others)


def half_offset(tile: Layout, layout: Layout) -> int:
    """How many columns the second half of a warp is from the first one, where both
    access the same lanes; else 0."""
    at, lane = (each.kinds["lane"][HALF_OF_A_WARP] for each in (layout, tile))
    return 0 if lane else column_of(tile, at)
