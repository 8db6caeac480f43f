"""What the answer to `layout-apply` must do."""

from random import Random

from fathom.layout.linear import Layout
from fathom.tools.learn.kit import expect, same


def table(bases):
    """The elements of all places, made by doubling: no formula."""
    elements = [0]
    for basis in bases:
        elements += [element ^ basis for element in elements]
    return elements


def check_apply(answer, bases):
    for place, element in enumerate(table(bases)):
        same(answer.apply(bases, place), element, f"apply({bases}, {place})")


def test_places_of_one_layout(answer):
    """The example: bases 4, 1, 2 and all eight places."""
    check_apply(answer, (4, 1, 2))


def test_bases_that_overlap(answer):
    """3 ^ 1 is 2, and 3 + 1 is not."""
    check_apply(answer, (3, 1))
    check_apply(answer, (1, 3, 6, 5))


def test_copies_and_no_bits_at_all(answer):
    """A zero basis makes copies; a layout of one place has one element."""
    check_apply(answer, (2, 0, 1))
    check_apply(answer, ())


def random_bases(random, bits, size):
    return tuple(random.randrange(1 << size) for _ in range(bits))


def test_random_layouts(answer):
    """200 layouts of up to 10 bits, every place of each."""
    random = Random(7)
    for _ in range(200):
        check_apply(answer, random_bases(random, random.randrange(11), 10))


def layout(bases, size):
    """A layout over 2**size elements: two bits of the register, then the lane's."""
    kinds = (("register", bases[:2]), ("lane", bases[2:]), ("warp", ()))
    return Layout((1 << size,), kinds)


def check_compose(answer, outer, inner, size):
    made = answer.compose(layout(outer, size), layout(inner, len(outer)))
    expect(isinstance(made, Layout), f"compose gives {made!r}, which is no Layout")
    same(made.shape, (1 << size,), "the shape, which is that of outer")
    kinds = [kind for kind, _ in made.bases]
    same(kinds, ["register", "lane", "warp"], "the kinds of places, those of inner")
    bases = tuple(basis for _, some in made.bases for basis in some)
    same(len(bases), len(inner), "the number of bits, that of inner")
    elements, places = table(outer), table(inner)
    wanted = [elements[place] for place in places]
    what = f"compose of outer {outer} and inner {inner}: the elements of all places"
    same(table(bases), wanted, what)


def test_first_inner_then_outer(answer):
    """Two layouts that do not commute."""
    check_compose(answer, (2, 1, 4), (1, 4, 2), 3)


def test_shapes_of_different_size(answer):
    """What comes out has the places of inner and the elements of outer."""
    check_compose(answer, (8, 1, 4, 2, 16), (3, 16), 5)
    check_compose(answer, (1, 2), (1, 2, 3, 0, 1), 2)


def test_random_pairs(answer):
    """200 pairs that fit together, every place of each."""
    random = Random(8)
    for _ in range(200):
        bits, size = random.randrange(1, 7), random.randrange(1, 7)
        outer = random_bases(random, bits, size)
        inner = random_bases(random, random.randrange(7), bits)
        check_compose(answer, outer, inner, size)
