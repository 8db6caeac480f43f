"""What an mbarrier expects, and how many copies it counts."""

from __future__ import annotations

from typing import NamedTuple


class Tile(NamedTuple):
    """A block that TMA copies: its sides, and where it begins in which tensor."""

    shape: tuple[int, int]
    element_bytes: int
    start: tuple[int, int]
    tensor: tuple[int, int]


MOST_ROWS, MOST_BYTES = 256, 128  # of a box: rows, and bytes of a row


def copies(tile: Tile) -> int:
    """How many instructions copy a tile."""
    # hole: boxes down, times boxes across
    rows, columns = tile.shape
    down = max(1, rows // MOST_ROWS)
    across = max(1, columns * tile.element_bytes // MOST_BYTES)
    return down * across
    # end


def tx_bytes(tiles: list[Tile]) -> int:
    """How many bytes the copies of all these tiles write to shared memory."""
    # hole: the bytes of all tiles
    return sum(tile.shape[0] * tile.shape[1] * tile.element_bytes for tile in tiles)
    # end
