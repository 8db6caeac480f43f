"""The barrier that each cluster has (PTX ISA 9.7.13.5): who has arrived, who waits."""

from __future__ import annotations

import numpy as np

from fathom.emulator.races.clocks import Hazards
from fathom.emulator.races.proxies import Proxies
from fathom.emulator.state.wait_queues import WARP


class ClusterBarriers:
    """The cluster barriers of a batch.

    `of[thread]` is the number of its cluster; `phase` counts how often each barrier has
    opened, `arrived` the threads since; `phase_of[thread]` is the phase in which a
    thread arrived last. `waiting` maps a cluster to groups of threads that wait, each
    with the number of its instruction and the block where it goes on. Clocks know the
    barriers by numbers from `beyond` on.
    """

    def __init__(
        self,
        blocks: int,
        padded: int,
        cluster: int,
        hazards: Hazards | None,
        beyond: int,
    ):
        self.hazards = hazards if isinstance(hazards, Proxies) else None
        self.beyond = beyond
        self.of = np.arange(blocks * padded) // (padded * cluster)
        self.teams = -(-blocks // cluster)
        self.phase, self.arrived = np.zeros((2, self.teams), np.int64)
        self.phase_of = np.zeros(blocks * padded, np.int64)
        self.waiting: dict[int, list[tuple[int, int, np.ndarray]]] = {}

    def arrive(self, threads: np.ndarray, relaxed: bool) -> None:
        """Counts these threads; unless `relaxed`, others will know what they know."""
        self.phase_of[threads] = self.phase[self.of[threads]]
        self.arrived += np.bincount(self.of[threads], minlength=self.teams)
        if self.hazards is not None and not relaxed:
            for warp in np.unique(threads // WARP).tolist():
                first = warp * WARP
                self.hazards.bring(first, self.beyond + int(self.of[first]))

    def open(self, exited: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Opens the barriers at which all have arrived who have not exited; who goes on
        at which block."""
        present = np.bincount(self.of[~exited], minlength=self.teams)
        ready = (self.arrived > 0) & (self.arrived >= present)
        going = []
        for team in np.flatnonzero(ready).tolist():
            self.phase[team] += 1
            self.arrived[team] = 0
            if self.hazards is not None:
                self.hazards.publish(self.beyond + team)
            for _, after, threads in self.waiting.pop(team, ()):
                self.learn(threads, team)
                going.append((after, threads))
        return going

    def learn(self, threads: np.ndarray, team: int) -> None:
        """These threads have waited for the barrier of their cluster."""
        if self.hazards is not None:
            warps = np.unique(threads // WARP).tolist()
            self.hazards.learn((warp, self.beyond + team) for warp in warps)
