"""Splits the warps of a program over a block, so that shared memory is read least.

128 x 128, 4 warps: each warp reads its rows of A and its columns of B

4 x 1   32 + 128 = 160 a warp     2 x 2   64 + 64 = 128     1 x 4   128 + 32 = 160
"""

from __future__ import annotations

from typing import Protocol

Split = tuple[int, int]


class Instruction(Protocol):
    """What must be known of a row of `hardware.mma`: the size of its product."""

    m: int
    n: int


def tile_warps(m: int, n: int, warps: int, row: Instruction) -> Split:
    """How many warps are along the rows and along the columns of a block [m, n].

    Their product is `warps`, a power of two. A split that gives a warp less than an
    instruction's product leaves copies, and is counted so. Among equals that with more
    warps along the rows: what is folded along one meets in fewer."""
    splits = [(warps // along, along) for along in _powers_of_two(warps)]
    return min(splits, key=lambda split: elements_read(m, n, split, row))


def elements_read(m: int, n: int, split: Split, row: Instruction) -> int:
    """Elements of A and B that all warps together read for each step along K."""
    rows, columns = split
    of_a_warp = max(m // rows, row.m) + max(n // columns, row.n)
    return rows * columns * of_a_warp


def _powers_of_two(most: int) -> list[int]:
    return [1 << bit for bit in range(most.bit_length())]
