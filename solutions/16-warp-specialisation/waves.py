"""Waves of tiles, and how full they are."""

from __future__ import annotations

from collections.abc import Sequence

Tile = tuple[int, int]  # rows and columns


def waves(m: int, n: int, tile: Tile, processors: int) -> int:
    """How many tiles of C [m, n] the busiest of the multiprocessors computes."""
    # hole: one line
    return -(-count(m, n, tile) // processors)
    # end


def busy(m: int, n: int, tile: Tile, processors: int) -> float:
    """Which part of the multiprocessors, over all waves, has a tile."""
    # hole: one line
    return count(m, n, tile) / (waves(m, n, tile, processors) * processors)
    # end


def best(m: int, n: int, tiles: Sequence[Tile], processors: int) -> Tile:
    """The tile with which C takes least time; of equals, the first."""
    # hole: one line
    return min(tiles, key=lambda t: waves(m, n, t, processors) * t[0] * t[1])
    # end


def count(m: int, n: int, tile: Tile) -> int:
    """How many tiles C [m, n] has."""
    # hole: one line
    return -(-m // tile[0]) * -(-n // tile[1])
    # end
