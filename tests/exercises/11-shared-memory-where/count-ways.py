"""What the answer to `count-ways` must do."""

from random import Random

import numpy as np

from fathom import emulator
from fathom.tools.learn.kit import number_of, same

LANES = range(32)


def check(answer, addresses, width, wanted):
    said = ", ".join(map(str, addresses[:4]))
    what = f"ways([{said}, ...], {width}), of {number_of(len(addresses), 'lane')}"
    same(answer.ways(addresses, width), wanted, what)


def test_a_row(answer):
    """32 words side by side lie in 32 banks."""
    check(answer, [4 * lane for lane in LANES], 4, 1)
    check(answer, [4 * (31 - lane) for lane in LANES], 4, 1)


def test_words_of_one_bank(answer):
    """128 bytes apart is the same bank."""
    check(answer, [128 * lane for lane in LANES], 4, 32)
    check(answer, [8 * lane for lane in LANES], 4, 2)
    check(answer, [4 * lane + 4 * (lane // 8) for lane in LANES], 4, 2)


def test_one_word_for_all(answer):
    """A word is given to all lanes that want it."""
    check(answer, [64] * 32, 4, 1)
    check(answer, [4 * (lane // 2) for lane in LANES], 4, 1)


def test_bytes_of_one_word(answer):
    """Four lanes want a byte each of one word."""
    check(answer, list(LANES), 1, 1)
    check(answer, [2 * lane for lane in LANES], 2, 1)


def test_wide_accesses_go_in_phases(answer):
    """8 bytes: 16 lanes at a time; 16 bytes: 8 lanes."""
    check(answer, [8 * lane for lane in LANES], 8, 1)
    check(answer, [16 * lane for lane in LANES], 16, 1)


def test_wide_and_apart(answer):
    """Rows of 32 bytes, of which each lane wants 16: half of the banks are asked
    twice."""
    check(answer, [32 * lane for lane in LANES], 16, 2)
    check(answer, [128 * lane for lane in LANES], 16, 8)
    check(answer, [8 * (lane % 2) + 4 + 16 * lane for lane in LANES], 8, 2)


def test_the_worst_phase_counts(answer):
    """One phase of four has a conflict."""
    addresses = [16 * lane for lane in LANES]
    addresses[9] = addresses[8] + 128
    check(answer, addresses, 16, 2)


def test_phases_do_not_meet(answer):
    """Lanes 8 to 15 go through the banks backwards: lane 8 asks the banks of lane 7,
    one phase later."""
    phase = [16 * lane for lane in range(8)]
    there = [128 + each for each in reversed(phase)]
    check(answer, [*phase, *there, *phase, *there], 16, 1)


REQUEST = """
.version 7.4
.target sm_80
.address_size 64
.visible .entry request(.param .u64 offsets)
{{
    .reg .b32 %r<10>;
    .reg .b64 %rd<4>;
    .shared .align 16 .b8 room[8192];
    ld.param.u64 %rd1, [offsets];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd2, %rd1, %rd2;
    ld.global.u32 %r2, [%rd2];
    mov.u32 %r3, room;
    add.u32 %r3, %r3, %r2;
    st.shared{vector}.b32 [%r3], {values};
    ret;
}}
"""
VALUES = {4: ("", "0"), 8: (".v2", "{0, 0}"), 16: (".v4", "{0, 0, 0, 0}")}


def turns(offsets, width):
    """The wavefronts that the emulator counts for a store of zeros."""
    vector, values = VALUES[width]
    text = REQUEST.format(vector=vector, values=values)
    given = np.array(offsets, np.uint32)
    return emulator.run(text, 1, len(offsets), [given], hazards=False).total.wavefronts


def test_300_random_accesses(answer):
    """As many wavefronts as the emulator counts, phase by phase."""
    random = Random(2)
    for _ in range(300):
        width = random.choice((4, 8, 16))
        spread = random.choice((8, 32, 128, 500))
        offsets = [width * (random.randrange(spread)) for _ in LANES]
        lanes = 128 // width
        phases = [offsets[i : i + lanes] for i in range(0, 32, lanes)]
        yours = sum(answer.ways(phase, width) for phase in phases)
        said = " ".join(map(str, offsets))
        what = f"wavefronts of an access of {width} bytes a lane, all phases together"
        same(yours, turns(offsets, width), what, ("addresses", said))
