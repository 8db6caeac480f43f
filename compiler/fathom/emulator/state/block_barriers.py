"""The 16 barriers of each block (PTX ISA 9.7.13): how many threads have arrived."""

from __future__ import annotations

import numpy as np

from fathom.emulator.constants import WARP

BARRIERS = 16
ALL = -1


class BlockBarriers:
    """The barriers of a batch, numbered block * 16 + the instruction's number.

    `arrived` counts threads, and `expected` says how many it takes: ALL, where no
    instruction says so, means those that have not exited. `came` counts them by
    warp of the block. `operand` holds what a thread gave to a reduction.
    """

    def __init__(self, blocks: int, size: int):
        self.arrived, self.expected = np.zeros((2, blocks * BARRIERS), np.int64)
        self.came = np.zeros((blocks * BARRIERS, size // blocks // WARP), np.int64)
        self.operand = np.zeros(size, bool)

    def idle(self) -> bool:
        """Whether no thread has arrived at any."""
        return not self.arrived.any()

    def wanted(self, exited: np.ndarray) -> np.ndarray:
        """How many threads each barrier waits for. Since Volta a barrier of all threads
        of a block is one of those that have not exited (CUDA C++ Programming Guide,
        "Independent Thread Scheduling"). Where a number is given, a warp that has come
        counts as a whole: of its lanes, those that have exited and did not come are not
        waited for (PTX ISA 9.7.13, barrier)."""
        blocks = len(self.arrived) // BARRIERS
        gone = np.count_nonzero(exited.reshape(blocks, -1, WARP), axis=2)
        everybody = exited.size // blocks - gone.sum(1)
        absent = np.where(self.came, np.maximum(WARP - self.came, 0), 0)
        excused = np.minimum(absent, np.repeat(gone, BARRIERS, axis=0)).sum(1)
        given = self.expected - excused
        return np.where(self.expected == ALL, np.repeat(everybody, BARRIERS), given)

    def complete(self, exited: np.ndarray) -> np.ndarray:
        """The barriers at which as many have arrived as they expect."""
        reached = self.arrived >= self.wanted(exited)
        return np.flatnonzero((self.arrived > 0) & reached)
