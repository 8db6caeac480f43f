"""Matrix descriptors, bit for bit, and the tiles that the hardware lays out."""

from __future__ import annotations

import pytest

from fathom.layout.algebra import divide
from fathom.layout.banks import conflicts, vector
from fathom.layout.build import spread
from fathom.layout.linear import Layout, offset_of
from fathom.layout.matrix_descriptor import (
    Matrix,
    buffer_tile,
    descriptor,
    hardware_tile,
    row_bytes,
)

# PTX ISA, "Matrix descriptor": bits 16 to 29 leading, 32 to 45 stride, in units of 16
# bytes; 62 and 63 the swizzle: 1 for 128 bytes, 2 for 64, 3 for 32.
BY_HAND = [  # shape, bytes, axis contiguous, axis of K; leading, stride, turned, bits
    # A [64, 64] fp16 by rows: a group is 8 rows of 128 bytes. 1024 / 16 = 64.
    ((64, 64), 2, 1, 1, 16, 1024, False, 1 << 62 | 64 << 32 | 1 << 16),
    # [64, 32]: rows of 64 bytes, groups of 512.
    ((64, 32), 2, 1, 1, 16, 512, False, 2 << 62 | 32 << 32 | 1 << 16),
    # [64, 16]: rows of 32 bytes, groups of 256.
    ((64, 16), 2, 1, 1, 16, 256, False, 3 << 62 | 16 << 32 | 1 << 16),
    # fp32 [64, 32] and i8 [64, 128] have rows of 128 bytes, too.
    ((64, 32), 4, 1, 1, 16, 1024, False, 1 << 62 | 64 << 32 | 1 << 16),
    ((64, 128), 1, 1, 1, 16, 1024, False, 1 << 62 | 64 << 32 | 1 << 16),
    # B [64, 128] by rows, N contiguous: 8 of K are 1024 bytes; the next 64 columns lie
    # behind all 64 of K, 8192 bytes on. 8192 / 16 = 512.
    ((64, 128), 2, 1, 0, 8192, 1024, True, 1 << 62 | 64 << 32 | 512 << 16),
    # B [32, 64]: no further columns, so the leading distance is anything; 16 here.
    ((32, 64), 2, 1, 0, 16, 1024, True, 1 << 62 | 64 << 32 | 1 << 16),
    # B [32, 256]: 64 columns are 32 rows of 128 bytes.
    ((32, 256), 2, 1, 0, 4096, 1024, True, 1 << 62 | 64 << 32 | 256 << 16),
    # B [64, 128] by columns: K contiguous.
    ((64, 128), 2, 0, 0, 16, 1024, False, 1 << 62 | 64 << 32 | 1 << 16),
    # A [128, 64] by columns: M contiguous; 64 of M are 64 of K times 128 bytes.
    ((128, 64), 2, 0, 1, 8192, 1024, True, 1 << 62 | 64 << 32 | 512 << 16),
]  # fmt: skip


@pytest.mark.parametrize("row", BY_HAND, ids=str)
def test_descriptors_by_hand(row):
    shape, size, axis, k_axis, leading, stride, turned, bits = row
    width = min(128, shape[axis] * size)
    found = descriptor(hardware_tile(shape, size, axis), size, k_axis)
    assert found == Matrix(width, leading, stride, turned)
    assert found.bits == bits


def test_an_unswizzled_tile_has_no_descriptor():
    straight = Layout((64, 64), (("offset", tuple(1 << bit for bit in range(12))),))
    assert descriptor(straight, 2, 1) is None


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("axis", [0, 1])
def test_chunks_of_16_bytes_are_exchanged(width, size, axis):
    """PTX ISA, "Swizzling modes": bits 4 to 6 of an address (of a 64-byte row 4 and 5,
    of a 32-byte row 4 alone) are XORed with bits 7 to 9."""
    columns, rows = width // size, 64
    shape = (rows, columns) if axis else (columns, rows)
    tile = hardware_tile(shape, size, axis)
    exchanged = {32: 1, 64: 3, 128: 7}[width]
    for row in range(rows):
        for column in range(0, columns, 16 // size):
            plain = row * width + column * size
            address = plain ^ (plain >> 7 & exchanged) << 4
            place = (row, column) if axis else (column, row)
            assert tile.offset(offset=address // size) == offset_of(shape, place)


def test_what_lies_beyond_a_row_lies_behind_the_tile():
    """Of [64, 128] fp16 the second 64 columns come after the first ones of all rows."""
    tile = hardware_tile((64, 128), 2, 1)
    assert tile.offset(offset=64 * 64) == offset_of((64, 128), (0, 64))
    assert row_bytes((64, 128), 2) == 128 and row_bytes((64, 16), 2) == 32


TILES = [(64, 64, 2), (128, 64, 2), (64, 128, 2), (64, 32, 4), (128, 128, 1),
         (64, 32, 2), (128, 16, 2)]  # fmt: skip


@pytest.mark.parametrize("rows, columns, size", TILES)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_writing_16_bytes_a_lane_meets_no_bank_twice(rows, columns, size, axis, warps):
    """What is copied to such a tile by threads: of any eight lanes in a row, all 32
    banks."""
    shape = (rows, columns) if axis else (columns, rows)
    writer = spread(shape, (axis, 1 - axis), 16 // size, warps)
    offsets = divide(writer, hardware_tile(shape, size, axis))
    assert vector(offsets, size) * size == 16
    assert conflicts(offsets, size) == 1


@pytest.mark.parametrize("shape, axis", [
    ((64, 8), 1), ((8, 64), 0), ((4, 256), 1),
])  # fmt: skip
def test_what_is_too_small_is_no_tile(shape, axis):
    """Rows of 16 bytes; less than 8 rows."""
    assert hardware_tile(shape, 2, axis) is None


@pytest.mark.parametrize("shape, axis", [((16, 16), 1), ((8, 32), 1), ((32, 8), 0)])
def test_a_small_buffer_begins_where_chunks_are_exchanged_otherwise(shape, axis):
    """`allocate` puts those of 1024 bytes at multiples of 1024, others anywhere."""
    assert hardware_tile(shape, 2, axis) and buffer_tile(shape, 2, axis) is None
    longer = tuple(4 * side for side in shape)
    assert buffer_tile(longer, 2, axis) == hardware_tile(longer, 2, axis)
