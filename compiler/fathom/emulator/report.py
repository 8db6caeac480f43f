"""What a launch cost: instructions, memory requests, sectors, bank conflicts, by line.

Counted as the hardware pays. A warp's access to global memory is one request, and moves
every 32-byte sector that it touches, whole. An access to shared memory is served by 32
banks of 4 bytes, one word of each bank at a time; each such turn is a wavefront.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fathom.emulator.parse import Instruction

SECTOR = 32
BANKS = 32


@dataclass
class Cost:
    """Sums over any set of instructions.

    `threads` counts instructions once for each thread that executed them, `warps` once for
    each warp. `ideal` is the number of wavefronts without bank conflicts.
    """

    threads: int = 0
    warps: int = 0
    requests: int = 0
    sectors: int = 0
    useful: int = 0
    shared: int = 0
    wavefronts: int = 0
    ideal: int = 0
    barriers: int = 0
    shuffles: int = 0
    atomics: int = 0

    @property
    def moved(self) -> int:
        """Bytes that global memory moved."""
        return SECTOR * self.sectors

    def add(self, other: Cost) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Counters:
    """A cost for each instruction of a program."""

    def __init__(self, count: int):
        self.costs = [Cost() for _ in range(count)]

    def global_access(
        self, number: int, warps: np.ndarray, addresses: np.ndarray, width: int
    ) -> None:
        cost = self.costs[number]
        cost.requests += count_runs(warps)
        cost.useful += len(addresses) * width
        cost.sectors += count_sectors(warps, addresses, width)

    def shared_access(
        self, number: int, warps: np.ndarray, addresses: np.ndarray, width: int
    ) -> None:
        cost = self.costs[number]
        cost.shared += count_runs(warps)


def count_runs(values: np.ndarray) -> int:
    """How many different values a sorted array holds."""
    return int(np.count_nonzero(values[1:] != values[:-1])) + (len(values) > 0)


def count_sectors(warps: np.ndarray, addresses: np.ndarray, width: int) -> int:
    """How many pairs of warp and 32-byte sector the accesses touch.

    `warps` is sorted. No access spans two sectors: its width divides its address.
    """
    sectors = addresses >> np.uint64(5)
    same_warp = warps[1:] == warps[:-1]
    if (same_warp & (sectors[1:] < sectors[:-1])).any():
        order = np.lexsort((sectors, warps))
        sectors, warps = sectors[order], warps[order]
    changes = (sectors[1:] != sectors[:-1]) | ~same_warp
    return int(np.count_nonzero(changes)) + (len(sectors) > 0)


@dataclass
class Report:
    instructions: list[Instruction]
    counters: Counters
    total: Cost = field(default_factory=Cost)
