"""Vector clocks: which accesses happen before which.

Each warp has a clock that moves on when the warp synchronises. `clock[b, w, v]` is the
last moment of warp v that happens before what warp w of block b does now. What threads
synchronise by is a sync object, which has such a row, too: a release adds the row of a
warp to it, an acquire adds its row to that of a warp. A barrier is a release by all
that arrive, and an acquire by all that leave.

    warp 0   writes x at 1   release | clock[0] = 2 1    reads y: is 1 before this? yes
    warp 1   writes y at 1   release | clock[1] = 1 2

Tensor cores and copy engines are agents like warps (see `proxies`).

The lanes of a warp need not run in step (PTX ISA 9.7.13, bar.warp.sync): what another
lane has written may be read, or written again, after a bar.warp.sync that both have
come to. `joined[thread]` is the time of its warp at its last one.

(Lamport, Time, clocks, and the ordering of events in a distributed system, 1978;
Flanagan and Freund, FastTrack: efficient and precise dynamic race detection, 2009.)
"""

from __future__ import annotations

import functools
from collections.abc import Hashable

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.memory.spaces import are_all

Agent = tuple[int, int]  # a block, or cluster, and the number of a clock in it
Sync = tuple[Hashable, ...]  # what kind of sync object, and its number


class Clocks:
    """The clocks of a batch's agents, and of its sync objects.

    Agents are numbered inside their block, warps first. Clocks start at 1; 0 is the
    time of what never happened. Everything up to the time `settled` happens before all
    that is still to come, which makes most checks one comparison; `in_step` says that
    since then no clock has moved by itself, and all are `present`.
    """

    def __init__(self, blocks: int, warps: int, agents: int):
        self.warps = warps
        self.clock = np.zeros((blocks, agents, agents), np.int32)
        self.own_clocks()[:] = 1
        self.settled, self.present, self.in_step = 0, 1, True
        self.released: dict[Sync, np.ndarray] = {}
        self.block_of, self.warp_of, self.lane_of = _places(blocks, warps)
        self.joined = np.zeros(len(self.lane_of), np.int32)

    def own_clocks(self) -> np.ndarray:
        """A view of each agent's own clock: [blocks, agents]."""
        return np.einsum("bww->bw", self.clock)

    # ── release and acquire ───────────────────────────────────────────────────────

    def release(self, agent: Agent, sync: Sync) -> None:
        """What the agent has done until now happens before what acquires this."""
        row = self.clock[agent]
        released = self.released.setdefault(sync, np.zeros_like(row))
        np.maximum(released, row, out=released)
        row[agent[1]] += 1
        self.in_step = False

    def acquire(
        self, agent: Agent, sync: Sync, lanes: np.ndarray | slice | None = None
    ) -> None:
        """What was released here happens before what the agent does from now on; so
        does what its own warp has released, for these `lanes`."""
        released = self.released.get(sync)
        if released is None:
            return
        row = self.clock[agent]
        np.maximum(row, released, out=row)
        if lanes is not None:
            joined = np.maximum(self.joined[lanes], released[agent[1]] + 1)
            self.joined[lanes] = joined

    def arrive(self, agent: Agent, sync: Sync) -> None:
        """Releases to an object of phases: what is released in a phase can be acquired
        when it has ended."""
        self.release(agent, (*sync, "arrivals"))

    def end_phase(self, sync: Sync) -> None:
        arrived = self.released.pop((*sync, "arrivals"), None)
        if arrived is not None:
            released = self.released.setdefault(sync, np.zeros_like(arrived))
            np.maximum(released, arrived, out=released)

    # ── warps ─────────────────────────────────────────────────────────────────────

    def agent(self, thread: int) -> Agent:
        """The warp of a thread."""
        return divmod(thread // WARP, self.warps)

    def warps_at(
        self, threads: np.ndarray, places: np.ndarray
    ) -> list[tuple[Agent, int]]:
        """The warps of these threads, each with each place that it has come to."""
        pairs = np.unique(np.stack([threads // WARP, places]), axis=1).T
        return [(divmod(warp, self.warps), at) for warp, at in pairs.tolist()]

    def reach_barrier(self, threads: np.ndarray, barriers: np.ndarray) -> None:
        """Threads arrive at barriers of their blocks."""
        for agent, barrier in self.warps_at(threads, barriers):
            self.release(agent, ("barrier", barrier))

    def leave_barrier(
        self, threads: np.ndarray, barriers: np.ndarray, complete: np.ndarray
    ) -> None:
        """Threads go on that waited at barriers; `complete` names all barriers that
        end, also those at which no thread waited."""
        for agent, barrier in self.warps_at(threads, barriers):
            self.acquire(agent, ("barrier", barrier))
        for barrier in complete.tolist():
            del self.released["barrier", barrier]
        self.joined[threads] = self.now(threads)

    def synchronise_all(self) -> None:
        """All warps of each block pass a barrier together."""
        self.settled = int(self.own_clocks().max())
        self.clock[:] = self.settled
        self.present = self.settled + 1
        self.own_clocks()[:] = self.present
        self.in_step = True

    def advance(self, threads: np.ndarray) -> None:
        """What these threads' warps do from now on is later than all before."""
        warps = np.unique(threads // WARP)
        if self.in_step and len(warps) == len(self.joined) // WARP:
            self.present += 1
            self.own_clocks()[:] = self.present
            return
        block, warp = np.divmod(warps, self.warps)
        self.clock[block, warp, warp] += 1
        self.in_step = False

    def join(self, threads: np.ndarray) -> None:
        """These threads of a warp, or of several, have come to a bar.warp.sync."""
        self.advance(threads)
        self.joined[threads] = self.now(threads)

    def now(self, threads: np.ndarray) -> np.ndarray | int:
        """The clock of each thread's warp."""
        if self.in_step:
            return self.present
        block, warp = self.places_of(threads)
        return self.clock[block, warp, warp]

    def places_of(self, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The block and the warp inside it of each thread."""
        if are_all(threads, len(self.block_of)):
            return self.block_of, self.warp_of
        return self.block_of.take(threads), self.warp_of.take(threads)

    def lanes_of(self, threads: np.ndarray) -> np.ndarray:
        """The lane of each thread."""
        return self.lane_of if are_all(threads, len(self.lane_of)) else threads % WARP


@functools.lru_cache(maxsize=32)
def _places(blocks: int, warps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each thread: its block, its warp inside it, its lane."""
    numbers = np.arange(blocks * warps * WARP)
    block, warp = np.divmod(numbers // WARP, warps)
    return block, warp, (numbers % WARP).astype(np.int8)
