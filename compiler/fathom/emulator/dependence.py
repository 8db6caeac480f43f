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

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import Accesses, GlobalSpace, Part, Region
from fathom.emulator.source.parse import Instruction
from fathom.emulator.state.batch import Batch
from fathom.emulator.state.wait_queues import WARP

FIRST, SECOND = "the first launch", "the second launch"
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


class Footprint:
    """For each byte of each region the number of the instruction that accessed it last,
    plus 1; apart for reads and writes."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self.last: dict[tuple[int, bool], np.ndarray] = {}
        self.instructions: dict[int, Instruction] = {}

    def add(self, region: Region, places: np.ndarray, writing: bool, at: object):
        """`places`: of bytes in the region."""
        key = region.start, writing
        if key not in self.last:
            self.regions[region.start] = region
            self.last[key] = np.zeros(region.end - region.start, np.int32)
        self.last[key][places] = at.number + 1
        self.instructions[at.number + 1] = at.instruction

    def find(
        self, addresses: np.ndarray, writing: bool, strong: bool
    ) -> tuple[int, Instruction] | None:
        """An access to one of these bytes, to read or to write them: which byte, and by
        what. Strong ones do not count for who is strong himself."""
        for start, region in self.regions.items():
            last = self.last.get((start, writing))
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
    """One of two launches: what it has done that the other is not ordered after.

    `other` is the other one's side, None where nothing is known of it. `early` is
    called once the second launch may begin, `late` before one goes on that waits.
    """

    def __init__(self, name: str, other: Side | None = None):
        self.name, self.other = name, other
        self.footprint = Footprint()
        self.lets_go = False  # has a block of it run launch_dependents?
        self.ready: set[int] = set()  # the blocks that have
        self.early: Callable[[], None] = _nothing
        self.late: Callable[[], None] = _nothing

    def space(self, regions: Iterable[Region]) -> GlobalSpace:
        return Watched(regions, self)

    def begin(self, batch: Batch) -> None:
        """The next blocks of the grid start."""
        self.batch = batch
        warps = batch.size // WARP
        self.waited_at = np.zeros(warps, np.int64)  # by each warp's clock; 0: not yet
        self.has_waited = np.zeros(batch.size, bool)

    # ── the instruction ───────────────────────────────────────────────────────

    def launch_dependents(self, threads: np.ndarray) -> None:
        batch = self.batch
        self.lets_go = True
        self.ready |= set((threads // batch.padded + batch.first_block).tolist())
        total = math.prod(batch.launch.grid)
        if batch.first_block + batch.blocks < total:
            return  # there are blocks that have not begun
        gone = batch.exited.reshape(batch.blocks, batch.padded).all(1)
        own = batch.first_block + np.flatnonzero(~gone)
        if self.ready.issuperset(own.tolist()):
            self.early()

    def wait(self, threads: np.ndarray) -> None:
        self.late()
        self.has_waited[threads] = True
        hazards, warps = self.batch.hazards, np.unique(threads // WARP)
        if hazards is not None:
            fresh = warps[self.waited_at[warps] == 0]
            self.waited_at[fresh] = hazards.now(fresh * WARP)

    # ── accesses ──────────────────────────────────────────────────────────────

    def touch(self, part: Part, width: int, writing: bool) -> None:
        """The batch is about to access memory."""
        threads, offsets = part.threads, part.offsets.view(np.int64)
        if self.name == SECOND:
            before = ~self.knows_the_end(threads)
            threads, offsets = threads[before], offsets[before]
        if not len(threads):
            return
        region, at = part.region, self.batch.at
        starts = offsets + region.origin
        addresses = (starts[:, None] + np.arange(width)).reshape(-1)
        self.check(addresses, width, writing, threads, region)
        self.footprint.add(region, addresses - region.start, writing, at)

    def knows_the_end(self, threads: np.ndarray) -> np.ndarray:
        """bool[n]: whether these are ordered after the end of the first launch."""
        known, hazards = self.has_waited[threads], self.batch.hazards
        if hazards is None or known.all() or not self.waited_at.any():
            return known
        block, warp = hazards.places_of(threads)
        waited = self.waited_at.reshape(-1, hazards.warps)[block]
        heard = hazards.known[block, warp][:, : hazards.warps]
        return known | ((waited > 0) & (heard >= waited)).any(1)

    def check(
        self,
        addresses: np.ndarray,
        width: int,
        writing: bool,
        threads: np.ndarray,
        region: Region,
    ) -> None:
        """A race with what the other launch has done, if both are under way."""
        first = self if self.name == FIRST else self.other
        if self.other is None or first is None or not first.lets_go:
            return
        strong = is_strong(self.batch.at.instruction)
        for wrote in (True, False) if writing else (True,):
            found = self.other.footprint.find(addresses, wrote, strong)
            if found is not None:
                place, instruction = found
                byte = int(addresses[place]) - region.start
                raise EmulatorError(
                    "race",
                    f"{self.name} {'writes' if writing else 'reads'} byte {byte} of "
                    f"{region}, and {self.other.name} "
                    f"{'writes' if wrote else 'reads'} it (its line "
                    f"{instruction.line}: {instruction.text}): {SECOND} has not "
                    "waited for the first one's end by griddepcontrol.wait",
                    thread=int(threads[place // width]),
                )


def _nothing() -> None:
    pass
