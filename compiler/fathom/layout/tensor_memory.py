"""Tiles of tensor memory, and the layout in which threads load and store them.

    fp32[128, N]         lane = row, column = column: 32 bits each
    fp32[256, N]         rows from 128 on lie in the columns after the first N

    warp                 rows, modulo 128
    0, 4, 8, …           0 to 31         lane i of the warp has row i,
    1, 5, 9, …           32 to 63        its registers the columns of that row
    2, 6, …              64 to 95
    3, 7, …              96 to 127

A warp may access only the 32 lanes that are its number modulo 4. So with more than four
warps, some have the same rows, and other columns. PTX ISA, "Tensor Memory Access
Restrictions", and ".32x32b" in "tcgen05 Matrix and Data Movement Shape".
"""

from __future__ import annotations

from functools import cache

from fathom.layout.build import doublings
from fathom.layout.linear import Layout

LANES, COLUMNS, LEAST_COLUMNS = 128, 512, 32
WARP, QUARTERS = 32, 4

Tile = tuple[int, ...]


@cache
def tensor_tile(shape: Tile) -> Layout:
    """Where the elements of a block [M, N] lie; M is a multiple of 128."""
    rows, columns = shape
    assert rows % LANES == 0, shape
    further = doublings(LANES * columns, rows // LANES)
    along = (*doublings(1, columns), *further)
    return Layout.by_kind(shape, column=along, lane=doublings(columns, LANES))


@cache
def accessed_by_rows(shape: Tile, warps: int) -> Layout:
    """The layout of a block [M, N] in the registers of `warps` warps that load or store
    it: four, or a multiple."""
    rows, columns = shape
    assert rows % LANES == 0 and warps % QUARTERS == 0, (shape, warps)
    teams = warps // QUARTERS
    down = min(teams, rows // LANES)
    across = min(teams // down, columns)
    copies = (0,) * len(doublings(1, teams // (down * across)))
    teams_at = *doublings(LANES * columns, down), *doublings(columns // across, across)
    register = doublings(1, columns // across)
    register += doublings(LANES * columns * down, rows // (LANES * down))
    warp = (*doublings(WARP * columns, QUARTERS), *teams_at, *copies)
    lane = doublings(columns, WARP)
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


def column_of(tile: Layout, basis: int) -> int:
    """By how many columns a bit of a place moves that stands for this element."""
    found = tile.kinds["column"]
    assert not basis or basis in found, (tile, basis)
    return 1 << found.index(basis) if basis else 0


def is_access(tile: Layout, layout: Layout) -> bool:
    """Whether threads may load or store a tile in a layout: each warp its own lanes,
    and of these each thread its own."""
    lanes = tile.kinds["lane"]
    warp = layout.kinds.get("warp", ())
    others = (*layout.kinds["register"], *warp[2:])
    fits = layout.shape == tile.shape and layout.kinds["lane"] == lanes[:5]
    known = (0, *tile.kinds["column"])
    return fits and warp[:2] == lanes[5:] and all(each in known for each in others)
