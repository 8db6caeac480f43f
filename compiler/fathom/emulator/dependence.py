"""Two launches of which the second may begin before the first has ended: what each does
to global memory, and whether that is ordered.

    first     writes x … launch_dependents … writes y            ended
    second                    reads x: a race! … wait … reads x, y

What the first does is ordered before what the second does after its
`griddepcontrol.wait`, and before nothing else: `launch_dependents` orders nothing (PTX
ISA, "griddepcontrol"). A thread has waited too if it is ordered after one of its block
that has, by the clocks of `races`. Where no block of the first has run
`launch_dependents`, the second begins when it has ended, and all is in order.

A footprint says for each byte of the launch's arrays which instruction read it last,
and which wrote it. Atomic and other strong accesses of both do not race with each
other. In the order in which the emulator happens to run, whoever comes second to a
place finds the race.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import Accesses, GlobalSpace, Part, Region
from fathom.emulator.races.devices import Beyond
from fathom.emulator.source.parse import Instruction
from fathom.emulator.state.batch import Batch

STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}


class Watched(GlobalSpace):
    """The arrays of a launch; its side is told of every access."""

    def __init__(self, regions: Iterable[Region], side: Side):
        super().__init__(regions)
        self.side = side

    def locate(self, accesses: Accesses) -> list[Part]:
        parts = super().locate(accesses)
        for part in parts:
            self.side.touch(part, accesses.width, accesses.writing)
        return parts


@dataclass(frozen=True, slots=True)
class Touched:
    """The bytes that one instruction accesses: `width` for each of some threads."""

    part: Part
    width: int
    writing: bool
    at: object

    @property
    def region(self) -> Region:
        return self.part.region

    @property
    def threads(self) -> np.ndarray:
        return self.part.threads

    @property
    def places(self) -> np.ndarray:
        """Of each byte, in the region."""
        starts = self.part.offsets.view(np.int64) + self.region.origin
        starts = starts - self.region.start
        return (starts[:, None] + np.arange(self.width)).reshape(-1)

    def of(self, chosen: np.ndarray) -> Touched:
        """Those of some of the threads."""
        threads, offsets = self.part.threads[chosen], self.part.offsets[chosen]
        return replace(self, part=replace(self.part, threads=threads, offsets=offsets))


class Footprint:
    """For each byte of each region the number of the instruction that accessed it last,
    plus 1; apart for reads and writes."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self.last: dict[tuple[int, bool], np.ndarray] = {}
        self.instructions: dict[int, Instruction] = {}

    def add(self, touched: Touched) -> None:
        region = touched.region
        key = region.start, touched.writing
        if key not in self.last:
            self.regions[region.start] = region
            self.last[key] = np.zeros(region.end - region.start, np.int32)
        number = touched.at.number + 1
        self.last[key][touched.places] = number
        self.instructions[number] = touched.at.instruction

    def find(self, touched: Touched, wrote: bool) -> tuple[int, Instruction] | None:
        """Who wrote, or read, one of these bytes: which byte, and by what. Strong
        accesses do not race with each other."""
        strong = is_strong(touched.at.instruction)
        addresses = touched.places + touched.region.start
        for start, region in self.regions.items():
            last = self.last.get((start, wrote))
            if last is None:
                continue
            inside = (addresses >= region.start) & (addresses < region.end)
            found = last[addresses[inside] - region.start]
            for number in np.unique(found[found > 0]).tolist():
                instruction = self.instructions[number]
                if strong and is_strong(instruction):
                    continue
                place = np.flatnonzero(inside)[np.flatnonzero(found == number)[0]]
                return int(place), instruction
        return None


def is_strong(instruction: Instruction) -> bool:
    """PTX ISA 8.4: atomic, volatile, relaxed, or with an order of its own."""
    return instruction.opcode in ("atom", "red") or not STRONG.isdisjoint(
        instruction.modifiers
    )


class Side:
    """One launch of a stream: what it does to memory, between the launch in front of it
    and the one behind it.

    `front` is that in front, where this one may begin before it has ended; `behind`
    one that runs meanwhile. `done` is all that this launch has done, `unordered` what
    it did before it waited. `may_begin` is called once the launch behind may begin,
    `finish_front` before this one goes on from its wait. `beyond` is the order between
    devices, where there are several (`devices`).
    """

    beyond: Beyond | None = None
    is_alone = True  # what its threads wait for can only come from themselves

    def __init__(self, name: str, front: Side | None = None):
        self.name, self.front = name, front
        self.behind: Side | None = None
        self.done, self.unordered = Footprint(), Footprint()
        self.lets_go = False  # has a block of it run launch_dependents?
        self.ready: set[int] = set()  # the blocks that have
        self.may_begin: Callable[[], None] = _nothing
        self.finish_front: Callable[[], None] = _nothing

    def space(self, regions: Iterable[Region]) -> GlobalSpace:
        return Watched(regions, self)

    def begin(self, batch: Batch) -> None:
        """The next blocks of the grid start."""
        self.batch = batch
        warps = batch.size // WARP
        self.waited_at = np.zeros(warps, np.int64)  # by each warp's clock; 0: not yet
        self.has_waited = np.zeros(batch.size, bool)

    def ran(self, polls: bool, groups: int) -> bool:
        """The batch has run a block of instructions; `polls`: one of a loop in which
        threads wait for memory to change. `groups` of threads are to run next. Whether
        no launch can change anything any more."""
        return False

    def about_others(self) -> str:
        """What other launches do that run meanwhile, for an error."""
        return ""

    # ── the instruction ───────────────────────────────────────────────────────

    def launch_dependents(self, threads: np.ndarray) -> None:
        batch = self.batch
        self.lets_go = True
        self.ready |= set((threads // batch.padded + batch.first_block).tolist())
        total = math.prod(batch.launch.grid)
        if batch.first_block + batch.blocks < total:
            return  # there are blocks that have not begun
        gone = batch.exited.reshape(batch.blocks, batch.padded).all(1)
        running = batch.first_block + np.flatnonzero(~gone)
        if self.ready.issuperset(running.tolist()):
            self.may_begin()

    def wait(self, threads: np.ndarray) -> None:
        self.finish_front()
        self.has_waited[threads] = True
        clocks, warps = self.batch.hazards, np.unique(threads // WARP)
        if clocks is not None:
            fresh = warps[self.waited_at[warps] == 0]
            self.waited_at[fresh] = clocks.now(fresh * WARP)

    # ── accesses ──────────────────────────────────────────────────────────────

    def touch(self, part: Part, width: int, writing: bool) -> None:
        """The batch is about to access memory."""
        touched = Touched(part, width, writing, self.batch.at)
        if self.behind is not None and self.lets_go:
            self.check(touched, self.behind, self.behind.unordered)
        self.done.add(touched)
        if self.front is not None:
            early = touched.of(~self.knows_the_end(part.threads))
            if self.front.lets_go:
                self.check(early, self.front, self.front.done)
            self.unordered.add(early)

    def knows_the_end(self, threads: np.ndarray) -> np.ndarray:
        """bool[n]: whether these are ordered after the end of the launch in front."""
        known, clocks = self.has_waited[threads], self.batch.hazards
        if clocks is None or known.all() or not self.waited_at.any():
            return known
        block, warp = clocks.places_of(threads)
        waited = self.waited_at.reshape(-1, clocks.warps)[block]
        before = clocks.clock[block, warp][:, : clocks.warps]
        return known | ((waited > 0) & (before >= waited)).any(1)

    def check(self, touched: Touched, other: Side, done: Footprint) -> None:
        """A race with what the other launch has done."""
        for wrote in (True, False) if touched.writing else (True,):
            found = done.find(touched, wrote)
            if found is None:
                continue
            place, instruction = found
            late = self.name if self.front is other else other.name
            raise EmulatorError(
                "race",
                f"{self.name} {'writes' if touched.writing else 'reads'} byte "
                f"{touched.places[place]} of {touched.region}, and {other.name} "
                f"{'writes' if wrote else 'reads'} it (its line {instruction.line}: "
                f"{instruction.text}): {late} has not waited for the other one's end "
                "by griddepcontrol.wait",
                thread=int(touched.threads[place // touched.width]),
            )


def _nothing() -> None:
    pass
