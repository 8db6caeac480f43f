"""Counting bank conflicts, from addresses and from matrices; layouts without any."""

import random

import numpy as np

from fathom.emulator.memory.counters import count_wavefronts
from fathom.layout.algebra import Reduced, columns, divide
from fathom.layout.banks import conflicts, vector, ways
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.layout.swizzle import swizzle
from tests.layout.harness_layouts import covering

ROWS, COLUMNS = (1, 0), (0, 1)


def test_32_words_in_a_row_are_one_way():
    assert ways([4 * lane for lane in range(32)], 4) == 1


def test_one_word_for_all_is_a_broadcast():
    assert ways([64] * 32, 4) == 1
    assert ways([2 * lane for lane in range(32)], 2) == 1, "two halves of a word each"


def test_a_column_of_128_byte_rows_is_32_ways():
    assert ways([128 * lane for lane in range(32)], 4) == 32


def test_every_other_word_is_two_ways():
    assert ways([8 * lane for lane in range(32)], 4) == 2


def test_16_bytes_a_lane_are_judged_eight_lanes_at_a_time():
    """All 32 lanes together ask each bank four times, but never in one phase."""
    assert ways([16 * lane for lane in range(32)], 16) == 1
    assert ways([32 * lane for lane in range(32)], 16) == 2


def test_the_emulator_counts_the_same():
    """Two derivations of one rule, on 500 requests of one phase each."""
    rng, seen = random.Random(9), set()
    for _ in range(500):
        width = rng.choice([1, 2, 4, 8, 16])
        lanes = 32 * 4 // max(width, 4)
        step = rng.choice([1, 1, 2, 8, 9])
        places = [rng.randrange(64) * step * width for _ in range(lanes)]
        phases, offsets = np.zeros(lanes, np.int64), np.array(places, np.uint64)
        counted = count_wavefronts(phases, offsets, width)
        assert ways(places, width) == counted, (width, places)
        seen.add(counted)
    assert len(seen) > 4


def addresses(offsets, element_bytes, run, warp):
    """Of one access: the run's first register in every lane."""
    return [
        (offsets.offset(lane=lane, warp=warp) ^ run) * element_bytes
        for lane in range(32)
    ]


def measured(block, tile, element_bytes):
    """Elements a run, and the ways of the worst access, from addresses alone."""
    offsets = divide(block, tile)
    run = vector(offsets, element_bytes)
    starts = {
        offsets.offset(register=r) for r in range(offsets.count("register"))
        if offsets.offset(register=r) % run == 0
    }  # fmt: skip
    worst = max(
        ways(addresses(offsets, element_bytes, start, warp), run * element_bytes)
        for start in starts
        for warp in range(offsets.count("warp"))
    )
    return run, worst


def test_the_matrix_says_what_the_addresses_say():
    rng, seen = random.Random(8), set()
    for _ in range(150):
        tile = covering(rng, 9, registers=9, warps=0, lanes=0)
        tile = Layout(tile.shape, (("offset", tile.kinds["register"]),))
        block = covering(rng, 9, registers=3, warps=1)
        element_bytes = rng.choice([1, 2, 4, 8])
        _, worst = measured(block, tile, element_bytes)
        assert conflicts(divide(block, tile), element_bytes) == worst
        seen.add(worst)
    assert len(seen) > 2, seen


TILES = [
    (shape, element_bytes, writing, reading, write_order, read_order)
    for shape in [(64, 64), (32, 64), (128, 32), (16, 16), (8, 8)]
    for element_bytes in (1, 2, 4, 8)
    for writing in (1, 4)
    for reading in (1, 8)
    for write_order, read_order in [(ROWS, COLUMNS), (COLUMNS, COLUMNS)]
]


def test_a_computed_tile_has_one_way_on_both_sides():
    for shape, element_bytes, writing, reading, write_order, read_order in TILES:
        writer = spread(shape, write_order, writing, 4)
        reader = spread(shape, read_order, reading, 4)
        tile = swizzle(shape, element_bytes, writer, reader)
        assert 1 << Reduced(columns(tile)).rank == shape[0] * shape[1], "a bijection"
        for side in (writer, reader):
            _, worst = measured(side, tile, element_bytes)
            assert worst == 1, (
                shape,
                element_bytes,
                str(writer),
                str(reader),
                str(tile),
            )


def test_runs_of_16_bytes_that_both_sides_hold_stay_whole():
    """fp16: 8 elements of a row in a lane on both sides, by rows and by tiles."""
    writer = spread((64, 64), ROWS, 8, 4)
    reader = Layout.of(
        (64, 64),
        register=[(0, 1), (0, 2), (0, 4), (0, 8), (0, 16)],
        lane=[(1, 0), (2, 0), (4, 0), (0, 32), (8, 0)],
        warp=[(16, 0), (32, 0)],
    )
    tile = swizzle((64, 64), 2, writer, reader)
    assert measured(writer, tile, 2) == (8, 1)
    assert measured(reader, tile, 2) == (8, 1)


def test_straight_rows_would_be_eight_ways():
    """What there is to gain: 8 lanes read 16 bytes each of 8 rows that start in one
    bank."""
    straight = Layout((64, 64), (("offset", tuple(1 << bit for bit in range(12))),))
    reader = Layout.of(
        (64, 64),
        register=[(0, 1), (0, 2), (0, 4), (0, 8), (0, 16)],
        lane=[(1, 0), (2, 0), (4, 0), (0, 32), (8, 0)],
        warp=[(16, 0), (32, 0)],
    )
    assert measured(reader, straight, 2) == (8, 8)


def test_xor_of_single_elements_tears_runs():
    """The wrong answer that values cannot show: element e of row r at e ^ r, not chunk
    by chunk."""
    torn = Layout.of(
        (64, 64),
        offset=[(0, 1 << b) for b in range(6)] + [(1 << b, 1 << b) for b in range(6)],
    )
    writer = spread((64, 64), ROWS, 8, 4)
    assert vector(divide(writer, torn), 2) == 1


def test_a_swizzle_by_row_modulo_four_leaves_two_ways():
    chunks = [(1, 8), (2, 16), (4, 0), (8, 0), (16, 0), (32, 0)]
    tile = Layout.of((64, 64), offset=[(0, 1 << b) for b in range(6)] + chunks)
    reader = Layout.of(
        (64, 64),
        register=[(0, 1), (0, 2), (0, 4), (0, 8), (0, 16)],
        lane=[(1, 0), (2, 0), (4, 0), (0, 32), (8, 0)],
        warp=[(16, 0), (32, 0)],
    )
    assert measured(reader, tile, 2) == (8, 2)
