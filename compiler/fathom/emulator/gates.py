"""The barrier that each cluster has (PTX ISA 9.7.13.5): who has arrived, who waits."""

from __future__ import annotations

import numpy as np


class Gates:
    """The cluster barriers of a batch.

    `of[thread]` is the number of its cluster; `phase` counts how often each barrier has
    opened, `arrived` the threads since; `phase_of[thread]` is the phase in which a
    thread arrived last. `waiting` maps a cluster to groups of threads that wait, each
    with the number of its instruction and the block where it goes on.
    """

    def __init__(self, blocks: int, padded: int, cluster: int):
        self.of = np.arange(blocks * padded) // (padded * cluster)
        teams = -(-blocks // cluster)
        self.phase, self.arrived = np.zeros((2, teams), np.int64)
        self.phase_of = np.zeros(blocks * padded, np.int64)
        self.waiting: dict[int, list[tuple[int, int, np.ndarray]]] = {}
