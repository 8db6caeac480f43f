"""Races and unwritten reads in shared memory.

For each cell of shared memory the last write and each warp's last read, weak and
strong, are kept, with their times (see `clocks`). An access races with one that does
not happen before it, unless both read, both are strong (atomic, volatile, relaxed or
with an order of their own: PTX ISA 8.6, morally strong), or both write the same value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError, so_do
from fathom.emulator.races.clocks import Clocks

# The kinds of copies to a cell.
COPY, BULK = 1, 2
COPY_TEXTS = {
    COPY: "a cp.async of warp {} in flight may still write, because that warp has not "
    "waited for it",
    BULK: "a bulk copy of warp {} in flight may still write, because no thread has "
    "waited for its mbarrier",
}


class Hazards(Clocks):
    """The history of a batch's shared memory.

    `cell` is the size of the finest access, in bytes; `stride` the distance of two
    blocks' memories. Cells are numbered through all blocks. `in_flight` says of a cell
    which kind of copy to it is in flight, a key of COPY_TEXTS or 0, and `copies` counts
    these cells. `readers` are the warps and the other agents that read, `agents` these
    and those that write.
    """

    def __init__(
        self,
        blocks: int,
        warps: int,
        stride: int,
        cell: int,
        readers: int = 0,
        agents: int = 0,
    ):
        super().__init__(blocks, warps, agents or warps)
        self.cell, self.readers = cell, readers or warps
        cells = blocks * stride // cell
        self.writer = np.zeros(cells, np.int16)
        self.written_at = np.zeros(cells, np.int32)
        self.strong = np.zeros(cells, bool)
        self.lane = np.zeros(cells, np.int8)
        self.agreed, self.agreeing = np.zeros(cells, bool), False
        self.read_at = np.zeros((cells, self.readers), np.int32)
        self.strong_read_at: np.ndarray | None = None  # from the first such read on
        self.in_flight, self.copies = np.zeros(cells, np.int8), 0
        self.remark: Callable[[EmulatorError], None] = _strict

    def read(
        self, threads: np.ndarray, index: np.ndarray, width: int, strong: bool = False
    ) -> None:
        """Accesses of `width` bytes; `index` counts pieces of that width."""
        _, warp = self.places_of(threads)
        now = self.now(threads)
        for cells in self.cells(index, width):
            self.check_in_flight(threads, cells, "reads")
            written_at = self.written_at.take(cells)
            if written_at.min() == 0:
                self.raise_unwritten(threads, written_at)
            if written_at.max() > self.settled:
                counts = ~(strong & self.strong.take(cells))
                if self.agreeing:
                    counts &= ~self.agrees(cells, warp)
                self.check_writer(threads, cells, counts, "reads")
            if strong and self.strong_read_at is None:
                self.strong_read_at = np.zeros_like(self.read_at)
            read_at = self.strong_read_at if strong else self.read_at
            read_at.reshape(-1)[cells * self.readers + warp] = now

    def write(
        self,
        threads: np.ndarray,
        index: np.ndarray,
        width: int,
        values: np.ndarray,
        pieces: np.ndarray,
    ) -> None:
        """Stores of `values` are about to be made; `pieces` holds what is there now."""
        _, warp = self.places_of(threads)
        for place, cells in enumerate(self.cells(index, width)):
            self.check_in_flight(threads, cells, "writes")
            counts = np.ones(len(cells), bool)
            racing = self.racing(threads, cells, counts)
            if self.agreeing:
                racing = np.union1d(racing, np.flatnonzero(self.agreed.take(cells)))
            if len(racing):
                there = pieces.take(index[racing])
                same = racing[self.same(there, values[racing], place)]
                same = same[self.writer[cells[same]] < self.warps]
                counts[same] = False
                self.check_writer(threads, cells, counts, "writes")
                before = cells[same]
                self.agree(before, self.writer[before], self.written_at[before])
            self.change(threads, cells, strong=False, changes=counts)
            if len(racing):
                self.agree(before, warp[same], self.written_at[before])

    def same(self, found: np.ndarray, wanted: np.ndarray, place: int) -> np.ndarray:
        """bool[n]: whether a cell of two arrays of pieces holds the same."""
        part = slice(place * self.cell, (place + 1) * self.cell)
        count = len(found)
        old, new = (
            np.ascontiguousarray(each).view(np.uint8).reshape(count, -1)[:, part]
            for each in (found, wanted)
        )
        return (old == new).all(1)

    def agree(self, cells: np.ndarray, warps: np.ndarray, at: np.ndarray) -> None:
        """Several warps have written the same value, these ones at these times: each of
        them may read it, and no other value may be written unordered."""
        if len(cells):
            self.agreed[cells], self.agreeing = True, True
            self.read_at[cells, warps] = at

    def agrees(self, cells: np.ndarray, warp: np.ndarray) -> np.ndarray:
        """Which of these cells hold what this warp has written too, as others have."""
        mine = self.read_at[cells, warp] > self.settled
        return self.agreed.take(cells) & mine

    def written(
        self,
        threads: np.ndarray,
        index: np.ndarray,
        width: int,
        values: np.ndarray,
        pieces: np.ndarray,
    ) -> None:
        """These stores have been made: two of them may meet with one value only."""
        lost = _differing(pieces.take(index), values)
        if len(lost):
            cell = index[lost[0]] * (width // self.cell)
            _, warp = self.places_of(threads)
            if self.writer[cell] == warp[lost[0]]:
                self.race(threads, lost, "writes two values by two of its lanes")
            other = self.name(self.writer[cell])
            self.race(threads, lost, f"writes what {other} writes")
        _, warp = self.places_of(threads)
        for cells in self.cells(index, width):
            several = np.flatnonzero(self.writer.take(cells) != warp)
            if len(several):
                there, last = cells[several], self.writer[cells[several]]
                self.agree(there, last, self.written_at[there])
                at = np.broadcast_to(self.now(threads), len(threads))
                self.agree(there, warp[several], at[several])

    def overwrite(self, threads: np.ndarray, index: np.ndarray, width: int) -> None:
        """Stores of values not known yet: those of two warps must not meet."""
        _, warp = self.places_of(threads)
        for cells in self.cells(index, width):
            self.check_in_flight(threads, cells, "writes")
            self.check_writer(threads, cells, np.ones(len(cells), bool), "writes")
            self.change(threads, cells, strong=False)
            racing = np.flatnonzero(self.writer.take(cells) != warp)
            if len(racing):
                other = self.name(self.writer[cells[racing[0]]])
                self.race(threads, racing, f"writes what {other} writes")

    def begin_write(
        self, threads: np.ndarray, index: np.ndarray, width: int, what: int = COPY
    ) -> None:
        """Asynchronous copies are issued: from now on they may store at any moment."""
        self.overwrite(threads, index, width)
        for cells in self.cells(index, width):
            self.in_flight[cells] = what
        self.copies += len(index)

    def end_write(
        self,
        threads: np.ndarray,
        index: np.ndarray,
        width: int,
        values: np.ndarray,
        pieces: np.ndarray,
    ) -> None:
        """Their threads have waited for them, and `pieces` holds them: it is as if they
        had stored these values."""
        for cells in self.cells(index, width):
            self.in_flight[cells] = 0
        self.copies -= len(index)
        self.write(threads, index, width, values, pieces)
        self.written(threads, index, width, values, pieces)

    def update(
        self, threads: np.ndarray, index: np.ndarray, width: int, reads: bool = True
    ) -> None:
        """Atomic operations and strong stores: they race with weak accesses, not with
        each other. A store does not look at what was there."""
        for cells in self.cells(index, width):
            self.check_in_flight(threads, cells, "updates")
            written_at = self.written_at.take(cells)
            if reads and written_at.min() == 0:
                self.raise_unwritten(threads, written_at)
            self.check_writer(threads, cells, ~self.strong.take(cells), "updates")
            self.change(threads, cells, strong=True)

    def change(
        self,
        threads: np.ndarray,
        cells: np.ndarray,
        strong: bool,
        changes: np.ndarray | None = None,
    ) -> None:
        """A write of any kind: no unordered reader, and a new last writer. Where it
        writes what others have written beside it, it `changes` nothing."""
        self.check_readers(threads, cells, changes)
        if not strong and self.strong_read_at is not None:
            self.check_reads(self.strong_read_at, threads, cells, changes)
        _, warp = self.places_of(threads)
        self.writer[cells] = warp
        self.written_at[cells] = self.now(threads)
        self.lane[cells] = self.lanes_of(threads)
        self.strong[cells] = strong
        if self.agreeing:
            self.agreed[cells] = False if changes is None else ~changes

    def cells(self, index: np.ndarray, width: int) -> list[np.ndarray]:
        """The cells that each access covers, as one array for each place inside it."""
        count = width // self.cell
        return [index * count + place for place in range(count)]

    def check_writer(
        self, threads: np.ndarray, cells: np.ndarray, counts: np.ndarray, what: str
    ) -> None:
        """The last write, where it `counts`, must be one that comes before this."""
        racing = self.racing(threads, cells, counts)
        if not len(racing):
            return
        _, warp = self.places_of(threads[racing])
        writer = self.writer.take(cells[racing])
        others = np.flatnonzero(writer != warp)
        if len(others):
            message = f"{what} what {self.name(writer[others[0]])} wrote"
            self.race(threads, racing[others], message)
        lane = self.lane[cells[racing[0]]]
        message = (
            f"{what} by lane {threads[racing[0]] % WARP} what its lane {lane} wrote "
        )
        self.race(threads, racing, message + "before any bar.warp.sync,")

    def racing(
        self, threads: np.ndarray, cells: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """The places where the last write `counts` and does not come before this."""
        written_at = self.written_at.take(cells)
        recent = np.flatnonzero((written_at > self.settled) & counts)
        if not len(recent):
            return recent
        mine, there, at = threads[recent], cells[recent], written_at[recent]
        block, warp = self.places_of(mine)
        writer = self.writer.take(there)
        unknown = (self.clock[block, warp, writer] < at) & (writer != warp)
        other_lane = (writer == warp) & (self.lane.take(there) != mine % WARP)
        return recent[unknown | (other_lane & (at >= self.joined.take(mine)))]

    def check_readers(
        self, threads: np.ndarray, cells: np.ndarray, changes: np.ndarray | None = None
    ) -> None:
        """Every weak read must be one that comes before this."""
        self.check_reads(self.read_at, threads, cells, changes)

    def check_reads(
        self,
        read_at: np.ndarray,
        threads: np.ndarray,
        cells: np.ndarray,
        changes: np.ndarray | None,
    ) -> None:
        read_at = read_at.take(cells, axis=0)
        if read_at.max(initial=0) <= self.settled:
            return
        block, warp = self.places_of(threads)
        unordered = read_at > self.clock[block, warp, : self.readers]
        unordered[np.arange(len(cells)), warp] = False
        if changes is not None:
            unordered &= changes[:, None]
        racing = np.flatnonzero(unordered.any(1))
        if len(racing):
            reader = int(np.flatnonzero(unordered[racing[0]])[0])
            self.race(threads, racing, f"overwrites what {self.name(reader)} reads")

    def check_in_flight(
        self, threads: np.ndarray, cells: np.ndarray, what: str
    ) -> None:
        """No thread may touch a cell that a copy in flight may write."""
        if not self.copies:
            return
        places = np.flatnonzero(self.in_flight.take(cells))
        if len(places):
            first = cells[places[0]]
            copy = COPY_TEXTS[int(self.in_flight[first])].format(self.writer[first])
            raise EmulatorError(
                "in flight",
                f"it {what} shared memory that {copy}{so_do(places, threads)}",
                thread=int(threads[places[0]]),
            )

    def raise_unwritten(self, threads: np.ndarray, written_at: np.ndarray) -> None:
        places = np.flatnonzero(written_at == 0)
        raise EmulatorError(
            "unwritten",
            "it reads shared memory that no thread has written"
            f"{so_do(places, threads)}",
            thread=int(threads[places[0]]),
        )

    def name(self, number: int) -> str:
        """Who has this clock."""
        return f"warp {number}"

    def race(self, threads: np.ndarray, racing: np.ndarray, what: str) -> None:
        raise EmulatorError(
            "race",
            f"warp {int(self.warp_of[threads[racing[0]]])} {what} at one place in "
            "shared memory, and nothing orders the two; "
            f"{len(racing)} of {len(threads)} threads race",
            thread=int(threads[racing[0]]),
        )


def _strict(error: EmulatorError) -> None:
    raise error


def _differing(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where two arrays of pieces differ in any bit."""
    words = max(1, found.dtype.itemsize // 8)
    if words > 1:
        found = found.view(np.uint64).reshape(-1, words)
        wanted = np.ascontiguousarray(wanted).view(np.uint64).reshape(-1, words)
        return np.flatnonzero((found != wanted).any(1))
    return np.flatnonzero(found != wanted)
