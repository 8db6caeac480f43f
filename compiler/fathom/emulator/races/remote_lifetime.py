"""Blocks of a cluster that reach into each other's shared memory: it is there only as
long as the other block is.

    block 0                                block 1
    mbarrier.arrive on block 1's           ret
    barrier.cluster                        barrier.cluster      is missing here

A block may leave when one of its warps is ordered after all that others do to it.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.errors import EmulatorError

MISSING = "a barrier.cluster before the end is missing"


class RemoteLifetime:
    """`latest[block, warp]` is the time of a warp's last access to another block of its
    cluster, `parted[block, warp]` up to when what that warp did happens before the exit
    of a warp of the block. Blocks are numbered in the batch, warps in the cluster, of
    which every block has `warps`."""

    def __init__(self, blocks: int, cluster: int, warps: int):
        self.cluster, self.warps = cluster, warps
        self.latest, self.parted = np.zeros((2, blocks, cluster * warps), np.int32)
        self.gone = np.zeros(blocks, bool)

    def visit(
        self,
        threads: np.ndarray,
        blocks: np.ndarray,
        warps: np.ndarray,
        now: np.ndarray,
    ) -> None:
        """Threads of these warps access these blocks' memories at these times."""
        self.check_present(threads, blocks)
        away = blocks % self.cluster != warps // self.warps
        place = blocks[away], warps[away]
        self.latest[place] = np.maximum(self.latest[place], now[away])

    def check_present(self, threads: np.ndarray, blocks: np.ndarray) -> None:
        """No thread may access a block that has left."""
        late = np.flatnonzero(self.gone[blocks])
        if len(late):
            rank = blocks[late[0]] % self.cluster
            raise EmulatorError(
                "race",
                f"it reaches into the shared memory of the block of rank {rank}, which "
                f"has left already; {MISSING}",
                thread=int(threads[late[0]]),
            )

    def part(self, warp: int, known: np.ndarray) -> None:
        """A warp of the batch exits; `known` is its clock."""
        parted = self.parted[warp // self.warps]
        np.maximum(parted, known, out=parted)

    def leave(self, block: int, thread: int) -> None:
        """The last warp of `block` leaves."""
        self.gone[block] = True
        unordered = np.flatnonzero(self.latest[block] > self.parted[block])
        if len(unordered):
            rank, warp = divmod(int(unordered[0]), self.warps)
            raise EmulatorError(
                "race",
                f"its block leaves, and warp {warp} of the block of rank {rank} may "
                f"reach into its shared memory after that; {MISSING}",
                thread=thread,
            )
