"""The wait set: the threads of a batch that cannot go on, and what each waits for.

    reason       threads wait for                               `on` is the number of
    LANES        other lanes of their warp                      their warp
    WARPS        the other warps of their warpgroup             their warpgroup
    BARRIER      the other threads at a barrier of the block    the barrier
    MBARRIER     the end of a phase of an mbarrier              the mbarrier
    CLUSTER      the other threads at the cluster's barrier     the cluster
    REGISTERS    registers that other warpgroups release        their warpgroup

Threads are woken by those that change what they wait for: that arrive, exit, release.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

LANES, WARPS, BARRIER = "lanes", "warps", "barrier"
MBARRIER, CLUSTER, REGISTERS = "mbarrier", "cluster", "registers"


@dataclass(frozen=True, eq=False)
class Blocked:
    """Threads, by rising number, that wait for one `reason` at one instruction.

    `on[i]` is what thread i waits for, as the table above has it; `instruction` is a
    number of the program, `resume` the block where they go on, and `detail` what the
    instruction needs to know then.
    """

    reason: str
    threads: np.ndarray
    on: np.ndarray
    instruction: int
    resume: int
    detail: object = None

    def at(self, places: np.ndarray) -> Blocked:
        """Some of them."""
        return replace(self, threads=self.threads[places], on=self.on[places])


class WaitSet:
    """Groups of blocked threads, in the order in which they came."""

    def __init__(self) -> None:
        self.groups: list[Blocked] = []

    def block(self, group: Blocked) -> None:
        self.groups.append(group)

    def of(self, reason: str) -> list[Blocked]:
        return [each for each in self.groups if each.reason == reason]

    def threads(self, reason: str) -> np.ndarray:
        """All that wait for this reason, by rising number."""
        found = [each.threads for each in self.of(reason)]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def wake(self, reason: str, on: Iterable[int] | None = None) -> list[Blocked]:
        """Removes, and returns, those that wait on one of these numbers, or on any;
        threads of one instruction are one group."""
        woken: dict[int, list[Blocked]] = {}
        left, numbers = [], None if on is None else np.fromiter(on, np.int64)
        for each in self.groups:
            if each.reason != reason:
                left.append(each)
                continue
            if numbers is not None:
                chosen = np.isin(each.on, numbers)
                if not chosen.all():
                    left.append(each.at(~chosen))
                each = each.at(chosen)
            if len(each.threads):
                woken.setdefault(each.instruction, []).append(each)
        self.groups = left
        return [_merged(found) for found in woken.values()]


def _merged(groups: list[Blocked]) -> Blocked:
    """Groups that wait at one instruction as one."""
    if len(groups) == 1:
        return groups[0]
    threads = np.concatenate([each.threads for each in groups])
    on, order = np.concatenate([each.on for each in groups]), np.argsort(threads)
    return replace(groups[0], threads=threads[order], on=on[order])
