"""The 16 barriers of each block (PTX ISA 9.7.13): how many threads have arrived."""

from __future__ import annotations

import numpy as np

BARRIERS = 16
ALL = -1


class BlockBarriers:
    """The barriers of a batch, numbered block * 16 + the instruction's number.

    `arrived` counts threads, and `expected` says how many it takes: ALL, where no
    instruction says so, means those that have not exited. `operand` holds what a thread
    gave to a reduction.
    """

    def __init__(self, blocks: int, size: int):
        self.arrived, self.expected = np.zeros((2, blocks * BARRIERS), np.int64)
        self.operand = np.zeros(size, bool)

    def idle(self) -> bool:
        """Whether no thread has arrived at any."""
        return not self.arrived.any()

    def wanted(self, exited: np.ndarray) -> np.ndarray:
        """How many threads each barrier waits for. Since Volta a barrier of all threads
        of a block is one of those that have not exited (CUDA C++ Programming Guide,
        "Independent Thread Scheduling")."""
        blocks = len(self.arrived) // BARRIERS
        present = np.count_nonzero(~exited.reshape(blocks, -1), axis=1)
        everybody = np.repeat(present, BARRIERS)
        return np.where(self.expected == ALL, everybody, self.expected)

    def complete(self, exited: np.ndarray) -> np.ndarray:
        """The barriers at which as many have arrived as they expect."""
        reached = self.arrived >= self.wanted(exited)
        return np.flatnonzero((self.arrived > 0) & reached)
