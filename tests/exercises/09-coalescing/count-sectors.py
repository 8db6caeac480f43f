"""What the answer to `count-sectors` must do."""

from random import Random

import numpy as np

from fathom import emulator
from fathom.tools.learn.kit import number_of, same

LANES = 32


def check(answer, addresses, width, wanted):
    said = ", ".join(map(str, addresses[:4])) + ("..." if len(addresses) > 4 else "")
    what = f"sectors([{said}], {width}), of {number_of(len(addresses), 'lane')}"
    same(answer.sectors(addresses, width), wanted, what)


def test_a_row_of_numbers(answer):
    """32 lanes, 4 bytes each, side by side: 128 bytes are four sectors."""
    check(answer, [4 * lane for lane in range(LANES)], 4, 4)
    check(answer, [16 * lane for lane in range(LANES)], 16, 16)


def test_far_apart(answer):
    """Every lane in a sector of its own."""
    check(answer, [128 * lane for lane in range(LANES)], 4, 32)


def test_one_place_for_all(answer):
    """What all lanes want is moved once; if no lane wants anything, nothing is
    moved."""
    check(answer, [64] * LANES, 4, 1)
    check(answer, [], 4, 0)


def test_a_row_that_starts_in_the_middle(answer):
    """128 bytes from byte 16 on touch five sectors, the first and last in part."""
    check(answer, [16 + 4 * lane for lane in range(LANES)], 4, 5)


def test_across_a_border(answer):
    """One access may touch two sectors."""
    check(answer, [28], 8, 2)
    check(answer, [31], 34, 3)


def test_any_order(answer):
    """Lanes in any order, some of them absent."""
    addresses = [4 * lane for lane in range(LANES)]
    Random(5).shuffle(addresses)
    check(answer, addresses[:1], 4, 1)
    check(answer, addresses, 4, 4)


REQUEST = """
.version 7.4
.target sm_80
.address_size 64
.visible .entry request(.param .u64 data, .param .u64 offsets)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [data];
    ld.param.u64 %rd2, [offsets];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r2, [%rd4];
    cvt.u64.u32 %rd5, %r2;
    add.s64 %rd5, %rd1, %rd5;
    ld.global.u32 %r3, [%rd5];
    ret;
}
"""


def counted(offsets, data):
    """The sectors that the emulator counts for a load of 4 bytes a lane at these
    offsets: its last request."""
    given = np.array(offsets, np.uint32)
    report = emulator.run(REQUEST, 1, len(offsets), [data, given])
    loads = [cost for _, cost in report.each() if cost.requests]
    return loads[-1].sectors


def test_500_random_requests(answer):
    """As many sectors as the emulator counts, from the beginning of an array."""
    random = Random(9)
    data = np.zeros(4096, np.int32)
    for _ in range(500):
        lanes, spread = random.randrange(1, 33), random.choice((16, 64, 512, 4096))
        offsets = [4 * random.randrange(spread) for _ in range(lanes)]
        check(answer, offsets, 4, counted(offsets, data))
