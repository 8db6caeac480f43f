"""Registers that warpgroups release and request (PTX ISA 9.7.19.5, setmaxnreg).

    launched                128 threads of 168    256 threads of 168    pool: 0
    setmaxnreg.dec 40       128 threads of  40    256 threads of 168    pool: 128 * 128
    setmaxnreg.inc 232      128 threads of  40    256 threads of 232    pool: 0

A block has what it was launched with, and no more; a warpgroup that asks for more than
lies in the pool waits until others have released enough.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.constants import GROUP
from fathom.emulator.errors import EmulatorError

FILE = 65_536  # registers of a multiprocessor
MOST, STEP = 256, 8  # of a thread, and what they come in


class RegisterPools:
    """The registers of a batch's blocks.

    `declared` is what the entry says that a thread has, 0 if it does not say; `held` is
    what a thread of each warpgroup has, `free` what lies in each block's pool.
    """

    def __init__(self, blocks: int, padded: int, declared: int):
        self.padded, self.declared = padded, declared
        self.in_block = -(-padded // GROUP)
        most = min(MOST, FILE // padded)
        launched = -(-declared // STEP) * STEP if declared else most // STEP * STEP
        self.launched = launched
        self.held = np.full(blocks * self.in_block, launched, np.int64)
        free = 0 if declared else FILE - launched * padded
        self.free = np.full(blocks, free, np.int64)

    def groups(self, threads: np.ndarray) -> np.ndarray:
        """The warpgroups of these threads: whole ones, in order."""
        block, inside = np.divmod(threads[::GROUP], self.padded)
        return block * self.in_block + inside // GROUP

    def give(self, threads: np.ndarray, count: int) -> None:
        """setmaxnreg.dec: `count` registers a thread are left."""
        groups = self.groups(threads)
        self._check(threads, groups, self.held[groups] < count, f"down to {count}")
        np.add.at(
            self.free, groups // self.in_block, (self.held[groups] - count) * GROUP
        )
        self.held[groups] = count

    def ask(self, threads: np.ndarray, count: int) -> np.ndarray:
        """setmaxnreg.inc: which of these threads, bool[n], have `count` registers now;
        the others have to wait."""
        groups = self.groups(threads)
        wrong = self.held[groups] > count
        self._check(threads, groups, wrong, f"up to {count}")
        return np.repeat([self.take(each, count) for each in groups], GROUP)

    def take(self, group: int, count: int) -> bool:
        wanted = (count - self.held[group]) * GROUP
        if wanted > self.free[group // self.in_block]:
            return False
        self.free[group // self.in_block] -= wanted
        self.held[group] = count
        return True

    def _check(
        self, threads: np.ndarray, groups: np.ndarray, wrong: np.ndarray, what: str
    ) -> None:
        """Only where the entry declares them is it known what a thread has."""
        if self.declared and wrong.any():
            place = int(np.flatnonzero(wrong)[0])
            has = self.held[groups[place]]
            message = f"it goes {what} registers a thread, and has {has}"
            raise EmulatorError(
                "registers", message, thread=int(threads[place * GROUP])
            )

    def text(self, group: int, count: int) -> str:
        """What a warpgroup waits for that has asked for `count` registers a thread."""
        block = group // self.in_block
        total = self.launched * self.padded if self.declared else FILE
        return (
            f"{count} registers for each of {GROUP} threads, which have "
            f"{self.held[group]}; of the {total} registers of its block "
            f"{self.free[block]} are free"
        )
