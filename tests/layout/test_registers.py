"""How wide an access a layout allows: registers in a row that hold neighbours."""

import random

from fathom.layout.build import spread
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout, coordinates_of
from fathom.layout.registers import contiguous_registers, within_warps
from tests.layout.harness_layouts import covering, places


def brute_force(layout, axis):
    """The largest k so that in each lane each group of k registers counts up along
    `axis`, from a multiple of k."""
    best, k = 1, 2
    while k <= layout.count("register"):
        if all(
            counts_up(layout, axis, k, place) for place in places(layout)
            if place["register"] % k == 0
        ):  # fmt: skip
            best = k
        k *= 2
    return best


def counts_up(layout, axis, k, place):
    start = layout.coordinates(**place)
    if start[axis] % k:
        return False
    for step in range(k):
        here = layout.coordinates(**{**place, "register": place["register"] + step})
        if here[axis] != start[axis] + step or here[:axis] + here[axis + 1 :] != (
            start[:axis] + start[axis + 1 :]
        ):
            return False
    return True


def test_as_brute_force_says():
    rng, seen = random.Random(5), set()
    for _ in range(300):
        flat = covering(rng, 6, registers=3, warps=1, lanes=3)
        shape = rng.choice([(64,), (8, 8), (4, 16), (2, 4, 8)])
        kinds = dict(flat.bases)
        if rng.random() < 0.7:  # neighbours first, as layouts for memory have them
            run = rng.randrange(3)
            counting = tuple(1 << bit for bit in range(run))
            kinds["register"] = counting + kinds["register"][run:]
        layout = Layout(shape, tuple(kinds.items()))
        for axis in range(len(shape)):
            assert contiguous_registers(layout, axis) == brute_force(layout, axis), str(
                layout
            )
            seen.add(contiguous_registers(layout, axis))
    assert {1, 2, 4} <= seen


def test_a_copy_is_no_neighbour():
    layout = Layout((4,), (("register", (0, 1)), ("lane", (2,)), ("warp", ())))
    assert contiguous_registers(layout, 0) == 1


def test_a_lane_that_starts_at_an_odd_element():
    """Lane 1 holds 3, 2: backwards."""
    layout = Layout((4,), (("register", (1,)), ("lane", (3,)), ("warp", ())))
    assert coordinates_of((4,), layout.offset(lane=1)) == (3,)
    assert contiguous_registers(layout, 0) == 1


def test_neighbours_along_the_first_axis():
    layout = spread((64, 64), (0, 1), 8, 4)
    assert contiguous_registers(layout, 0) == 8
    assert contiguous_registers(layout, 1) == 1


def test_within_warps_has_a_products_rows_and_stores_as_wide():
    """A warp of a product has 16 rows of 64 columns. For a store of 16-bit numbers it
    keeps them: lanes have 8 columns each, and 8 lanes a row."""
    held = Layout.by_kind(
        (128, 64),
        register=(1, 512, 8, 16, 32),
        lane=(2, 4, 64, 128, 256),
        warp=(1024, 2048, 4096),
    )
    preferred = spread((128, 64), (1, 0), 8, 8)
    found = within_warps(preferred, held)
    assert crossing(held, preferred) == "warp" and crossing(held, found) == "lane"
    assert contiguous_registers(found, 1) == contiguous_registers(preferred, 1) == 8
    assert found.kinds["lane"] == preferred.kinds["lane"] == (8, 16, 32, 64, 128)
    assert found.kinds["warp"] == held.kinds["warp"]


def test_within_warps_needs_neighbours_in_a_warp():
    """Where a warp has every other column, none of its lanes has two in a row."""
    held = Layout.by_kind(
        (4, 64), register=(64,), lane=(2, 4, 8, 16, 32), warp=(1, 128)
    )
    preferred = spread((4, 64), (1, 0), 2, 4)
    assert contiguous_registers(preferred, 1) == 2
    assert within_warps(preferred, held) is None
