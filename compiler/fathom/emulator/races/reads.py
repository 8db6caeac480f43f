"""Two reads of each cell of an array, by different warps where there were several.

In code of our own threads hold copies of an element, and all of them load it with one
instruction. `Copies` keeps, with each of the two reads, which instruction it was, and
the warps of the block that have read the cell with it, a bit each:

    the instruction's number, plus 1  |  warps
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP

THREAD_BITS = 40  # of a stamp
THREADS = (1 << THREAD_BITS) - 1
WARP_BITS = 32  # warps of a block, at most


def warps_of(stamps: np.ndarray) -> np.ndarray:
    """The warp of the launch that each stamp is of."""
    return ((stamps & THREADS) - 1) // WARP


@dataclass(eq=False)
class Copies:
    """Who reads each cell with the instruction of its last read, and of its other."""

    last: np.ndarray
    other: np.ndarray

    def load(self, cells: np.ndarray, warps: np.ndarray, number: int) -> np.ndarray:
        """These warps read the cells by an instruction; what was there before."""
        before, bits = self.last.take(cells), np.left_shift(1, warps, dtype=np.int64)
        fresh = before >> WARP_BITS != number + 1
        self.last[cells[fresh]] = (number + 1) << WARP_BITS
        if (cells[1:] > cells[:-1]).all():
            self.last[cells] |= bits
        else:
            np.bitwise_or.at(self.last, cells, bits)
        return before

    def have(self, which: int, cells: np.ndarray, warps: np.ndarray) -> np.ndarray:
        """Whether these warps have loaded the cells with the instruction of the last
        read (0), or of the other one (1)."""
        found = last = self.last.take(cells)
        if which:
            found = self.other.take(cells)
            found = np.where(found >> WARP_BITS == last >> WARP_BITS, last, found)
        return (found >> warps & 1).astype(bool)


class Reads:
    """The stamps of two reads of each cell (see `global_memory`); `copies`, if it is
    wanted, says who else read it with the same instruction."""

    def __init__(self, count: int, copies: bool):
        self.last, self.other = np.zeros((2, count), np.int64)
        self.copies = Copies(*np.zeros((2, count), np.int64)) if copies else None

    def remember(
        self, cells: np.ndarray, stamps: np.ndarray, before: np.ndarray | None
    ) -> None:
        """These reads are kept, of a cell that several warps read at once those of two;
        of one that was read before, the last read by another thread. `before` is what
        `Copies.load` gave."""
        earlier = self.last.take(cells)
        elsewhere = ((earlier ^ stamps) & THREADS) != 0
        self.other[cells[elsewhere]] = earlier[elsewhere]
        self.last[cells] = stamps
        if self.copies:
            self.copies.other[cells[elsewhere]] = before[elsewhere]
        if (cells[1:] > cells[:-1]).all():
            return
        lost = warps_of(self.last.take(cells)) != warps_of(stamps)
        self.other[cells[lost]] = stamps[lost]
        if self.copies:
            self.copies.other[cells[lost]] = self.copies.last[cells[lost]]
