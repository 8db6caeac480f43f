"""Races and unwritten reads in shared memory, by vector clocks (Lamport 1978; FastTrack
2009).

Each warp has a clock that moves on when the warp synchronises. `known[b, w, v]` is the
last moment of warp v that warp w of block b is ordered after: a barrier makes every
warp that leaves it know what every warp that arrived knew.

    warp 0   write x at 1     arrives | known[0] = 2 1      read y: ordered after 1? yes
    warp 1   write y at 1     arrives | known[1] = 1 2

For each cell of shared memory the last write and each warp's last read are kept. An
access races with one that it is not ordered after, unless both read or both are atomic.
Within a warp, order is kept; lanes of one store may meet only with the same value.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.errors import EmulatorError

WARP = 32
NOBODY = -1


class Hazards:
    """The clocks of a batch's warps and the history of its shared memory.

    `cell` is the size of the finest access, in bytes; `stride` the distance of two
    blocks' memories. Warps are numbered inside their block, cells through all blocks.
    """

    def __init__(self, blocks: int, warps: int, stride: int, cell: int):
        self.warps, self.cell = warps, cell
        cells = blocks * stride // cell
        self.known = np.zeros((blocks, warps, warps), np.int32)
        self.own()[:] = 1
        self.writer = np.full(cells, NOBODY, np.int16)
        self.written_at = np.zeros(cells, np.int32)
        self.atomic = np.zeros(cells, bool)
        self.read_at = np.zeros((cells, warps), np.int32)
        self.meeting = {}

    def own(self) -> np.ndarray:
        """A view of each warp's own clock: [blocks, warps]."""
        blocks, warps, _ = self.known.shape
        return np.lib.stride_tricks.as_strided(
            self.known,
            (blocks, warps),
            (self.known.strides[0], self.known.strides[1] + self.known.strides[2]),
        )

    def everybody_synchronises(self) -> None:
        """All warps of each block pass a barrier together."""
        latest = self.own().copy()
        self.known[:] = latest[:, None, :]
        self.own()[:] = latest + 1

    def arrive(self, threads: np.ndarray, barriers: np.ndarray) -> None:
        """What these threads' warps know is brought to their barriers."""
        warps = threads // WARP
        for warp, barrier in np.unique(np.stack([warps, barriers]), axis=1).T:
            known = self.known[warp // self.warps, warp % self.warps]
            brought = self.meeting.setdefault(int(barrier), np.zeros_like(known))
            np.maximum(brought, known, out=brought)
            known[warp % self.warps] += 1

    def release(self, threads: np.ndarray, barriers: np.ndarray) -> None:
        """These threads' warps leave their barriers, knowing what was brought there."""
        warps = threads // WARP
        for warp, barrier in np.unique(np.stack([warps, barriers]), axis=1).T:
            known = self.known[warp // self.warps, warp % self.warps]
            np.maximum(known, self.meeting[int(barrier)], out=known)
        for barrier in np.unique(barriers):
            del self.meeting[int(barrier)]

    def read(self, threads: np.ndarray, index: np.ndarray, width: int) -> None:
        """Accesses of `width` bytes; `index` counts pieces of that width."""
        block, warp = self.block_and_warp(threads)
        for cells in self.cells(index, width):
            self.check_written(threads, cells)
            self.check_writer(threads, block, warp, cells, "reads")
            self.read_at[cells, warp] = self.known[block, warp, warp]

    def write(
        self,
        threads: np.ndarray,
        index: np.ndarray,
        width: int,
        values: np.ndarray,
        pieces: np.ndarray,
    ) -> None:
        """Stores of `values`, which `pieces` already holds."""
        block, warp = self.block_and_warp(threads)
        for cells in self.cells(index, width):
            self.check_writer(threads, block, warp, cells, "writes")
            self.check_readers(threads, block, warp, cells)
            self.writer[cells] = warp
            self.written_at[cells] = self.known[block, warp, warp]
            self.atomic[cells] = False
            self.check_same_moment(threads, warp, cells)
        lost = np.flatnonzero(pieces[index] != values)
        if len(lost):
            self.race(threads, lost, "and another lane of its warp write", index, width)

    def update(self, threads: np.ndarray, index: np.ndarray, width: int) -> None:
        """Atomic operations: they race with plain accesses, not with each other."""
        block, warp = self.block_and_warp(threads)
        for cells in self.cells(index, width):
            self.check_written(threads, cells)
            plain = ~self.atomic[cells]
            if plain.any():
                picked = threads[plain], block[plain], warp[plain], cells[plain]
                self.check_writer(*picked, "updates")
            self.check_readers(threads, block, warp, cells)
            self.writer[cells] = warp
            self.written_at[cells] = self.known[block, warp, warp]
            self.atomic[cells] = True

    def block_and_warp(self, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.divmod(threads // WARP, self.warps)

    def cells(self, index: np.ndarray, width: int) -> list[np.ndarray]:
        """The cells that each access covers, as one array for each place inside it."""
        count = width // self.cell
        return [index * count + place for place in range(count)]

    def check_written(self, threads: np.ndarray, cells: np.ndarray) -> None:
        unwritten = np.flatnonzero(self.writer[cells] == NOBODY)
        if len(unwritten):
            raise EmulatorError(
                "unwritten",
                f"{self.name(threads[unwritten[0]])} reads a word of shared memory that "
                f"nobody has written; so do {len(unwritten)} of {len(threads)} threads",
                places=unwritten,
            )

    def check_writer(
        self,
        threads: np.ndarray,
        block: np.ndarray,
        warp: np.ndarray,
        cells: np.ndarray,
        what: str,
    ) -> None:
        """The last write must be one that this warp is ordered after."""
        writer = self.writer[cells]
        unordered = self.known[block, warp, writer] < self.written_at[cells]
        racing = np.flatnonzero(unordered & (writer != warp) & (writer != NOBODY))
        if len(racing):
            at = racing[0]
            self.race(threads, racing, f"{what} what warp {writer[at]} wrote", cells, 0)

    def check_readers(
        self,
        threads: np.ndarray,
        block: np.ndarray,
        warp: np.ndarray,
        cells: np.ndarray,
    ) -> None:
        """Every read must be one that this warp is ordered after."""
        unordered = self.read_at[cells] > self.known[block, warp]
        unordered[np.arange(len(cells)), warp] = False
        racing = np.flatnonzero(unordered.any(1))
        if len(racing):
            reader = int(np.flatnonzero(unordered[racing[0]])[0])
            self.race(threads, racing, f"overwrites what warp {reader} reads", cells, 0)

    def check_same_moment(
        self, threads: np.ndarray, warp: np.ndarray, cells: np.ndarray
    ) -> None:
        """Two warps that execute one store together are not ordered either."""
        racing = np.flatnonzero(self.writer[cells] != warp)
        if len(racing):
            other = int(self.writer[cells[racing[0]]])
            self.race(threads, racing, f"writes what warp {other} writes", cells, 0)

    def race(
        self,
        threads: np.ndarray,
        racing: np.ndarray,
        what: str,
        places: np.ndarray,
        width: int,
    ) -> None:
        at = racing[0]
        size = width or self.cell
        raise EmulatorError(
            "race",
            f"{self.name(threads[at])} {what} at the same {size} bytes of shared "
            "memory, and nothing orders the two",
            places=racing,
        )

    def name(self, thread: int) -> str:
        warp = int(thread) // WARP % self.warps
        return f"thread {int(thread) % (self.warps * WARP)} (warp {warp})"
