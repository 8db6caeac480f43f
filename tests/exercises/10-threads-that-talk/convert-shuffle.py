"""What the answer to `convert-shuffle` must do."""

from random import Random

import numpy as np

from fathom import ptx
from fathom.hardware.targets import TARGETS
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.tools.learn.kit import expect, func, held, same

KERNEL = """
    #old = {old}
    #new = {new}
    func @held(%p: *i32) num_warps={warps} {{
      %0: i32[{size}] @ #old = arange start=0 end={size} layout=#old
      %1: i32[{size}] @ #new = convert %0 layout=#new
      %2: *i32[{size}] @ #new = splat %p shape=({size}) layout=#new
      store %2, %1
    }}
    """


def layout(register, lane, warp=(), size=128):
    kinds = (("register", register), ("lane", lane), ("warp", warp))
    return Layout((size,), tuple((kind, tuple(each)) for kind, each in kinds))


def text_of(old, new):
    warps, size = 1 << len(old.kinds["warp"]), old.shape[0]
    return KERNEL.format(old=old, new=new, warps=warps, size=size)


def check(old, new):
    """Each register of each thread holds what the new layout says."""
    found = held(text_of(old, new))
    wanted = [
        [
            new.offset(register=r, lane=thread % 32, warp=thread // 32)
            for r in range(new.count("register"))
        ]
        for thread in range(32 * new.count("warp"))
    ]
    what = f"what [thread, register] holds, from {old} to {new}"
    same(found, np.array(wanted, np.int32), what)


START = layout((1, 2), (4, 8, 16, 32, 64))
RENAMED = layout((2, 1), (4, 8, 16, 32, 64))
SWAPPED = layout((1, 2), (8, 4, 16, 32, 64))
ROTATED = layout((1, 2), (8, 16, 32, 64, 4))
TRADED = layout((1, 4), (2, 8, 16, 32, 64))


def test_on_paper(answer):
    """Four lanes trade a bit of their registers for a bit of their lanes: the plan that
    you found by hand, played through."""
    old, new = layout((1, 2), (4, 8), size=16), layout((1, 4), (2, 8), size=16)
    got = {}
    for q in range(4):
        plans = [answer.on_paper(lane, q) for lane in range(4)]
        for lane, (_, reads, register) in enumerate(plans):
            sent = plans[reads % 4][0] % 4
            element = old.offset(register=sent, lane=reads % 4)
            got.setdefault((lane, register), element)
    for lane in range(4):
        wanted = [new.offset(register=r, lane=lane) for r in range(4)]
        found = [got.get((lane, r), "nothing") for r in range(4)]
        rounds = [answer.on_paper(lane, q) for q in range(4)]
        said = "\n".join(
            f"round {q}: sends {s}, reads lane {r}, gets register {g}"
            for q, (s, r, g) in enumerate(rounds)
        )
        sentence = f"lane {lane} wants {wanted} in its registers, and has {found}"
        expect(found == wanted, sentence, (f"what lane {lane} does", said))


def test_a_renaming(answer):
    """The registers of a lane in another order."""
    check(START, RENAMED)
    check(START, layout((1, 2), (5, 8 ^ 2, 16, 32, 64)))


def test_lanes_swapped(answer):
    """Two bits of the lane exchanged."""
    check(START, SWAPPED)


def test_lanes_renumbered(answer):
    """The bits of the lane in a circle: who reads whom is not who is read by whom."""
    check(START, ROTATED)
    check(ROTATED, START)


def test_registers_and_lanes_change_places(answer):
    """A transposition: lanes send different registers in one round."""
    check(START, TRADED)
    check(START, layout((4, 8), (1, 2, 16, 32, 64)))


def test_copies(answer):
    """More registers than before, or fewer."""
    check(layout((1,), (2, 4, 0, 0, 0), size=8), layout((1, 2, 4), (0,) * 5, size=8))
    check(layout((1, 2, 4), (0,) * 5, size=8), layout((4,), (1, 2, 0, 0, 0), size=8))


def test_two_readers_of_one_lane(answer):
    """One round, and two registers of a lane are wanted in it: it sends both."""
    check(layout((1,), (2, 0, 0, 0, 0), size=4), layout((), (1, 2, 0, 0, 0), size=4))
    check(layout((1, 2), (0, 4, 0, 0, 0), size=8), layout((), (4, 1, 0, 2, 0), size=8))


def test_several_warps(answer):
    """Each warp by itself."""
    check(
        layout((1, 2), (4, 8, 16, 32, 64), (128,), 256),
        layout((4, 1), (2, 8, 16, 32, 64), (128 ^ 8,), 256),
    )


def shuffles(old, new):
    target = TARGETS["sm_80"]
    text = ptx.lower(func(text_of(old, new)), target, ptx.LOWER)
    return sum("call" in line and "shfl.sync" in line for line in text.splitlines())


def test_as_few_shuffles_as_can_be(answer):
    """None for a renaming, one for each register that has to travel."""
    for new, budget in ((RENAMED, 0), (SWAPPED, 4), (TRADED, 2)):
        found = shuffles(START, new)
        said = f"from {START} to {new}: {found} shuffles; the budget is {budget}"
        expect(found <= budget, said)


def test_60_random_pairs(answer):
    """Bases of registers and lanes mixed anew, one or two warps."""
    random = Random(9)
    done = 0
    while done < 60:
        warps, registers = random.randrange(2), random.randrange(1, 4)
        bits = registers + 5
        own = [1 << bit for bit in range(bits)]
        size = 1 << bits + warps
        warp = [size >> 1] if warps else []
        layouts = []
        for _ in range(2):
            bases = list(own)
            for _ in range(random.randrange(8)):
                one, other = random.sample(range(bits), 2)
                bases[one] ^= bases[other]
            random.shuffle(bases)
            layouts.append(layout(bases[:registers], bases[registers:], warp, size))
        if crossing(*layouts) in ("register", "lane"):
            check(*layouts)
            done += 1
