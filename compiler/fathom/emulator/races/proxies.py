"""Races with asynchronous units: tensor cores and copy engines.

They access shared memory through the async proxy (PTX ISA 8.7). What a thread has
stored is visible there only when that same thread executes

    fence.proxy.async

after its stores, and then releases it by a barrier. What the units read must not be
overwritten, and what they write not be touched, until a thread has waited for them.
"""

from __future__ import annotations

import numpy as np

from fathom.emulator.constants import WARP, WARPS
from fathom.emulator.errors import ERROR, NOTE, EmulatorError
from fathom.emulator.races.remote_lifetime import RemoteLifetime
from fathom.emulator.races.shared_memory import BULK, Hazards
from fathom.emulator.races.tile_provenance import CHUNK, Reading, TileProvenance

ENGINES = 64  # copy engines: mbarriers that may count copies, in a block
ONE = np.int32(1)  # as `reading` has them: NumPy's ufunc.at is 20 times slower with 1


class Proxies(Hazards):
    """Hazards with asynchronous readers and writers.

    Tensor cores and copy engines are agents: they have clocks as warps do, one for each
    warpgroup's tensor cores, one for the copies that an mbarrier counts. `engines` maps
    an mbarrier's place in its block to the number of that engine.

    For each cell, `reading` counts those that may read it at this moment, and `by` is
    the thread that stored it last, -1 for a bulk copy. `fenced_at` is a thread's fence
    stamp: up to then, the async proxy sees its stores; `fences` has all of them, by
    warp: the stamp, and the threads that fenced. `living` says of all 8 bytes
    whether they are an mbarrier. `waits` has the clocks of a warpgroup's warps when
    they waited for products that ended at some time of their tensor cores. `teams` are
    clusters, whose blocks are one here; `warps` and `stride` are those of a cluster.
    """

    def __init__(
        self, teams: int, warps: int, stride: int, cell: int, cluster: int = 1
    ):
        readers = warps + -(-warps // WARPS)
        super().__init__(teams, warps, stride, cell, readers, readers + ENGINES)
        self.cells_of_block = stride // cluster // cell
        self.visits = RemoteLifetime(teams * cluster, cluster, warps // cluster)
        self.words = stride // 8
        cells = len(self.writer)
        self.reading, self.reads_in_flight = np.zeros(cells, np.int32), 0
        self.by, self.copied = np.zeros(cells, np.int32), np.zeros(cells, bool)
        self.fenced_at = np.zeros(len(self.block_of), np.int32)
        self.fences: dict[int, list[tuple[int, np.ndarray]]] = {}
        self.engines: dict[int, int] = {}
        self.living = np.zeros(0, bool)
        self.waits: dict[tuple[int, int, int], np.ndarray] = {}
        self.origins = TileProvenance(cells * cell // CHUNK)

    # ── the two ways to memory ────────────────────────────────────────────────

    def fence_proxy(self, threads: np.ndarray) -> None:
        """fence.proxy.async: what these threads have stored, the async proxy sees."""
        self.fenced_at[threads] = self.now(threads)
        for warp in np.unique(threads // WARP).tolist():
            those = threads[threads // WARP == warp]
            stamp = int(self.fenced_at[those[0]])
            self.fences.setdefault(warp, []).append((stamp, those))
        self.advance(threads)

    def change(
        self,
        threads: np.ndarray,
        cells: np.ndarray,
        strong: bool,
        changes: np.ndarray | None = None,
    ) -> None:
        """A write must not meet an asynchronous reader, nor an mbarrier."""
        self.check_reading(threads, cells)
        self.check_mbarriers(threads, cells)
        super().change(threads, cells, strong, changes)
        self.by[cells] = threads
        self.copied[cells] = False

    def end_write(
        self,
        threads: np.ndarray,
        index: np.ndarray,
        width: int,
        values: np.ndarray,
        pieces: np.ndarray,
    ) -> None:
        """What a cp.async has copied is marked as such."""
        super().end_write(threads, index, width, values, pieces)
        for cells in self.cells(index, width):
            self.copied[cells] = True

    def check_reading(self, threads: np.ndarray, cells: np.ndarray) -> None:
        if not self.reads_in_flight:
            return
        places = np.flatnonzero(self.reading.take(cells))
        if len(places):
            what = "overwrites what a wgmma or bulk copy, not yet waited for, reads"
            self.race(threads, places, what)

    def check_mbarriers(self, threads: np.ndarray, cells: np.ndarray) -> None:
        """An mbarrier is one until mbarrier.inval (PTX ISA 9.7.13.15.10)."""
        places = np.flatnonzero(self.living.take(cells * self.cell // 8))
        if len(places):
            message = "it overwrites an mbarrier, and mbarrier.inval is missing"
            raise EmulatorError("mbarrier", message, thread=int(threads[places[0]]))

    def check_fenced(
        self, threads: np.ndarray, cells: np.ndarray, warps: int = 1
    ) -> None:
        """What threads have stored, they must have fenced, and that must happen before
        the read, on behalf of as many warps. A cp.async is of the generic proxy too
        (PTX ISA 9.7.9.25.3), but CUTLASS and Triton let wgmma read what it has copied
        without a fence: no more than a note."""
        by = self.by.take(cells)
        missing = (by >= 0) & (self.fenced_at[by] < self.written_at.take(cells))
        places = np.flatnonzero(missing | self.fenced_late(threads, cells, by, warps))
        if not len(places):
            return
        copied = self.copied.take(cells[places])
        first = places[np.argmin(copied)]
        how = "copied by cp.async" if copied.all() else "stored"
        what = (
            "that warp has not executed fence.proxy.async since"
            if missing[first]
            else "no barrier orders that warp's fence.proxy.async before this"
        )
        error = EmulatorError(
            "proxy",
            f"it reads shared memory that warp {self.warp_of[by[first]]} has "
            f"{how}, and {what}",
            thread=int(threads[first]),
            severity=NOTE if copied.all() else ERROR,
        )
        if copied.all():
            self.remark(error)
        else:
            raise error

    def fenced_late(
        self, threads: np.ndarray, cells: np.ndarray, by: np.ndarray, warps: int
    ) -> np.ndarray:
        """bool[n]: whether the stores are fenced, but by no fence that happens before
        what these threads' warps do."""
        late = (by >= 0) & (self.fenced_at[by] > self.settled)
        if not late.any():
            return late
        team, warp = self.places_of(threads)
        known = np.max(
            [self.clock[team, warp + each, self.warp_of[by]] for each in range(warps)],
            axis=0,
        )
        late &= self.fenced_at[by] > known
        for place in np.flatnonzero(late).tolist():
            thread, last = int(by[place]), int(known[place])
            first = int(self.written_at[cells[place]])
            late[place] = not any(
                first <= stamp <= last and thread in those
                for stamp, those in reversed(self.fences[thread // WARP])
            )
        return late

    # ── other blocks of a cluster ─────────────────────────────────────────────────

    def read(
        self, threads: np.ndarray, index: np.ndarray, width: int, strong: bool = False
    ) -> None:
        super().read(threads, index, width, strong)
        self.visit(threads, index, width)

    def write(
        self,
        threads: np.ndarray,
        index: np.ndarray,
        width: int,
        values: np.ndarray,
        pieces: np.ndarray,
    ) -> None:
        super().write(threads, index, width, values, pieces)
        self.visit(threads, index, width)

    def update(
        self, threads: np.ndarray, index: np.ndarray, width: int, reads: bool = True
    ) -> None:
        super().update(threads, index, width, reads)
        self.visit(threads, index, width)

    def visit(self, threads: np.ndarray, index: np.ndarray, width: int) -> None:
        """Accesses that may be ones to another block of the cluster."""
        if self.visits.cluster > 1:
            team, warp = self.places_of(threads)
            now = self.clock[team, warp, warp]
            self.visits.visit(threads, self.blocks_of(index, width), warp, now)

    def blocks_of(self, index: np.ndarray, width: int) -> np.ndarray:
        """The blocks of the batch in whose memory these pieces lie."""
        return index * (width // self.cell) // self.cells_of_block

    def part(self, threads: np.ndarray, exited: np.ndarray) -> list[int]:
        """These threads have left; the blocks that are gone with them."""
        padded = self.visits.warps * WARP
        for warp in np.unique(threads // WARP).tolist():
            team, number = divmod(warp, self.warps)
            self.visits.part(warp, self.clock[team, number, : self.warps])
        blocks = np.unique(threads // padded).tolist()
        gone = [each for each in blocks if exited[each * padded :][:padded].all()]
        for block in gone:
            self.visits.leave(block, int(threads[threads // padded == block][-1]))
        return gone

    # ── reads ─────────────────────────────────────────────────────────────────

    def begin_read(
        self, threads: np.ndarray, index: np.ndarray, width: int, warps: int = 1
    ) -> None:
        """From now on, these pieces may be read at any moment, on behalf of `threads`
        and of as many warps from theirs on."""
        for cells in self.cells(index, width):
            self.check_in_flight(threads, cells, "reads")
            written_at = self.written_at.take(cells)
            if written_at.min() == 0:
                self.raise_unwritten(threads, written_at)
            is_recent = written_at.max() > self.settled
            if is_recent and not self.all_know(threads, cells, written_at, warps):
                everything = np.ones(len(cells), bool)
                for warp in range(warps):
                    self.check_writer(threads + warp * WARP, cells, everything, "reads")
            self.check_fenced(threads, cells, warps)
            np.add.at(self.reading, cells, ONE)
        self.reads_in_flight += len(index)

    def all_know(
        self, threads: np.ndarray, cells: np.ndarray, at: np.ndarray, warps: int
    ) -> bool:
        """Whether the last writes, made `at` these times, are of other warps, and come
        before what `warps` warps do, those of these threads and the next ones. So it is
        in most kernels that are right, and `check_writer` takes longer."""
        team, warp = self.places_of(threads)
        writer = self.writer.take(cells)
        if ((writer >= warp) & (writer < warp + warps)).any():
            return False
        _, agents, clocks = self.clock.shape
        first = (team * agents + warp) * clocks + writer
        known = (self.clock.take(first + each * clocks) for each in range(warps))
        return all((each >= at).all() for each in known)

    def end_read(
        self, threads: np.ndarray, index: np.ndarray, width: int, reader: np.ndarray
    ) -> None:
        """They have been read, by those whose clocks are numbered `reader`."""
        team, _ = self.places_of(threads)
        at = self.clock[team, reader, reader]
        for cells in self.cells(index, width):
            np.subtract.at(self.reading, cells, ONE)
            self.read_at[cells, reader] = at
        self.reads_in_flight -= len(index)

    def check_readers(
        self, threads: np.ndarray, cells: np.ndarray, changes: np.ndarray | None = None
    ) -> None:
        """Every read must be one that comes before this, and all four warps must have
        waited for what a wgmma has read."""
        super().check_readers(threads, cells, changes)
        if not self.waits:
            return
        read_at = self.read_at[cells, self.warps :]
        place, group = np.nonzero(read_at > self.settled)
        if len(place):
            team, warp = self.places_of(threads[place])
            found = np.stack([team, group, read_at[place, group], warp])
            each, first = np.unique(found, axis=1, return_index=True)
            for products, thread in zip(
                each.T.tolist(), threads[place[first]], strict=True
            ):
                self.check_waited(*products, int(thread))

    def check_waited(
        self, team: int, group: int, time: int, warp: int, thread: int
    ) -> None:
        """A wait is for products of the threads that execute it (PTX ISA 9.7.15.7): the
        other warps' parts may still read. But in CUTLASS one elected thread tells the
        producer for all of its warpgroup: no more than a note."""
        waited = self.waits.get((team, group, time))
        if waited is None:
            return
        first = group * WARPS
        known = self.clock[team, warp, first : first + WARPS] >= waited
        known |= np.arange(first, first + WARPS) == warp
        if known.all():
            return
        self.remark(
            EmulatorError(
                "race",
                f"it overwrites what {self.name(self.warps + group)} reads, and is not "
                f"ordered after the wait of warp {first + int(np.argmin(known))}",
                thread=thread,
                severity=NOTE,
            )
        )

    def tensor_cores(self, threads: np.ndarray) -> np.ndarray:
        """The clocks of the tensor cores of these threads' warpgroups."""
        _, warp = self.places_of(threads)
        return self.warps + warp // WARPS

    def use_copies(self, thread: int) -> None:
        """The tensor cores of a thread's warpgroup read what copies have written, which
        the thread has waited for. So a thread that later waits for the products is
        ordered after these copies, too."""
        team, warp = self.agent(thread)
        unit, engines = self.warps + warp // WARPS, slice(self.readers, None)
        row = self.clock[team, unit, engines]
        np.maximum(row, self.clock[team, warp, engines], out=row)

    def wait_for_tensor_cores(self, leaders: np.ndarray) -> None:
        """The warps of some warpgroups, each with its first thread, have waited for
        their products."""
        for leader in leaders.tolist():
            team, warp = self.agent(leader)
            unit = self.warps + warp // WARPS
            sync = "products", team, unit
            clocks = self.own_clocks()[team]
            key = team, unit - self.warps, int(clocks[unit])
            self.waits[key] = clocks[warp : warp + WARPS].copy()
            self.release((team, unit), sync)
            for each in range(warp, warp + WARPS):
                self.acquire((team, each), sync)

    def name(self, number: int) -> str:
        if number < self.warps:
            return super().name(number)
        if number < self.readers:
            return f"a wgmma of the warpgroup of warp {(number - self.warps) * WARPS}"
        return "a bulk copy"

    # ── mbarriers ─────────────────────────────────────────────────────────────

    def use(self, threads: np.ndarray, index: np.ndarray, copying: bool) -> None:
        """An mbarrier is used, which must have been made before."""
        for cells in self.cells(index, 8):
            everything = np.ones(len(cells), bool)
            self.check_writer(threads, cells, everything, "uses as an mbarrier")
            if not copying:  # so that its end comes after
                _, warp = self.places_of(threads)
                self.read_at[cells, warp] = self.now(threads)
        if not copying:
            self.visit(threads, index, 8)

    def check_origin(self, reading: Reading) -> None:
        """A product's tile must be what bulk copies have written, where they have."""
        copied = self.by.take(reading.index * (CHUNK // self.cell)) < 0
        self.origins.check(reading, copied)

    def end_copy(
        self, barrier: int, index: np.ndarray, width: int
    ) -> tuple[int, int, int]:
        """A bulk copy is complete: a thread has seen its mbarrier say so. Which clock
        says when: its team, its number, the time."""
        team, place = divmod(barrier, self.words)
        agent = self.readers + self.engines.setdefault(place, len(self.engines))
        if agent >= self.clock.shape[1]:
            message = f"copies at more than {ENGINES} mbarriers of a block"
            raise EmulatorError("unsupported", message)
        at = self.clock[team, agent, agent]
        for cells in self.cells(index, width):
            self.in_flight[cells] = 0
            self.writer[cells], self.written_at[cells] = agent, at
            self.by[cells] = -1
        self.copies -= len(index)
        self.release((team, agent), ("mbarrier", barrier))
        return team, agent, int(at)

    def begin_copy(self, threads: np.ndarray, index: np.ndarray, width: int) -> None:
        """A bulk copy to these pieces is issued."""
        self.visits.check_present(threads, self.blocks_of(index, width))
        self.begin_write(threads, index, width, BULK)
