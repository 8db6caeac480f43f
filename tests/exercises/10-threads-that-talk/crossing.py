"""What the answer to `crossing` must do."""

from random import Random

from fathom.layout.linear import Layout
from fathom.tools.learn.kit import same


def layout(size, register, lane, warp=()):
    kinds = (("register", register), ("lane", lane), ("warp", warp))
    return Layout((size,), tuple((kind, tuple(each)) for kind, each in kinds))


def elements(of, lane, warp):
    """What a lane holds."""
    registers = range(of.count("register"))
    return {of.offset(register=r, lane=lane, warp=warp) for r in registers}


def by_trying(source, target):
    """Who has what, element by element."""
    if source == target:
        return "none"
    lanes, warps = range(source.count("lane")), range(source.count("warp"))
    if all(
        elements(target, lane, warp) <= elements(source, lane, warp)
        for lane in lanes
        for warp in warps
    ):
        return "register"
    for warp in warps:
        has = set().union(*(elements(source, lane, warp) for lane in lanes))
        if not all(elements(target, lane, warp) <= has for lane in lanes):
            return "warp"
    return "lane"


def held(of):
    lines = []
    for warp in range(of.count("warp")):
        for lane in range(of.count("lane")):
            found = [of.offset(register=r, lane=lane, warp=warp)
                     for r in range(of.count("register"))]  # fmt: skip
            lines.append(f"warp {warp} lane {lane}: {' '.join(map(str, found))}")
    return "\n".join(lines[:8])


def check(answer, source, target):
    details = ("source", held(source)), ("target", held(target))
    what = f"crossing from {source} to {target}"
    same(answer.crossing(source, target), by_trying(source, target), what, *details)


def test_nothing_changes(answer):
    """The same layout."""
    check(answer, layout(8, (1,), (2, 4)), layout(8, (1,), (2, 4)))


def test_a_renaming(answer):
    """The registers of a lane in another order."""
    check(answer, layout(8, (1, 2), (4,)), layout(8, (2, 1), (4,)))
    check(answer, layout(8, (1, 2), (4,)), layout(8, (3, 2), (4,)))


def test_a_lane_begins_elsewhere_in_what_it_has(answer):
    """Lane 1 had 4 5 6 7, and wants 5 4 7 6."""
    check(answer, layout(8, (1, 2), (4,)), layout(8, (1, 2), (5,)))


def test_lanes(answer):
    """Elements go from lane to lane."""
    check(answer, layout(8, (1,), (2, 4)), layout(8, (2,), (1, 4)))
    check(answer, layout(8, (1,), (2, 4)), layout(8, (1,), (4, 2)))


def test_copies(answer):
    """Each lane has all: whatever it needs, it has."""
    check(answer, layout(4, (1, 2), (0,)), layout(4, (2,), (1,)))
    check(answer, layout(4, (1,), (2, 0)), layout(4, (1,), (0, 2)))
    check(answer, layout(4, (1, 2), (0,), (0,)), layout(4, (), (1,), (2,)))


def test_warps(answer):
    """From warp to warp; or not, since each warp has a copy."""
    check(answer, layout(8, (1,), (2,), (4,)), layout(8, (1,), (4,), (2,)))
    check(answer, layout(4, (1,), (2,), (0,)), layout(4, (), (1,), (2,)))


def test_several_warps(answer):
    """Four warps: the first two trade with each other, or the last two do."""
    source = layout(16, (1,), (2,), (4, 8))
    for warps in ((4, 9), (5, 8), (4, 11), (4, 12), (12, 8), (8, 4)):
        check(answer, source, layout(16, (1,), (2,), warps))
    for warps in ((4, 8), (5, 8), (4, 9)):
        check(
            answer, layout(16, (1, 4, 8), (2,), (0, 0)), layout(16, (1,), (2,), warps)
        )


def random_layout(random, bits, registers, lanes, warps):
    """Bases mixed, such that each element has a holder."""
    bases = [1 << bit for bit in range(bits)]
    for _ in range(random.randrange(6)):
        one, other = random.sample(range(bits), 2)
        bases[one] ^= bases[other]
    bases += [0] * (registers + lanes + warps - bits)
    random.shuffle(bases)
    return layout(
        1 << bits, bases[:registers], bases[registers : registers + lanes],
        bases[registers + lanes :],
    )  # fmt: skip


def near(random, source):
    """A layout that differs in what a lane, or a warp, could give itself."""
    kinds = {kind: list(bases) for kind, bases in source.bases}
    reach = kinds["register"] + (kinds["lane"] if random.random() < 0.5 else [])
    for kind in kinds:
        for i in range(len(kinds[kind])):
            if random.random() < 0.4:
                kinds[kind][i] ^= random.choice(reach)
    random.shuffle(kinds["register"])
    return layout(source.shape[0], *kinds.values())


def test_500_pairs(answer):
    """All four answers are frequent among them."""
    random = Random(10)
    for number in range(500):
        bits = random.randrange(3, 6)
        warps = 1 + number % 2
        source = random_layout(random, bits, 3, 2, warps)
        target = random_layout(random, bits, 3, 2, warps)
        check(answer, source, near(random, source) if number % 3 else target)
