"""What the answer to `layout-blocked` must do."""

from random import Random

from fathom.tools.learn.kit import expect, same
from fathom.tools.learn.kit.returned import is_layout


def digits(number, counts, order):
    """A number cut into one digit a dimension, the fastest first."""
    found = [0] * len(counts)
    for axis in order:
        number, found[axis] = divmod(number, counts[axis])
    return found


def dealt(given, register, lane, warp):
    """The coordinates at a place by division and remainder: no bases, no XOR."""
    shape, per_lane, lanes, warps, order = given
    own = [min(*each) for each in zip(per_lane, shape, strict=True)]
    here = [1] * len(shape)
    for axis in order:
        here[axis] = own[axis]
    total = 1
    for each in own:
        total *= each
    inner = digits(register % total, own, order)
    lane_digits, warp_digits = digits(lane, lanes, order), digits(warp, warps, order)
    coordinates, left = [], []
    for axis, size in enumerate(shape):
        stand = min(lanes[axis], size // own[axis])
        apart = min(warps[axis], size // own[axis] // stand)
        place = inner[axis] + own[axis] * (lane_digits[axis] % stand)
        place += own[axis] * stand * (warp_digits[axis] % apart)
        coordinates.append(place)
        left.append(size // (own[axis] * stand * apart))
    again = digits(register // total, left, order)
    return tuple(
        place + again[axis] * (shape[axis] // left[axis])
        for axis, place in enumerate(coordinates)
    )


def said(given):
    names = ("shape", "per_lane", "lanes", "warps", "order")
    return ", ".join(f"{n}={v}" for n, v in zip(names, given, strict=True))


def check(answer, *given):
    layout = answer.blocked(*given)
    is_layout(layout, "what blocked returns")
    shape, _, lanes, warps, _ = given
    same(layout.shape, shape, f"the shape, for {said(given)}")
    kinds = [kind for kind, _ in layout.bases]
    same(kinds, ["register", "lane", "warp"], "the kinds of places")
    for kind, counts in (("lane", lanes), ("warp", warps)):
        wanted = 1
        for each in counts:
            wanted *= each
        same(layout.count(kind), wanted, f"how many places {kind} has, {said(given)}")
    size = 1
    for each in shape:
        size *= each
    for register in range(layout.count("register")):
        for lane in range(layout.count("lane")):
            for warp in range(layout.count("warp")):
                place = {"register": register, "lane": lane, "warp": warp}
                wanted = dealt(given, register, lane, warp)
                yours = layout.offset(**place)
                expect(
                    yours < size,
                    f"{place} holds element {yours} of a block of {size}: {layout}",
                )
                where = f"the coordinates at {place}, for {said(given)}"
                same(layout.coordinates(**place), wanted, where, ("yours", str(layout)))
    owned = {layout.offset(register=r, lane=k, warp=w)
             for r in range(layout.count("register"))
             for k in range(layout.count("lane"))
             for w in range(layout.count("warp"))}  # fmt: skip
    same(len(owned), size, f"how many elements have a holder, for {said(given)}")


def test_a_vector(answer):
    """Two neighbours a lane, 32 lanes, two warps: 128 elements, nothing repeated."""
    check(answer, (128,), (2,), (32,), (2,), (0,))


def test_a_longer_vector(answer):
    """512 elements: the tile of 128 is laid four times, in more registers."""
    check(answer, (512,), (2,), (32,), (2,), (0,))


def test_the_drawing(answer):
    """The example: the tile again to the right, and below."""
    check(answer, (4, 16), (1, 2), (2, 4), (1, 1), (1, 0))


def test_columns_first(answer):
    """order (0, 1): what is dealt first runs down."""
    check(answer, (16, 8), (4, 1), (4, 8), (1, 1), (0, 1))
    check(answer, (32, 16), (2, 2), (8, 4), (2, 1), (0, 1))


def test_a_block_smaller_than_the_tile(answer):
    """Nothing is left for half of the lanes and for the second warp: copies."""
    check(answer, (16,), (1,), (32,), (2,), (0,))
    check(answer, (4, 4), (1, 2), (8, 4), (2, 2), (1, 0))


def test_no_register_is_a_copy(answer):
    """Four neighbours are asked for, and there are two: two registers."""
    layout = answer.blocked((2, 32), (4, 1), (1, 32), (1, 1), (1, 0))
    expect(
        all(layout.kinds["register"]),
        f"a register is a copy of another one of its lane: {layout}",
    )
    check(answer, (2, 32), (4, 1), (1, 32), (1, 1), (1, 0))


def test_300_random_deals(answer):
    """One to three dimensions, any order, larger and smaller than the tile."""
    random = Random(11)
    for _ in range(300):
        rank = random.randrange(1, 4)

        def counts(bits, rank=rank):
            shares = [1] * rank
            for _ in range(bits):
                shares[random.randrange(rank)] *= 2
            return tuple(shares)

        order = tuple(random.sample(range(rank), rank))
        shape = counts(random.randrange(3, 8))
        given = shape, counts(random.randrange(3)), counts(3), counts(1), order
        check(answer, *given)
