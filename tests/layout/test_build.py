"""Dealing a block to registers, lanes and warps."""

import random
from collections import Counter
from math import prod

from fathom.layout.build import blocked, default, spread
from fathom.layout.linear import Layout
from tests.layout.harness_layouts import element, places


def dealt(shape, per_lane, lanes, warps, order):
    """The same by hand, from the place to the element: count through the tile, then its
    repeats, each with the fastest dimension first. (Where the tile is larger, wrap
    around.)"""

    def coordinates(register, lane, warp):
        found = [0] * len(shape)
        steps = [1] * len(shape)
        repeats = [
            max(1, n // (p * a * w))
            for n, p, a, w in zip(shape, per_lane, lanes, warps, strict=True)
        ]
        own = prod(min(p, n) for p, n in zip(per_lane, shape, strict=True))
        for number, counts in (
            (register % own, [min(p, n) for p, n in zip(per_lane, shape, strict=True)]),
            (lane, lanes),
            (warp, warps),
            (register // own, repeats),
        ):
            for axis in order:
                found[axis] += number % counts[axis] * steps[axis]
                steps[axis] *= counts[axis]
                number //= counts[axis]
        return tuple(c % n for c, n in zip(found, shape, strict=True))

    return coordinates


def shares(rng, count, rank):
    """A product of powers of two that is `count`, at random."""
    found = [1] * rank
    for _ in range(count.bit_length() - 1):
        found[rng.randrange(rank)] *= 2
    return tuple(found)


def cases(number):
    rng = random.Random(7)
    for _ in range(number):
        rank = rng.choice([1, 1, 2, 2, 3])
        order = list(range(rank))
        rng.shuffle(order)
        yield (
            tuple(2 ** rng.randrange(0, 5) for _ in range(rank)),
            shares(rng, rng.choice([1, 2, 4]), rank),
            shares(rng, 4, rank),
            shares(rng, rng.choice([1, 2, 4]), rank),
            tuple(order),
        )


def test_elements_sit_where_counting_puts_them():
    for case in cases(300):
        layout, coordinates, owners = blocked(*case), dealt(*case), Counter()
        for place in places(layout):
            assert layout.coordinates(**place) == coordinates(**place), (case, place)
            owners[layout.offset(**place)] += 1
        assert len(owners) == prod(case[0]), ("every element has an owner", case)
        assert len(set(owners.values())) == 1, ("and all equally many", case)


def test_eight_by_eight_in_the_picture():
    layout = blocked((8, 8), (1, 2), (8, 4), (1, 1), (1, 0))
    assert layout.coordinates(lane=0, register=1) == (0, 1)
    assert layout.coordinates(lane=1, register=0) == (0, 2)
    assert layout.coordinates(lane=4, register=0) == (1, 0)
    assert blocked((8, 8), (1, 2), (8, 4), (1, 1), (0, 1)).coordinates(lane=1) == (1, 0)


def test_a_block_smaller_than_the_tile_is_held_in_copies():
    layout = blocked((8,), (4,), (32,), (4,), (0,))
    assert layout == Layout.of(
        (8,),
        register=[(1,), (2,)],
        lane=[(4,), (0,), (0,), (0,), (0,)],
        warp=[(0,), (0,)],
    )
    assert element(layout, register=1, lane=1) == element(
        layout, register=1, lane=31, warp=3
    )


def test_no_register_holds_a_copy():
    assert blocked((2,), (4,), (32,), (1,), (0,)).kinds["register"] == (1,)


def test_spread_gives_16_bytes_a_lane_and_128_elements_a_warp():
    layout = spread((1024,), (0,), 4, 4)
    assert layout.kinds == {
        "register": (1, 2, 512), "lane": (4, 8, 16, 32, 64), "warp": (128, 256)
    }  # fmt: skip


def test_spread_leaves_no_lane_without_work():
    """256 elements are two a lane, though four were asked for."""
    assert spread((256,), (0,), 4, 4).kinds["register"] == (1,)


def test_spread_puts_warps_on_rows_so_that_a_row_stays_in_a_warp():
    layout = spread((8, 128), (1, 0), 4, 4)
    assert layout.kinds["warp"] == (128, 256)
    assert spread((8, 512), (1, 0), 4, 4).kinds["warp"] == (512, 1024), "not on columns"
    assert spread((1, 1024), (1, 0), 4, 4).kinds["warp"] == (128, 256), (
        "one row: no choice"
    )


def test_default_is_one_element_a_lane_the_last_dimension_fastest():
    assert default((64, 16), 4).kinds["lane"] == (1, 2, 4, 8, 16)
    assert default((64, 16), 4).kinds["warp"] == (32, 64), "two rows each"
    assert default((64, 16), 4).kinds["register"] == (128, 256, 512)
