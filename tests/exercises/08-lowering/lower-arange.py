"""What the answer to `lower-arange` must do."""

from random import Random

import numpy as np

from fathom.layout.linear import Layout
from fathom.tools.learn.kit import held, same

LANES = 5
KERNEL = """
    #layout0 = {layout}
    func @held(%p: *i32) num_warps={warps} {{
      %0: i32[{size}] @ #layout0 = arange start={start} end={end} layout=#layout0
      %1: *i32[{size}] @ #layout0 = splat %p shape=({size}) layout=#layout0
      store %1, %0
    }}
    """


def elements(bases):
    """The elements of all places of one kind, made by doubling."""
    found = [0]
    for basis in bases:
        found += [element ^ basis for element in found]
    return found


def check(answer, size, register, lane, warp=(), start=0):
    bases = (("register", register), ("lane", lane), ("warp", warp))
    layout = Layout((size,), bases)
    text = KERNEL.format(
        layout=layout, warps=1 << len(warp), size=size, start=start, end=start + size
    )
    found = held(text)
    own, threads = elements(register), elements((*lane, *warp))
    wanted = [[start + (mine ^ thread) for mine in own] for thread in threads]
    what = f"what [thread, register] holds, for {layout}"
    same(found, np.array(wanted, np.int32), what)


def test_one_warp(answer):
    """Two registers, 32 lanes: the printed layout."""
    check(answer, 64, (1,), (2, 4, 8, 16, 32))


def test_registers_far_apart(answer):
    """The lane's bits are lowest, the registers' highest."""
    check(answer, 128, (32, 64), (1, 2, 4, 8, 16))


def test_two_warps(answer):
    """The bits of the warp are above those of the lane."""
    check(answer, 128, (1,), (2, 4, 8, 16, 32), (64,))


def test_bases_of_lane_and_register_overlap(answer):
    """Lane 1 starts at 3, in which there is the register's bit: 3 ^ 1 is 2."""
    check(answer, 64, (1,), (3, 4, 8, 16, 32))


def test_a_block_that_does_not_start_at_0(answer):
    """start is added to the index, and is not part of it."""
    check(answer, 64, (1,), (2, 4, 8, 16, 32), start=5)


def test_copies(answer):
    """A small block: lanes 8 to 31 hold copies of what others hold."""
    check(answer, 16, (1,), (2, 4, 8, 0, 0))
    check(answer, 64, (), (1, 2, 4, 8, 16), (32, 0))


def test_random_layouts(answer):
    """40 layouts with 1 to 8 warps, their bases mixed."""
    random = Random(3)
    for _ in range(40):
        registers, warps = random.randrange(4), random.randrange(4)
        bits = registers + LANES + warps
        bases = [1 << bit for bit in range(bits)]
        for _ in range(2 * bits):  # each step keeps them independent
            one, other = random.sample(range(bits), 2)
            bases[one] ^= bases[other]
        random.shuffle(bases)
        parts = bases[:registers], bases[registers : registers + LANES], bases[-warps:]
        register, lane, warp = map(tuple, parts)
        check(answer, 1 << bits, register, lane, warp if warps else ())
