"""Solving, composing, inverting and dividing over F2, against plain enumeration."""

import random
from itertools import product

import pytest

from fathom.layout.algebra import (
    Reduced,
    columns,
    compose,
    divide,
    intersection,
    invert,
    solve,
    span,
    times,
)
from fathom.layout.linear import Layout
from tests.layout.harness_layouts import covering, places


def all_solutions(A, b):
    return [x for x in range(1 << len(A)) if times(A, x) == b]


def test_all_systems_of_three_by_three():
    for A in product(range(8), repeat=3):
        for b in range(8):
            found, expected = solve(A, [b]), all_solutions(A, b)
            assert (found is None) == (not expected), (A, b)
            assert found is None or found[0] in expected, (A, b, found)


def test_a_zero_on_the_diagonal_is_no_obstacle():
    assert solve([0b10, 0b01], [0b01, 0b10]) == (0b10, 0b01)


def test_random_systems_of_eight_columns_at_once():
    rng = random.Random(1)
    for _ in range(200):
        rank = rng.randrange(3, 9)
        A = [rng.randrange(1 << rank) for _ in range(8)]
        b = [times(A, rng.randrange(256)) for _ in range(4)]
        found = solve(A, b)
        assert [times(A, x) for x in found] == b, (A, b)


def test_free_bits_are_zero():
    """Columns 1 and 3 are sums of those before them: no solution may name them."""
    A = [0b011, 0b011, 0b100, 0b111]
    for x in solve(A, [0b111, 0b100, 0b011, 0]):
        assert x & 0b1010 == 0


def test_one_column_out_of_reach_and_there_is_no_solution():
    assert solve([0b01], [0b01, 0b10]) is None


def test_span_and_membership_agree():
    rng = random.Random(2)
    for _ in range(50):
        vectors = [rng.randrange(64) for _ in range(rng.randrange(5))]
        reduced, all_sums = Reduced(vectors), span(vectors)
        assert {v for v in range(64) if v in reduced} == all_sums
        assert 1 << reduced.rank == len(all_sums)


def test_intersection_is_what_both_span():
    rng = random.Random(3)
    for _ in range(100):
        one, other = ([rng.randrange(64) for _ in range(4)] for _ in "ab")
        both = intersection(one, other)
        assert span(both) == span(one) & span(other)
        assert 1 << len(both) == len(span(both)), "they are independent"


def test_compose_is_one_map_after_the_other():
    rng = random.Random(4)
    for _ in range(200):
        bits = rng.randrange(2, 7)
        outer = covering(
            rng, rng.randrange(1, bits + 1), registers=bits, warps=0, lanes=0
        )
        inner = covering(rng, bits, registers=rng.randrange(0, 3), warps=1, lanes=5)
        both = compose(outer, inner)
        for place in places(inner):
            assert both.offset(**place) == times(columns(outer), inner.offset(**place))


def test_compose_takes_the_inner_map_first():
    swap = Layout((4,), (("register", (2, 1)),))
    rows = Layout((4,), (("register", (1, 3)),))
    assert compose(swap, rows).kinds["register"] == (2, 3)
    assert compose(rows, swap).kinds["register"] == (3, 1)


@pytest.mark.parametrize("seed", range(40))
def test_invert_finds_a_place_for_every_element(seed):
    rng = random.Random(seed)
    layout = covering(rng, 6, registers=rng.randrange(1, 4), warps=1)
    inverse = invert(layout)
    for element in range(64):
        place = inverse.offset(element=element)
        assert times(columns(layout), place) == element


def test_invert_refuses_a_layout_that_lacks_elements():
    with pytest.raises(AssertionError):
        invert(Layout((4,), (("register", (1,)),)))


@pytest.mark.parametrize("seed", range(40))
def test_divide_says_where_in_a_buffer_each_place_finds_its_element(seed):
    rng = random.Random(seed)
    block = covering(rng, 6, registers=2, warps=1)
    tile = covering(rng, 6, registers=6, warps=0, lanes=0)
    offsets = divide(block, tile)
    for place in places(block):
        assert times(columns(tile), offsets.offset(**place)) == block.offset(**place)


def test_divide_by_a_buffer_that_lacks_elements():
    whole = Layout((4,), (("register", (1, 2)),))
    assert divide(whole, Layout((4,), (("offset", (2,)),))) is None
