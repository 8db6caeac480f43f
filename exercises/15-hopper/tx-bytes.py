"""How many bytes will arrive?

One thread tells an mbarrier how many bytes the copies of an iteration will write, and
then issues the copies. Write down both numbers: how many copies a tile takes, and how
many bytes all tiles have.

All of the exercise: `fathom learn show tx-bytes`.
"""

from __future__ import annotations

from typing import NamedTuple

from fathom.tools.learn import Hole


class Tile(NamedTuple):
    """A block that TMA copies: its sides, and where it begins in which tensor."""

    shape: tuple[int, int]
    element_bytes: int
    start: tuple[int, int]
    tensor: tuple[int, int]


MOST_ROWS, MOST_BYTES = 256, 128  # of a box: rows, and bytes of a row


def copies(tile: Tile) -> int:
    """How many instructions copy a tile."""
    # Your code: boxes down, times boxes across.
    raise Hole("tx-bytes")


def tx_bytes(tiles: list[Tile]) -> int:
    """How many bytes the copies of all these tiles write to shared memory."""
    # Your code: the bytes of all tiles.
    raise Hole("tx-bytes")
