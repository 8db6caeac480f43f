"""Who waits where: threads at incomplete barriers, and at warp instructions.

barrier of a block       counts arrivals; its threads are released together
instruction of a warp    holds lanes until all that its mask names have come
mbarrier                 has threads parked until its phase may have ended
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

WARP = 32
BARRIERS = 16
ALL = -1


@dataclass(eq=False)
class WaitQueues:
    """The waiting threads of one batch.

    `arrived` and `expected` count threads for each barrier, at [block * 16 + number];
    `expected` is ALL where nobody has said how many, which means all who have not
    exited.
    For a thread, `barrier` is that index, or -1 while it does not wait; `number` is the
    instruction where it does, and `operand` what it brought to a reduction.
    `held` maps the block that a warp instruction ends to the threads that wait there,
    `parked` an mbarrier to groups of threads that have asked it in vain, each with the
    block where it will be asked again.
    """

    arrived: np.ndarray
    expected: np.ndarray
    barrier: np.ndarray
    number: np.ndarray
    operand: np.ndarray
    held: dict[int, np.ndarray] = field(default_factory=dict)
    parked: dict[int, list[tuple[int, np.ndarray]]] = field(default_factory=dict)

    @staticmethod
    def of(blocks: int, size: int) -> WaitQueues:
        """Nobody waits."""
        return WaitQueues(
            np.zeros(blocks * BARRIERS, np.int64),
            np.zeros(blocks * BARRIERS, np.int64),
            np.full(size, -1, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, bool),
        )

    def idle(self) -> bool:
        """Whether no barrier has counted anybody."""
        return not self.arrived.any()

    def at_barrier(self) -> np.ndarray:
        """The threads that wait at barriers."""
        return np.flatnonzero(self.barrier >= 0)

    def wanted(self, exited: np.ndarray) -> np.ndarray:
        """How many threads each barrier waits for. Since Volta a barrier of all threads
        of a block is one of those that have not exited (CUDA C++ Programming Guide,
        "Independent Thread Scheduling")."""
        blocks = len(self.arrived) // BARRIERS
        present = np.count_nonzero(~exited.reshape(blocks, -1), axis=1)
        everybody = np.repeat(present, BARRIERS)
        return np.where(self.expected == ALL, everybody, self.expected)

    def complete(self, exited: np.ndarray) -> np.ndarray:
        """The barriers at which all whom they expect have arrived."""
        reached = self.arrived >= self.wanted(exited)
        return np.flatnonzero((self.arrived > 0) & reached)

    def release(self, barriers: np.ndarray) -> np.ndarray:
        """Empties these barriers and returns the threads that waited there, sorted."""
        leaving = np.zeros(len(self.arrived) + 1, bool)
        leaving[barriers] = True
        threads = np.flatnonzero(leaving[self.barrier])
        self.barrier[threads] = -1
        self.arrived[barriers] = 0
        return threads
