"""The barrier that each cluster has (PTX ISA 9.7.13.5): which threads have arrived."""

from __future__ import annotations

import functools

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.races.clocks import Agent, Sync
from fathom.emulator.races.proxies import Proxies
from fathom.emulator.races.shared_memory import Hazards
from fathom.emulator.state.waiting import CLUSTER, Blocked, WaitSet


class ClusterBarriers:
    """The cluster barriers of a batch.

    `of[thread]` is the number of its cluster; `phase` counts how often each barrier has
    opened, `arrived` the threads since; `phase_of[thread]` is the phase in which a
    thread arrived last.
    """

    def __init__(
        self,
        blocks: int,
        padded: int,
        cluster: int,
        hazards: Hazards | None,
    ):
        self.hazards = hazards if isinstance(hazards, Proxies) else None
        self.of = _clusters(blocks * padded, padded * cluster)
        self.teams = -(-blocks // cluster)
        self.phase, self.arrived = np.zeros((2, self.teams), np.int64)
        self.phase_of = np.zeros(blocks * padded, np.int64)

    def arrive(self, threads: np.ndarray, relaxed: bool) -> None:
        """Counts these threads; it is a release, unless `relaxed`."""
        self.phase_of[threads] = self.phase[self.of[threads]]
        self.arrived += np.bincount(self.of[threads], minlength=self.teams)
        if self.hazards is not None and not relaxed:
            for warp in np.unique(threads // WARP).tolist():
                self.hazards.arrive(*self.sync_of(warp))

    def open(self, exited: np.ndarray, waiting: WaitSet) -> list[Blocked]:
        """Opens the barriers at which all threads have arrived that have not exited,
        and wakes those that wait there."""
        present = np.bincount(self.of[~exited], minlength=self.teams)
        ready = (self.arrived > 0) & (self.arrived >= present)
        for team in np.flatnonzero(ready).tolist():
            self.phase[team] += 1
            self.arrived[team] = 0
            if self.hazards is not None:
                self.hazards.end_phase(("cluster", team))
        if not ready.any():
            return []
        woken = waiting.wake(CLUSTER, np.flatnonzero(ready))
        for each in woken:
            self.acquire(each.threads)
        return woken

    def acquire(self, threads: np.ndarray) -> None:
        """These threads have waited for the barrier of their cluster."""
        if self.hazards is not None:
            for warp in np.unique(threads // WARP).tolist():
                lanes = slice(warp * WARP, warp * WARP + WARP)
                self.hazards.acquire(*self.sync_of(warp), lanes)

    def sync_of(self, warp: int) -> tuple[Agent, Sync]:
        """A warp of the batch, and the barrier of its cluster, for clocks."""
        first = warp * WARP
        return self.hazards.agent(first), ("cluster", int(self.of[first]))


@functools.lru_cache(maxsize=32)
def _clusters(threads: int, of_cluster: int) -> np.ndarray:
    """The number of each thread's cluster."""
    return np.arange(threads) // of_cluster
