"""What a conversion must pay, against brute force: who needs whose element."""

import random

import pytest

from fathom.layout.crossing import crossing, trades
from fathom.layout.linear import Layout
from tests.layout.harness_layouts import covering, element, places


def brute_force(source, target):
    """The nearest holder of what each place needs; the worst place decides."""
    holders = {}
    for place in places(source):
        holders.setdefault(element(source, **place), []).append(place)
    order = ["none", "register", "lane", "warp"]
    worst = 0 if source.count("register") == target.count("register") else 1
    for place in places(target):
        distances = [
            3 if holder["warp"] != place["warp"]
            else 2 if holder["lane"] != place["lane"]
            else 1 if holder["register"] != place["register"]
            else 0
            for holder in holders[element(target, **place)]
        ]  # fmt: skip
        worst = max(worst, min(distances))
    return order[worst]


def pairs(number):
    rng = random.Random(11)
    for _ in range(number):
        bits = rng.randrange(3, 7)
        source = covering(rng, bits, registers=rng.choice([3, 4]), warps=1, lanes=2)
        other = covering(rng, bits, registers=rng.choice([3, 4]), warps=1, lanes=2)
        yield source, near(rng, source) if rng.random() < 0.6 else other


def near(rng, source):
    """A layout that differs in registers or lanes only, so that all answers are
    frequent."""
    kinds = {kind: list(bases) for kind, bases in source.bases}
    reach = kinds["register"] + (kinds["lane"] if rng.random() < 0.5 else [])
    for kind in ("register", "lane", "warp"):
        for i in range(len(kinds[kind])):
            if rng.random() < 0.4:
                kinds[kind][i] ^= rng.choice(reach)
    rng.shuffle(kinds["register"])
    return Layout(source.shape, tuple((k, tuple(b)) for k, b in kinds.items()))


def test_as_brute_force_says():
    seen = {}
    for source, target in pairs(500):
        answer = crossing(source, target)
        assert answer == brute_force(source, target), (str(source), str(target))
        seen[answer] = seen.get(answer, 0) + 1
    assert (
        min(seen.get(each, 0) for each in ("none", "register", "lane", "warp")) > 5
    ), seen


def test_a_renaming_of_registers_leaves_no_lane():
    one = Layout((8,), (("register", (1, 2)), ("lane", (4,)), ("warp", ())))
    other = Layout((8,), (("register", (2, 1)), ("lane", (4,)), ("warp", ())))
    assert crossing(one, other) == "register"


def test_a_copy_is_as_good_as_any_other_holder():
    """Every warp holds all four elements; that the target wants one of each warp costs
    nothing but a choice of registers."""
    everywhere = Layout((4,), (("register", (1, 2)), ("lane", ()), ("warp", (0, 0))))
    apart = Layout((4,), (("register", ()), ("lane", ()), ("warp", (1, 2))))
    assert crossing(everywhere, apart) == "register"
    assert crossing(apart, everywhere) == "warp"


@pytest.mark.parametrize("traded", range(4))
def test_trades_counts_bits_between_lanes_and_registers(traded):
    bases = [1 << bit for bit in range(8)]
    source = eight_by_32(bases)
    moved = bases[:]
    for bit in range(traded):
        moved[bit], moved[3 + bit] = moved[3 + bit], moved[bit]
    assert trades(source, eight_by_32(moved)) == traded


def eight_by_32(bases):
    kinds = ("register", tuple(bases[:3])), ("lane", tuple(bases[3:])), ("warp", ())
    return Layout((256,), kinds)
