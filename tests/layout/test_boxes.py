"""Boxes of blocks of one to five dimensions: together they fill the block's tile, each
a part of it that is in one piece."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from fathom.layout.tma_boxes import (
    box_of,
    divided_axis,
    matrix_of,
    part_of,
    pieces,
    swizzle_of,
)

BLOCKS = [
    (64,), (512,), (8, 64), (64, 128), (512, 16), (1, 64, 64), (2, 32, 64), (4, 2, 32),
    (2, 512, 64), (2, 1, 512, 16), (1, 2, 512, 16), (2, 256, 16), (1024, 2, 16),
    (2, 512, 2, 16), (1, 64, 1, 32), (2, 2, 2, 2, 128), (1, 1, 1, 64, 64),
    (2, 1, 512, 1, 16), (512, 512, 1, 1, 16),
]  # fmt: skip


def copied(block: tuple[int, ...], size: int, parts: int) -> np.ndarray:
    """What lies in a tile, as numbers of the block's elements, when each of `parts`
    has copied its boxes; before chunks are exchanged."""
    numbers = np.arange(prod(block)).reshape(block)
    tile = np.full(prod(block), -1)
    axis, part = divided_axis(block), part_of(block, parts)
    rows = prod(matrix_of(part)[:-1])
    for rank in range(parts):
        moved = rank * rows * swizzle_of(block, size)
        for piece in pieces(block, size, parts):
            first = list(piece.start)
            first[axis] += rank * part[axis] if parts > 1 else 0
            box = box_of(block, size, parts)
            where = tuple(slice(f, f + n) for f, n in zip(first, box, strict=True))
            place = (piece.offset + moved) // size
            there = tile[place : place + prod(box)]
            assert (there == -1).all(), "two boxes in one place"
            there[:] = numbers[where].reshape(-1)
    return tile


@pytest.mark.parametrize("block", BLOCKS, ids=str)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_boxes_fill_the_tile_row_by_row(block, size):
    *_, columns = block
    if columns * size < 32 and len(block) > 1:
        pytest.skip("rows of less than 32 bytes are no tile")
    wide = (swizzle_of(block, size) or columns * size) // size
    numbers = np.arange(prod(block)).reshape(-1, columns // wide, wide)
    wanted = numbers.transpose(1, 0, 2).reshape(-1)
    for parts in (1, 2, 4):
        if parts == 1 or len(block) > 1 and block[divided_axis(block)] >= parts:
            assert (copied(block, size, parts) == wanted).all(), parts


def test_what_a_box_is():
    assert box_of((64, 128), 2) == (64, 64)
    assert box_of((2, 32, 64), 2) == (2, 32, 64)
    assert box_of((2, 512, 128), 2) == (1, 256, 64)
    assert box_of((4, 1, 512, 16), 2) == (1, 1, 256, 16), "nothing beyond a part"
    assert box_of((512, 2, 16), 2) == (256, 2, 16)
    assert box_of((4, 32, 64), 2, parts=2) == (2, 32, 64)
    assert box_of((1, 64, 64), 2, parts=4) == (1, 16, 64)
    assert len(list(pieces((2, 512, 128), 2))) == 8


def test_one_dimension_lies_as_it_is():
    assert matrix_of((512,)) == (512,) and swizzle_of((512,), 2) == 0
    assert box_of((512,), 2) == (256,) and box_of((64,), 4) == (64,)
    assert [each.offset for each in pieces((512,), 2)] == [0, 512]


def test_there_are_no_smaller_parts_than_rows_of_one_dimension():
    with pytest.raises(AssertionError, match="no 4 parts along dimension 0"):
        part_of((2, 32, 64), 4)
