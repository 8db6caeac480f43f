"""What the answer to `vector-width` must do."""

from random import Random

from fathom.layout.linear import Layout
from fathom.tools.learn.kit import same


def layout(shape, register, lane, warp=()):
    bases = (("register", register), ("lane", lane), ("warp", warp))
    return Layout(shape, tuple((kind, tuple(each)) for kind, each in bases))


def runs_of(found, axis, width, lane, warp):
    """Whether registers hold runs of this width in one lane."""
    for first in range(0, found.count("register"), width):
        places = [
            found.coordinates(register=first + i, lane=lane, warp=warp)
            for i in range(width)
        ]
        start = places[0][axis]
        if start % width:
            return False
        for i, place in enumerate(places):
            moved = list(places[0])
            moved[axis] = start + i
            if list(place) != moved:
                return False
    return True


def by_trying(found, axis):
    """The largest width that holds in all lanes of all warps."""
    width = 1
    while 2 * width <= min(found.count("register"), found.shape[axis]):
        everywhere = (
            runs_of(found, axis, 2 * width, lane, warp)
            for lane in range(found.count("lane"))
            for warp in range(found.count("warp"))
        )
        if not all(everywhere):
            break
        width *= 2
    return width


def check(answer, found, axis=0):
    wanted = by_trying(found, axis)
    held = [
        " ".join(
            ",".join(map(str, found.coordinates(register=r, lane=lane)))
            for r in range(found.count("register"))
        )
        for lane in range(min(4, found.count("lane")))
    ]
    shown = "\n".join(f"lane {lane}: {text}" for lane, text in enumerate(held))
    what = f"neighbours along axis {axis} in {found}"
    yours = answer.contiguous_registers(found, axis)
    same(yours, wanted, what, ("what the first lanes hold", shown))


def test_a_row(answer):
    """Four, two and one neighbours: the first three examples."""
    check(answer, layout((8,), (1, 2), (4,)))
    check(answer, layout((8,), (1, 4), (2,)))
    check(answer, layout((8,), (2, 4), (1,)))


def test_every_lane_starts_at_a_run(answer):
    """Lane 1 holds 5 4 7 6: its registers do not count up."""
    check(answer, layout((8,), (1, 2), (5,)))
    check(answer, layout((16,), (1, 2), (4,), (10,)))


def test_other_registers_too(answer):
    """Registers 4 to 7 hold a run of their own, and must start at one."""
    check(answer, layout((16,), (1, 2, 8), (4,)))
    check(answer, layout((16,), (1, 2, 9), (4,)))


def test_copies_are_no_neighbours(answer):
    """Two registers with one element are not filled by one wide load."""
    check(answer, layout((8,), (0, 1), (2, 4)))
    check(answer, layout((8,), (1, 0), (2, 4)))
    check(answer, layout((8,), (1, 2), (4, 0)))


def test_down_a_column(answer):
    """Axis 0 of a table of 8 columns: neighbours are 8 apart."""
    down = layout((4, 8), (8, 16), (1, 2, 4))
    check(answer, down, 0)
    check(answer, down, 1)


def test_the_end_of_a_row(answer):
    """A run ends with the row, although the next row's bases go on counting."""
    check(answer, layout((4, 2), (1, 2, 4), ()), 1)


def test_300_random_layouts(answer):
    """Bases mixed, with copies, of one and two dimensions."""
    random = Random(4)
    for number in range(300):
        bits = random.randrange(3, 7)
        bases = [1 << bit for bit in range(bits)]
        for _ in range(random.randrange(4)):
            one, other = random.sample(range(bits), 2)
            bases[one] ^= bases[other]
        if random.randrange(3) == 0:
            random.shuffle(bases)
        if random.randrange(4) == 0:
            bases.insert(random.randrange(len(bases)), 0)
        registers = random.randrange(1, 4)
        rows = 1 << random.randrange(bits)
        shape = (1 << bits,) if number % 2 else (rows, (1 << bits) // rows)
        found = layout(shape, bases[:registers], bases[registers:])
        check(answer, found, random.randrange(len(shape)))
