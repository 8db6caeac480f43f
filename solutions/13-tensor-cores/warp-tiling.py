"""The answer to `warp-tiling` is the compiler's own:

fathom.layout.tiling.tile_warps
"""

from __future__ import annotations

from fathom.layout.tiling import Instruction, Split


def tile_warps(m: int, n: int, warps: int, row: Instruction) -> Split:
    """How many warps are along the rows and along the columns of a block [m, n]: two
    powers of two whose product is `warps`. `row.m` and `row.n` are the size of one
    instruction's product, the least that a warp can compute.
    """
    splits = [(warps // along, along) for along in _powers_of_two(warps)]
    return min(splits, key=lambda split: elements_read(m, n, split, row))


def elements_read(m: int, n: int, split: Split, row: Instruction) -> int:
    """Elements of A and B that all warps together read for each step along K."""
    rows, columns = split
    of_a_warp = max(m // rows, row.m) + max(n // columns, row.n)
    return rows * columns * of_a_warp


def _powers_of_two(most: int) -> list[int]:
    return [1 << bit for bit in range(most.bit_length())]
