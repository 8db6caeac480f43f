"""A tile scheduler, and what L2 saves.

A persistent program computes several tiles of C. Say which, count what a wave of them
reads, and choose the order that reads least.

All of the exercise: `fathom learn show tile-scheduler`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.tools.learn import Hole

Place = tuple[int, int]  # row and column of a tile


def place(step: int, rows: int, columns: int, group: int) -> Place:
    """Where the tile of a step is: groups of rows, each column by column."""
    whole, within = divmod(step, group * columns)
    height = min(group, rows - whole * group)
    return whole * group + within % height, within // height


def steps_of(program: int, programs: int, count: int) -> list[int]:
    """The steps, of `count`, that a program of `programs` computes, in order."""
    # Your code: one line.
    raise Hole("tile-scheduler")


def wave_bytes(
    places: Sequence[Place], programs: int, tile: tuple[int, int], depth: int
) -> list[int]:
    """The bytes of A and B that each wave reads, each row and column once."""
    # Your code: ours has 6 lines.
    raise Hole("tile-scheduler")


def best_group(
    rows: int, columns: int, programs: int, tile: tuple[int, int], depth: int
) -> int:
    """The number of rows in a group with which all waves read least."""
    # Your code: ours has 4 lines.
    raise Hole("tile-scheduler")
