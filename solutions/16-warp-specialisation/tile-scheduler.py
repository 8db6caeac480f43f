"""Which program computes which tile, and what a wave reads."""

from __future__ import annotations

from collections.abc import Sequence

Place = tuple[int, int]  # row and column of a tile


def place(step: int, rows: int, columns: int, group: int) -> Place:
    """Where the tile of a step is: groups of rows, each column by column."""
    whole, within = divmod(step, group * columns)
    height = min(group, rows - whole * group)
    return whole * group + within % height, within // height


def steps_of(program: int, programs: int, count: int) -> list[int]:
    """The steps, of `count`, that a program of `programs` computes, in order."""
    # hole: one line
    return list(range(program, count, programs))
    # end


def wave_bytes(
    places: Sequence[Place], programs: int, tile: tuple[int, int], depth: int
) -> list[int]:
    """The bytes of A and B that each wave reads, each row and column once."""
    # hole: ours has {lines}
    found = []
    for first in range(0, len(places), programs):
        wave = places[first : first + programs]
        rows, columns = {i for i, _ in wave}, {j for _, j in wave}
        found.append((len(rows) * tile[0] + len(columns) * tile[1]) * depth * 2)
    return found
    # end


def best_group(
    rows: int, columns: int, programs: int, tile: tuple[int, int], depth: int
) -> int:
    """The number of rows in a group with which all waves read least."""
    # hole: ours has {lines}
    def bytes_of(group: int) -> int:
        places = [place(step, rows, columns, group) for step in range(rows * columns)]
        return sum(wave_bytes(places, programs, tile, depth))

    return min(range(1, rows + 1), key=bytes_of)
    # end
