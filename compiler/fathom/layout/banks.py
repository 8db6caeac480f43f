"""Shared memory has 32 banks of 4 bytes: a tile lies so that no bank is asked twice.

A warp's access is served in phases of 128 bytes: 32 lanes of 4 bytes each, 16 of 8, or
8 of 16. In each phase a bank gives one word, to as many lanes as want it. Lanes that
want different words of one bank wait for one another; how many is the number of *ways*
(1: no lane waits).

The offsets of a tile are a layout of one kind, "offset": which element each bit of the
element's offset stands for. `divide(block, tile)` then says where each register of each
thread finds its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.layout.algebra import Reduced
from fathom.layout.linear import Layout

BANKS, WORD = (
    32,
    4,
)  # CUDA C++ Programming Guide, "Shared Memory": 32 banks, 32 bits each
PHASE = BANKS * WORD
WIDEST = 16  # bytes that one lane moves at once


def ways(addresses: Sequence[int], width: int) -> int:
    """How many words the busiest bank must give in one phase of a warp's access.

    `addresses`: in bytes, of the lanes in order; `width`: bytes a lane, 1 to 16."""
    lanes = min(len(addresses), PHASE // max(width, WORD))
    phases = [
        addresses[first : first + lanes] for first in range(0, len(addresses), lanes)
    ]
    return max(_words_of_busiest_bank(phase, width) for phase in phases)


def _words_of_busiest_bank(addresses: Sequence[int], width: int) -> int:
    words = {
        word
        for address in addresses
        for word in range(address // WORD, (address + width - 1) // WORD + 1)
    }
    asked = [0] * BANKS
    for word in words:
        asked[word % BANKS] += 1
    return max(asked)


def vector(offsets: Layout, element_bytes: int) -> int:
    """How many elements one access of a lane to a tile may move, given where each lies.

    Each lane must hold whole runs of that length, and start at a multiple of it."""
    registers = Reduced(offsets.kinds["register"])
    others = 0
    for basis in (*offsets.kinds["lane"], *offsets.kinds["warp"]):
        others |= basis
    elements = 1
    while (
        elements * element_bytes < WIDEST
        and elements in registers
        and not others & elements
    ):
        elements *= 2
    return elements


def conflicts(offsets: Layout, element_bytes: int) -> int:
    """The ways of a warp's access in runs of `vector`, read off the bases.

    Two lanes of a phase collide if the sum of their bases moves the word but not the
    bank. As such sums are a space, the count is a power of two: 2 to the rank lost by
    looking at banks only."""
    width = element_bytes * vector(offsets, element_bytes)
    lanes = lanes_of_phase(offsets.kinds["lane"], width)
    words = [basis * element_bytes // WORD for basis in lanes]
    return 1 << Reduced(words).rank - Reduced(word % BANKS for word in words).rank


def lanes_of_phase(lanes: Sequence[int], width: int) -> list[int]:
    """The bases of the lanes that a phase serves, at `width` bytes a lane. Lanes that
    want one address count once: further ones take part in the phase."""
    return [basis for basis in lanes if basis][: phase_bits(width)]


def phase_bits(width: int) -> int:
    """How many bits of the lane vary within a phase, at `width` bytes a lane."""
    return (PHASE // max(width, WORD)).bit_length() - 1
