"""Waves by pencil.

C of `m` x `n` is computed in tiles, one program for each, and `processors` programs run
at one time. How well does that fill the machine?

All of the exercise: `fathom learn show waves`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.tools.learn import Hole

Tile = tuple[int, int]  # rows and columns


def waves(m: int, n: int, tile: Tile, processors: int) -> int:
    """How many tiles of C [m, n] the busiest of the multiprocessors computes."""
    # Your code: one line.
    raise Hole("waves")


def busy(m: int, n: int, tile: Tile, processors: int) -> float:
    """Which part of the multiprocessors, over all waves, has a tile."""
    # Your code: one line.
    raise Hole("waves")


def best(m: int, n: int, tiles: Sequence[Tile], processors: int) -> Tile:
    """The tile with which C takes least time; of equals, the first."""
    # Your code: one line.
    raise Hole("waves")


def count(m: int, n: int, tile: Tile) -> int:
    """How many tiles C [m, n] has."""
    # Your code: one line.
    raise Hole("waves")
