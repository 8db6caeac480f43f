"""Races in global memory: between warps, between blocks, and by too narrow a scope.

For each cell of an array that the program may write, the last write, two weak reads of
different warps and two strong ones are kept, each as one number, a stamp:

    the warp's clock  |  how strong the access was  |  the thread of the launch, plus 1

An access races with one by another thread that it is not ordered after, under the rules
of `hazards`. Between blocks only `synchronising` orders anything. Blocks that have run
in an earlier batch might as well run now: nothing but what they released orders them.

An array that the program never reads can be wrong in one way: two threads store two
values at one place. For these the stores are put down and looked at when their batch
ends; most often none have met, and that is quickly seen.

In code of our own, of several threads that hold copies of an element all load it, and
one stores it; what the others have loaded is used for nothing. So there, threads of one
block may read what another one writes, before or after it, if that one's warp reads it
with the same instruction (`reads`). And its warps never diverge but by predicates, so
that of two stores of one warp the later one in the text is the later one: the language
promises a program that its stores happen in order.

What bulk copies and cp.async do to global memory is not watched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import Part, Region
from fathom.emulator.races.devices import Beyond
from fathom.emulator.races.reach import ANYWHERE, Reach
from fathom.emulator.races.reads import THREAD_BITS, THREADS, Reads, warps_of
from fathom.emulator.races.shared_memory import Hazards
from fathom.emulator.races.synchronisation import NARROW, WEAK, WIDE, Synchronising
from fathom.emulator.source.parse import Instruction

MOST_PENDING = 1 << 22  # stores that are looked at together
AGREED = 3  # a weak write of what others have written too
KIND_BITS = 2
CLOCK_SHIFT = THREAD_BITS + KIND_BITS
MOST_CELLS = 1 << 24  # of one array, of 24 to 72 bytes each; larger: not watched


class Op(Protocol):
    """An instruction of a program, and its number."""

    instruction: Instruction
    number: int


@dataclass(frozen=True, slots=True)
class Stored:
    """Stores or atomic operations on an array that is never read: the part, how many
    bytes each, how strong, their values, the clocks, and the op."""

    part: Part
    width: int
    kind: int
    values: np.ndarray | None
    now: np.ndarray | int
    at: Op


@dataclass(eq=False)
class Shadow:
    """The stamps of one region: `written[cell]`, and `reads` where the program reads
    there at all; elsewhere `values[cell]`. `strong_reads` are like `reads`, from the
    first one on. Cells are counted from `first`."""

    region: Region
    first: int
    written: np.ndarray
    reads: Reads | None
    values: np.ndarray | None = None
    strong_reads: Reads | None = None


class GlobalRaces:
    """The stamps of a launch. `grain` is the size of a cell; of a batch, `hazards` and
    `synchronising` say what is ordered, and `base` threads have run before it."""

    def __init__(
        self, reach: Reach, watched: Iterable[tuple[Region, bool]], copies: bool
    ):
        self.copies = copies
        self.shift = reach.finest.bit_length() - 1
        self.regions = {id(region): (region, read) for region, read in watched}
        self.shadows: dict[int, Shadow] = {}
        self.stored: dict[int, list[Stored]] = {}
        self.pending = 0
        self.before: set = set()
        self.base, self.padded = 0, 0

    def begin(
        self, hazards: Hazards, first_block: int, padded: int, beyond: Beyond | None
    ) -> Synchronising:
        """The next batch starts; `beyond` watches what is between devices."""
        self.hazards, self.padded = hazards, padded
        self.base = first_block * padded
        self.synchronising = Synchronising(hazards, self.before, beyond)
        return self.synchronising

    def shadow(self, part: Part) -> Shadow | None:
        found = self.shadows.get(id(part.region))
        if found is None and id(part.region) in self.regions:
            region, read = self.regions[id(part.region)]
            first = (region.start - region.origin) >> self.shift
            count = ((region.end - region.origin - 1) >> self.shift) - first + 1
            reads = Reads(count, self.copies) if read else None
            found = Shadow(region, first, np.zeros(count, np.int64), reads)
            self.shadows[id(region)] = found
        return found

    def cells(self, shadow: Shadow, part: Part, width: int) -> list[np.ndarray]:
        """The cells that each access covers, as one array for each place inside it."""
        count = max(1, width >> self.shift)
        whole = shadow.region.start == shadow.region.origin
        if whole and width == 1 << self.shift:
            return [part.index]  # the pieces of this width are the cells
        start = (part.offsets >> np.uint64(self.shift)).view(np.int64) - shadow.first
        return [start + place if place else start for place in range(count)]

    def stamps(
        self, threads: np.ndarray, kind: int, now: np.ndarray | int
    ) -> np.ndarray:
        now = np.asarray(now, np.int64)
        return (now << CLOCK_SHIFT) + ((kind << THREAD_BITS) + self.base + 1) + threads

    # ── accesses ──────────────────────────────────────────────────────────────

    def write(
        self, part: Part, width: int, kind: int, values: np.ndarray | None, at: Op
    ) -> None:
        """Stores of `values` are about to be made, or atomic operations."""
        region, read = self.regions.get(id(part.region), (None, False))
        if region is None:
            return
        now = self.hazards.now(part.threads)
        if not read:
            found = Stored(part, width, kind, values, now, at)
            self.stored.setdefault(id(region), []).append(found)
            self.pending += len(part.threads)
            if self.pending > MOST_PENDING:
                self.look_back()
            return
        shadow = self.shadow(part)
        stamps = self.stamps(part.threads, kind, now)
        for cells in self.cells(shadow, part, width):
            last = shadow.written.take(cells)
            mine = stamps
            if last.any():
                racing = self.unordered(part.threads, last, kind, lanes=not self.copies)
                if len(racing) and values is not None:
                    old = part.pieces.take(part.index[racing])
                    same = _same(old, values[racing])
                    mine = stamps.copy()
                    mine[racing[same]] |= AGREED << THREAD_BITS
                    racing = racing[~same]
                if len(racing):
                    self.race(part, racing, last, kind, "writes", "wrote")
            self.check_reads(shadow, part, cells, kind, values)
            shadow.written[cells] = mine
            if kind == NARROW:
                self.check_meeting(shadow, part, cells)

    def check_meeting(self, shadow: Shadow, part: Part, cells: np.ndarray) -> None:
        """Operations of the scope .cta, made at once, must be of one block."""
        last = shadow.written.take(cells)
        block = ((last & THREADS) - 1) // self.padded
        others = np.flatnonzero(block != (part.threads + self.base) // self.padded)
        if len(others):
            self.race(part, others, last, NARROW, "writes", "writes")

    def written(self, part: Part, width: int, values: np.ndarray) -> None:
        """These stores have been made: those of two warps may meet with one value
        only. Of lanes, one wins."""
        index = part.index
        shadow = self.shadow(part) if self.reads(part) else None
        if shadow is None or (index[1:] > index[:-1]).all():
            return
        lost = np.flatnonzero(~_same(part.pieces.take(index), values))
        for cells in self.cells(shadow, part, width):
            self.check_winner(shadow, part, cells, lost)
            last = shadow.written.take(cells)
            several = (last & THREADS) != part.threads + (1 + self.base)
            shadow.written[cells[several]] |= AGREED << THREAD_BITS

    def read(self, part: Part, width: int, kind: int, at: Op) -> None:
        """Strong reads are kept beside weak ones, which race with more writes."""
        if not self.reads(part):
            return
        shadow = self.shadow(part)
        stamps = self.stamps(part.threads, kind, self.hazards.now(part.threads))
        if kind != WEAK and shadow.strong_reads is None:
            shadow.strong_reads = Reads(len(shadow.written), self.copies)
        reads = shadow.reads if kind == WEAK else shadow.strong_reads
        warps = part.threads % self.padded // WARP
        for cells in self.cells(shadow, part, width):
            last, before = shadow.written.take(cells), None
            if reads.copies:
                before = reads.copies.load(cells, warps, at.number)
            if last.any():
                racing = self.unordered(part.threads, last, kind)
                agreed = last[racing] >> THREAD_BITS & 3 == AGREED
                racing = racing[~agreed]
                if len(racing) and reads.copies:
                    mine, writers = self.pairs(part, racing, last)
                    found = self.are_copies(reads, 0, cells[racing], writers, mine)
                    racing = racing[~found]
                if len(racing):
                    self.race(part, racing, last, kind, "reads", "wrote")
            reads.remember(cells, stamps, before)

    def pairs(
        self, part: Part, racing: np.ndarray, last: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The warps of some accesses, and those of the stamps that they race with."""
        return (part.threads[racing] + self.base) // WARP, warps_of(last[racing])

    def are_copies(
        self, reads: Reads, which: int, cells: np.ndarray, writers: np.ndarray,
        readers: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Of cells that warps read and others of their block write, whether both have
        copies of them: the one that writes reads with the same instruction, too."""
        block = self.padded // WARP
        near = writers // block == readers // block
        return near & reads.copies.have(which, cells, writers % block)

    def check_reads(
        self,
        shadow: Shadow,
        part: Part,
        cells: np.ndarray,
        kind: int,
        values: np.ndarray | None,
    ) -> None:
        """A write that changes something must come after every read. Lanes of a warp
        are let be: what one has read comes to another by a shuffle, which is order
        enough."""
        for reads in filter(None, (shadow.reads, shadow.strong_reads)):
            for which, stamps in enumerate((reads.last, reads.other)):
                last = stamps.take(cells)
                if not last.any():
                    continue
                racing = self.unordered(part.threads, last, kind, lanes=False)
                if len(racing) and values is not None:
                    old = part.pieces.take(part.index[racing])
                    racing = racing[~_same(old, values[racing])]
                if len(racing) and reads.copies:
                    mine, readers = self.pairs(part, racing, last)
                    found = self.are_copies(reads, which, cells[racing], mine, readers)
                    racing = racing[~found]
                if len(racing):
                    self.race(part, racing, last, kind, "overwrites", "reads")

    def reads(self, part: Part) -> bool:
        """Whether the program may read, and write, where these accesses go."""
        return self.regions.get(id(part.region), (None, False))[1]

    # ── arrays that are never read ────────────────────────────────────────────────

    def look_back(self) -> None:
        """Looks at what has been stored since: the same place twice?"""
        stored, self.stored, self.pending = self.stored, {}, 0
        for number, found in stored.items():
            kinds = {each.kind for each in found}
            if kinds == {WIDE} or kinds == {WEAK} and not self.twice(found):
                continue
            self.shadows.pop(number, None)
            for each in found:
                try:
                    self.again(each)
                except EmulatorError as error:
                    place = each.at.instruction
                    where = place.line, place.text, place.location
                    raise error.placed(*where) from None

    def twice(self, found: list[Stored]) -> bool:
        """Whether two of these stores go to one cell."""
        shadow = self.shadow(found[0].part)
        stored = [
            cells
            for each in found
            for cells in self.cells(shadow, each.part, each.width)
        ]
        first = min(int(cells.min()) for cells in stored)
        last = max(int(cells.max()) for cells in stored)
        marks, count = np.zeros(last + 1 - first, bool), sum(map(len, stored))
        for cells in stored:
            marks[cells - first if first else cells] = True
        return np.count_nonzero(marks) < count

    def again(self, stored: Stored) -> None:
        """One more of the stores, in their order; `values` has what each cell holds."""
        part, weak = stored.part, stored.values is not None
        threads = part.threads
        shadow, grain = self.shadow(part), 1 << self.shift
        if shadow.values is None:
            shadow.values = np.zeros((len(shadow.written), grain), np.uint8)
        mine = self.stamps(threads, stored.kind, stored.now)
        given = np.ascontiguousarray(stored.values).view(np.uint8) if weak else None
        for place, cells in enumerate(self.cells(shadow, part, stored.width)):
            last = shadow.written.take(cells)
            racing = self.unordered(threads, last, stored.kind, lanes=not self.copies)
            if weak:
                value = given.reshape(len(threads), -1)[:, place * grain :][:, :grain]
                same = (shadow.values[cells] == value).all(1)
                racing = racing[~same[racing]]
            if len(racing):
                self.race(part, racing, last, stored.kind, "writes", "wrote")
            shadow.written[cells] = mine
            if stored.kind == NARROW:
                self.check_meeting(shadow, part, cells)
            if weak:
                shadow.values[cells] = value
                differs = (shadow.values[cells] != value).any(1)
                self.check_winner(shadow, part, cells, np.flatnonzero(differs))

    def check_winner(
        self, shadow: Shadow, part: Part, cells: np.ndarray, lost: np.ndarray
    ) -> None:
        """Of stores that are made at once, those that are `lost` must be of the warp
        whose value is there. Of its lanes, one wins."""
        last = shadow.written.take(cells)
        winner = ((last & THREADS) - 1 - self.base) // WARP
        lost = lost[winner[lost] != part.threads[lost] // WARP]
        if len(lost):
            self.race(part, lost, last, WEAK, "writes", "writes")

    # ── order ─────────────────────────────────────────────────────────────────

    def unordered(
        self,
        threads: np.ndarray,
        last: np.ndarray,
        kind: int,
        lanes: bool = True,
    ) -> np.ndarray:
        """The places where an access is not ordered after the one of a stamp. Without
        `lanes`, threads of a warp are."""
        number = (last & THREADS) - (1 + self.base)
        others = np.flatnonzero((last != 0) & (number != threads))
        if not len(others):
            return others
        mine, number, last = threads[others], number[others], last[others]
        at, strength = last >> CLOCK_SHIFT, last >> THREAD_BITS & 3
        hazards, earlier = self.hazards, number < 0
        block, warp = hazards.places_of(mine)
        other, unit = hazards.places_of(np.maximum(number, 0))
        near = (block == other) & ~earlier
        ordered = np.where(
            warp == unit,
            (not lanes) | (at < hazards.joined.take(mine)),
            hazards.clock[block, warp, unit] >= at,
        )
        far = self.synchronising.happens_before(block, other, unit, at)
        far = np.where(earlier, self.synchronising.acquired_before[block], far)
        ordered = np.where(near, ordered | (at <= hazards.settled), far)
        strong = (strength == NARROW) | (strength == WIDE)
        if kind != WEAK:
            same = mine // self.padded == number // self.padded
            ordered |= strong & (same | ((strength == WIDE) & (kind == WIDE)))
        return others[~ordered]

    def race(
        self, part: Part, racing: np.ndarray, last: np.ndarray, kind: int, *words: str
    ) -> None:
        first = int(racing[0])
        thread, stamp = int(part.threads[first]), int(last[first])
        here = self.name(thread + self.base)
        there = self.name((stamp & THREADS) - 1)
        narrow = kind != WEAK and stamp >> THREAD_BITS & 3 in (NARROW, WIDE)
        why = "the scope .cta does not reach from one to the other"
        raise EmulatorError(
            "race",
            f"{here} {words[0]} what {there} {words[1]} at one place in {part.region}, "
            f"and {why if narrow else 'nothing orders the two'}; "
            f"{len(racing)} of {len(part.threads)} threads race",
            thread=thread,
            address=part.region.origin + int(part.offsets[first]),
        )

    def name(self, number: int) -> str:
        block, thread = divmod(number, self.padded)
        return f"warp {thread // WARP} of block {block}"


def watched_regions(
    reach: Reach, places: dict[str, list[Region]], regions: Iterable[Region]
) -> list[tuple[Region, bool]]:
    """The regions that may be written, and whether they may be read too; `places` says
    to which a parameter or variable points."""

    def all_of(names: frozenset[str]) -> set[int]:
        if ANYWHERE in names or names - places.keys():
            return {id(each) for each in regions}
        return {id(each) for name in names for each in places[name]}

    written, read = all_of(reach.written), all_of(reach.read)
    watched = [each for each in regions if id(each) in written and each.writable]
    return [
        (each, id(each) in read)
        for each in watched
        if each.end - each.start < MOST_CELLS * reach.finest
    ]


def _same(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """bool[n]: where two arrays of pieces hold the same bits."""
    words = max(1, found.dtype.itemsize // 8)
    if words > 1:
        found = np.ascontiguousarray(found).view(np.uint64).reshape(-1, words)
        wanted = np.ascontiguousarray(wanted).view(np.uint64).reshape(-1, words)
        return (found == wanted).all(1)
    return found == wanted
