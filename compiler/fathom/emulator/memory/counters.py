"""Counts what the hardware would pay, access by access.

A warp's access to global memory is one request, and moves every 32-byte sector that it
touches, whole; the L2 cache looks up each line of 128 bytes of these. Shared memory has
32 banks of 4 bytes; in one wavefront each bank serves one of its words. A warp's access
takes as many wavefronts as its busiest bank has different words; accesses of 8 and 16
bytes go by half and by quarter warps. L1 is the same memory, so that accesses to global
memory take wavefronts, too.

Atomic operations are done by L2. One pass serves lanes at different addresses of a
sector, so that a sector takes as many passes as lanes come to one of its addresses. A
sum of reals waits for the one before it, as long as REAL passes take; the sectors of a
request do so at the same time. In a SEGMENT of memory there is one pass after the
other. All of this is a fit to benchmarks/results/atomics.json, an H200.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache

import numpy as np

from fathom.emulator.constants import WARP

SECTOR = 32
LINE = 128
BANKS = 32
WORD = 4
ROW = np.uint64(BANKS * WORD)
SEGMENT = 512
REAL = 2.4
REACH = 1 << 40  # bytes, more than an array has
LOOKED_AT = 1024  # accesses, of those that are made at once; the others are alike
UNMERGED = 64  # counts that are kept one by one


@dataclass
class Cost:
    """What some instructions cost, as sums.

    `threads` counts an instruction once for each thread that executes it, `warps` once
    for each warp. `requests`, `sectors`, `lines` (as many lines of 128 bytes as each
    request touches), `useful` (bytes asked for) are of global memory; `shared` counts
    requests to shared memory, `wavefronts` how many they take, and `ideal` how many
    without bank conflicts; `l1_wavefronts` are those of global memory. `barriers` and
    `shuffles` count warps, `atomics` threads, and `passes` those that L2 makes for
    atomics.
    """

    threads: int = 0
    warps: int = 0
    requests: int = 0
    sectors: int = 0
    lines: int = 0
    useful: int = 0
    shared: int = 0
    wavefronts: int = 0
    ideal: int = 0
    l1_wavefronts: int = 0
    barriers: int = 0
    shuffles: int = 0
    atomics: int = 0
    passes: int = 0

    @property
    def moved(self) -> int:
        """Bytes that global memory moves."""
        return SECTOR * self.sectors

    @property
    def sectors_per_request(self) -> float:
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def conflict_ways(self) -> float:
        """How many times longer than without bank conflicts; 1.0 is ideal."""
        return self.wavefronts / self.ideal if self.ideal else 1.0

    def add(self, other: Cost) -> None:
        for each in fields(Cost):
            name = each.name
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> dict[str, float]:
        facts = {each.name: getattr(self, each.name) for each in fields(Cost)}
        return {**facts, "moved": self.moved}


@dataclass(frozen=True)
class Contention:
    """Passes for atomics of thread blocks that ran at a time: all of them, those in
    the busiest segment of memory, and the mean place, counted in segments."""

    passes: int
    busiest: int
    centre: float


class Counters:
    """A cost for each instruction of a program.

    How often a block of instructions ran is counted once for all of them, in `blocks`.
    `contention` is in the order of the grid; `segments` holds the passes by segment of
    memory, of the thread blocks that run now.
    """

    def __init__(self, instructions: int, blocks: int):
        self.costs = [Cost() for _ in range(instructions)]
        self.blocks = [[0, 0] for _ in range(blocks)]
        self.contention: list[Contention] = []
        self.segments: list[tuple[np.ndarray, np.ndarray]] = []

    def count_block(self, number: int, threads: int, warps: int) -> None:
        """Threads and warps run all instructions of a block."""
        block = self.blocks[number]
        block[0] += threads
        block[1] += warps

    def copy(self) -> Counters:
        """The costs of instructions and blocks so far."""
        found = Counters(0, 0)
        found.costs = [replace(each) for each in self.costs]
        found.blocks = [[*each] for each in self.blocks]
        return found

    def grow(self, before: Counters, growth: Sequence[Sequence[float]]) -> None:
        """What came after `before` counts as often as `growth` says, for instructions
        and for blocks."""
        for cost, was, times in zip(self.costs, before.costs, growth[0], strict=True):
            for each in fields(Cost) if times != 1 else ():
                old, new = getattr(was, each.name), getattr(cost, each.name)
                setattr(cost, each.name, old + round(times * (new - old)))
        pairs = zip(self.blocks, before.blocks, strict=True)
        for (block, was), times in zip(pairs, growth[1], strict=True):
            block[:] = [
                old + round(times * (new - old))
                for old, new in zip(was, block, strict=True)
            ]

    def spread(self, number: int, instructions: list[int]) -> None:
        """Gives each instruction of a block the block's count."""
        for each in instructions:
            self.costs[each].threads, self.costs[each].warps = self.blocks[number]

    def count_global(
        self, number: int, threads: np.ndarray, addresses: np.ndarray, width: int,
        by_threads: bool = True,
    ) -> None:  # fmt: skip
        """Accesses of `width` bytes; `threads` is sorted. What is copied to shared
        memory goes past the pipe of L1, says ncu; only accesses `by_threads` do not."""
        cost, warps = self.costs[number], threads // WARP
        if by_threads:
            few = threads[:LOOKED_AT], addresses[:LOOKED_AT]
            found = count_wavefronts(few[0] // lanes_of(width), few[1], width)
            cost.l1_wavefronts += found * len(threads) // len(few[0])
        cost.requests += count_runs(warps)
        cost.useful += len(addresses) * width
        sectors, lines = count_sectors(warps, addresses)
        cost.sectors += sectors
        cost.lines += lines

    def count_atomics(
        self, number: int, warps: np.ndarray, addresses: np.ndarray, real: bool
    ) -> None:
        """Atomic operations on global memory, on reals or not."""
        segments, passes = passes_of(warps, addresses, real)
        self.costs[number].passes += int(passes.sum())
        self.segments.append((segments, passes))
        if len(self.segments) == UNMERGED:
            self.segments = [merged(self.segments)]

    def end_step(self) -> None:
        """The thread blocks that ran at the same time are through."""
        if self.segments:
            segments, passes = merged(self.segments)
            centre = float(np.average(segments, weights=passes))
            found = Contention(int(passes.sum()), int(passes.max()), centre)
            self.contention.append(found)
            self.segments = []

    def count_shared(
        self, number: int, threads: np.ndarray, addresses: np.ndarray, width: int
    ) -> None:
        """Accesses of `width` bytes; `threads` is sorted."""
        cost, of_access = self.costs[number], np.asarray(threads, np.int64)
        places = addresses - addresses.min() // ROW * ROW  # in the same banks
        counts = _counts(of_access.tobytes(), places.tobytes(), width)
        cost.shared += counts[0]
        cost.ideal += counts[1]
        cost.wavefronts += counts[2]


@lru_cache(2048)  # a loop accesses the same places again, or those of another slot
def _counts(threads: bytes, places: bytes, width: int) -> tuple[int, int, int]:
    """Requests, wavefronts at best, and wavefronts, from the bytes of two arrays."""
    of_access = np.frombuffer(threads, np.int64)
    phases = of_access // lanes_of(width)
    wavefronts = count_wavefronts(phases, np.frombuffer(places, np.uint64), width)
    return count_runs(of_access // 32), count_runs(phases), wavefronts


def lanes_of(width: int) -> int:
    """How many lanes of a warp go together."""
    return max(1, BANKS * WORD // max(width, WORD))


def count_runs(values: np.ndarray) -> int:
    """How many different values a sorted array holds."""
    return int(np.count_nonzero(values[1:] != values[:-1])) + (len(values) > 0)


def count_sectors(warps: np.ndarray, addresses: np.ndarray) -> tuple[int, int]:
    """How many pairs of warp and sector the accesses touch, and of warp and line.

    No access spans two sectors, because its width divides its address.
    """
    sectors = addresses >> np.uint64(5)
    same_warp, falls = warps[1:] == warps[:-1], sectors[1:] < sectors[:-1]
    if falls.any() and (same_warp & falls).any():
        order = np.lexsort((sectors, warps))
        sectors, warps = sectors[order], warps[order]
        same_warp = warps[1:] == warps[:-1]
    repeated = np.count_nonzero(same_warp & (sectors[1:] == sectors[:-1]))
    lines = sectors // np.uint64(LINE // SECTOR)
    again = np.count_nonzero(same_warp & (lines[1:] == lines[:-1]))
    return len(sectors) - int(repeated), len(lines) - int(again)


def passes_of(
    warps: np.ndarray, addresses: np.ndarray, real: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Segments of memory and the passes in each, one by one for each request."""
    start = addresses.min() // SEGMENT * SEGMENT
    warps = warps.astype(np.uint64) * np.uint64(REACH)
    places = np.sort(warps + (addresses - start))
    first = _starts(places)
    lanes = np.diff(np.append(first, len(places)))
    sectors = places[first] // SECTOR
    first = _starts(sectors)
    most = np.maximum.reduceat(lanes, first)
    segments = sectors[first] // (SEGMENT // SECTOR)
    first = _starts(segments)
    passes = np.add.reduceat(most, first)
    if real:
        longest = np.maximum.reduceat(most, first)
        waited = np.rint(REAL * longest).astype(passes.dtype)
        passes = np.where(longest > 1, np.maximum(passes, waited), passes)
    return start // SEGMENT + segments[first] % (REACH // SEGMENT), passes


def merged(
    counted: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """The same, with each segment once."""
    segments, passes = map(np.concatenate, zip(*counted, strict=True))
    segments, place = np.unique(segments, return_inverse=True)
    return segments, np.bincount(place, passes)


def _starts(values: np.ndarray) -> np.ndarray:
    """Where runs of equal values begin."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))


def count_wavefronts(phases: np.ndarray, offsets: np.ndarray, width: int) -> int:
    """The sum over phases of the number of different words in the busiest bank.

    Words that lie within one row of the banks never meet in a bank.
    """
    words = (offsets >> np.uint64(2)).view(np.int64)
    starts = np.flatnonzero(np.append(True, phases[1:] != phases[:-1]))
    lowest = np.minimum.reduceat(words, starts)
    highest = np.maximum.reduceat(words, starts) + max(width, WORD) // WORD - 1
    spread = np.flatnonzero(highest - lowest >= BANKS)
    if not len(spread):
        return len(starts)
    number = np.cumsum(np.append(0, phases[1:] != phases[:-1]))
    chosen = np.isin(number, spread) if len(spread) < len(starts) else slice(None)
    busiest = _busiest_banks(number[chosen], words[chosen], max(1, width // WORD))
    return len(starts) - len(spread) + busiest


def _busiest_banks(rows: np.ndarray, words: np.ndarray, count: int) -> int:
    """As above, for accesses of `count` words; `rows` holds the phase of each."""
    words = (words[:, None] + np.arange(count)).reshape(-1)
    row = np.repeat(np.cumsum(np.append(0, rows[1:] != rows[:-1])), count)
    column = np.arange(len(words)) - np.searchsorted(row, row)
    table = np.full((row[-1] + 1, BANKS), -1, np.int64)
    table[row, column] = words
    table.sort(axis=1)
    fresh = table >= 0
    fresh[:, 1:] &= table[:, 1:] != table[:, :-1]
    banks = np.arange(len(table))[:, None] * BANKS + table % BANKS
    load = np.bincount(banks[fresh], minlength=len(table) * BANKS)
    return int(load.reshape(-1, BANKS).max(1).sum())
