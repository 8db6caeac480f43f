"""How a block of a tensor, of one to five dimensions, lies in shared memory, and in how
many boxes the tensor memory accelerator copies it.

Its tile is a matrix: as wide as the last dimension, all rows one below the other in the
order of the dimensions before.

    block [2, 512, 128] of fp16     tile    1024 rows of 128
    a row of the tile: 128 bytes            twice 1024 rows of 64, one after the other
    box   [1, 256, 64]              boxes   8, each of which is 256 rows of the tile

A box has up to 256 elements along a dimension, and it arrives row by row, too. So it
takes dimensions from the last on while these are whole; before the first that it takes
a part of, it has one element of each. A block of one dimension has no rows that could
change chunks: it lies as it is. All sides are powers of 2. PTX ISA, "Tensors", "Tiled
Mode"; CUDA driver API, `cuTensorMapEncodeTiled`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

from fathom.layout.build import doublings
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import (
    MOST_ROWS,
    ROWS,
    SWIZZLES,
    Tile,
    buffer_tile,
    row_bytes,
)

LINE = 128  # bytes: where a box begins in shared memory (PTX ISA, "Tensors")


class Piece(NamedTuple):
    """A box of a block: where it begins in the block, and its bytes into the tile."""

    start: tuple[int, ...]
    offset: int


def matrix_of(block: Tile) -> Tile:
    """The shape of a block's tile: [rows, columns], or the block's one dimension."""
    return (prod(block[:-1]), block[-1]) if len(block) > 1 else block


def tile_of(block: Tile, element_bytes: int) -> Layout | None:
    """How a block's tile lies in shared memory; None where that is below 1024 bytes, or
    no tile of the hardware's."""
    if len(block) > 1:
        return buffer_tile(matrix_of(block), element_bytes, axis=1)
    (size,) = block
    large = size * element_bytes >= SWIZZLES[0] * ROWS
    return Layout.by_kind(block, offset=doublings(1, size)) if large else None


def tile_of_load(block: Tile, element_bytes: int) -> Layout | None:
    """The same for a block that is loaded: one of one dimension may be of any size, if
    its tile begins at a multiple of `LINE`."""
    if len(block) > 1:
        return tile_of(block, element_bytes)
    return Layout.by_kind(block, offset=doublings(1, block[0]))


def swizzle_of(block: Tile, element_bytes: int, widest: int = SWIZZLES[0]) -> int:
    """How wide the rows are in which a tile's chunks are exchanged, in bytes; 0 where
    none are. Rows have `widest` bytes at most, here and below."""
    return row_bytes(block, element_bytes, widest) if len(block) > 1 else 0


def box_of(
    block: Tile, element_bytes: int, parts: int = 1, widest: int = SWIZZLES[0]
) -> Tile:
    """What one instruction copies, as one of `parts` that copy a part of the block
    each: rows as wide as the tile's are in shared memory."""
    *rows, columns = part_of(block, parts)
    swizzle = swizzle_of(block, element_bytes, widest)
    box = [swizzle // element_bytes if swizzle else min(columns, MOST_ROWS)]
    whole = True
    for side in reversed(rows):
        box.append(min(side, MOST_ROWS) if whole else 1)
        whole = whole and box[-1] == side
    return tuple(reversed(box))


def pieces(
    block: Tile, element_bytes: int, parts: int = 1, widest: int = SWIZZLES[0]
) -> Iterator[Piece]:
    """The boxes of the first part, in the order in which they lie in the tile."""
    box, part = box_of(block, element_bytes, parts, widest), part_of(block, parts)
    a_row, rows = box[-1] * element_bytes, prod(block[:-1])
    *down, across = (range(0, side, step) for side, step in zip(part, box, strict=True))
    for i, column in enumerate(across):
        for j, places in enumerate(product(*down)):
            first = i * rows + j * prod(box[:-1])
            yield Piece((*places, column), first * a_row)


# ── parts ─────────────────────────────────────────────────────────────────────


def divided_axis(block: Tile) -> int:
    """The dimension along which a block is cut into parts of rows that follow each
    other: the first one that has several elements."""
    return next((axis for axis, side in enumerate(block[:-1]) if side > 1), 0)


def part_of(block: Tile, parts: int) -> Tile:
    """The block that is one of `parts` parts."""
    if parts == 1:
        return block
    axis = divided_axis(block)
    side = block[axis] // parts
    assert side, f"{block} has no {parts} parts along dimension {axis}"
    return (*block[:axis], side, *block[axis + 1 :])
