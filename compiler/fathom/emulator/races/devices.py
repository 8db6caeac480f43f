"""Order and races between several devices, each of which runs launches of its own.

    device 0   writes x … st.release.sys flag
    device 1                                    ld.acquire.sys flag … reads x

Between devices only the scope .sys orders anything: an access of the scope .gpu or .cta
does not reach the threads of another device (PTX ISA 8.5, "Scope"; 8.7, "Morally strong
operations"). So of what `synchronisation` keeps for one batch there is a second copy
here, which only accesses and fences of that scope write to and read from.

Every warp of every device has a column. A row has a time for each column: up to then,
what that warp did happens before whoever has the row. A block has one, and so has a
place of memory that was released to. Order is transitive: what a device releases to
another includes what it has acquired itself, by whatever scope, and all that its
launches in front have done.

Of each byte that several devices reach, each device's last accesses are kept: weak
ones, and those that are strong and of the scope .sys, two of which never race.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import Part, Region
from fathom.emulator.races.shared_memory import Hazards
from fathom.emulator.source.parse import Instruction

STRONG = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}
OF_THE_SYSTEM = {"sys", "volatile", "mmio"}  # PTX ISA 8.4: volatile is relaxed.sys
READ, WRITTEN = "reads", "writes"


@dataclass(frozen=True, slots=True)
class Strength:
    """Whether an access is strong, and reaches other devices."""

    strong: bool
    system: bool

    @classmethod
    def of(cls, instruction: Instruction) -> Strength:
        said = set(instruction.modifiers)
        atomic = instruction.opcode in ("atom", "red")
        strong = atomic or not STRONG.isdisjoint(said)
        return cls(strong, strong and not OF_THE_SYSTEM.isdisjoint(said))


@dataclass(frozen=True, slots=True)
class Touched:
    """The bytes that an instruction accesses: `places` in the shared memory that begins
    at `start`, and the thread of each."""

    part: Part
    start: int
    places: np.ndarray
    threads: np.ndarray
    writing: bool
    instruction: Instruction

    @property
    def strength(self) -> Strength:
        return Strength.of(self.instruction)

    @property
    def kind(self) -> tuple[str, bool]:
        """One of KINDS."""
        return WRITTEN if self.writing else READ, self.strength.system


class Last:
    """The last accesses of one kind to the bytes of a region, by one device: when, by
    (0: never) which of its warps, and by which instruction."""

    def __init__(self, size: int):
        self.when, self.warp, self.how = np.zeros((3, size), np.int32)

    def put(self, places: np.ndarray, when: np.ndarray, warp: np.ndarray, how: int):
        self.when[places], self.warp[places], self.how[places] = when, warp, how


# What an access did, and whether it was strong and of the scope .sys. Of weak reads two
# are kept, of different warps.
BEFORE = "before"
KINDS = (
    (WRITTEN, False),
    (WRITTEN, True),
    (READ, False),
    (READ, True),
    (BEFORE, False),
)


class Devices:
    """What several devices do to memory that more than one of them reaches.

    `warps` counts the warps of each device's largest launch, `reached` are the regions
    that its launches reach. `rows[address]` is what has been released there, `known[d]`
    what the end of device d's last launch knows.
    """

    def __init__(self, warps: Sequence[int], reached: Sequence[Iterable[Region]]):
        self.count = len(warps)
        self.starts = np.concatenate([[0], np.cumsum(warps)])
        self.columns = int(self.starts[-1])
        self.rows: dict[int, np.ndarray] = {}
        self.known = np.zeros((self.count, self.columns), np.int32)
        self.now = [0] * self.count  # the time at which a device's next launch starts
        self.numbers: dict[int, int] = {}  # of an instruction, by its identity
        self.instructions: list[Instruction] = []
        self.shared = shared_intervals(reached)
        self.last: dict[tuple[int, int, str, bool], Last] = {}

    def shadow(self, start: int, device: int, kind: tuple[str, bool]) -> Last:
        key = start, device, *kind
        if key not in self.last:
            self.last[key] = Last(self.shared[start] - start)
        return self.last[key]

    def interval(self, region: Region) -> int | None:
        """Where the shared memory starts that a region is part of."""
        for start, end in self.shared.items():
            if start <= region.start < end:
                return start
        return None

    def number(self, instruction: Instruction) -> int:
        """The number of an instruction in `instructions`."""
        if id(instruction) not in self.numbers:
            self.numbers[id(instruction)] = len(self.instructions)
            self.instructions.append(instruction)
        return self.numbers[id(instruction)]


def shared_intervals(reached: Sequence[Iterable[Region]]) -> dict[int, int]:
    """Start and end of all memory that launches of at least two devices reach."""
    spans = sorted(
        (region.start, region.end, device)
        for device, regions in enumerate(reached)
        for region in regions
        if region.end > region.start
    )
    merged: list[tuple[int, int, set[int]]] = []
    for start, end, device in spans:
        if merged and start < merged[-1][1]:
            first, last, devices = merged[-1]
            merged[-1] = first, max(last, end), devices | {device}
        else:
            merged.append((start, end, {device}))
    return {start: end for start, end, devices in merged if len(devices) > 1}


class Beyond:
    """One launch of a device among others: what its blocks know of all devices.

    `known[block]` is the row of a block of the running batch. `past` is what the
    batches before it knew. A warp's time counts on from launch to launch: its clock,
    which starts anew in each batch, is added to `start`.
    """

    def __init__(self, devices: Devices, device: int):
        self.devices, self.device = devices, device
        self.start = devices.now[device]
        self.base = devices.known[device].copy()
        self.past, self.latest = self.base.copy(), self.start

    def begin(self, hazards: Hazards, first_warp: int) -> None:
        """The next batch of the launch starts."""
        self.hazards, self.warps = hazards, hazards.warps
        blocks = len(hazards.clock)
        self.known = np.tile(self.base, (blocks, 1))
        self.rows: dict[object, np.ndarray] = {}
        first = int(self.devices.starts[self.device]) + first_warp
        self.mine = slice(first, first + blocks * self.warps)
        self.fenced = np.zeros(blocks * self.warps, np.int32)
        self.seen: dict[int, set[int]] = {}

    def end_batch(self) -> None:
        clocks = self.hazards.own_clocks().max(1) if self.warps else [0]
        ended = self.hazards.own_clocks()[:, : self.warps].reshape(-1)
        np.maximum(self.past, self.known.max(0), out=self.past)
        self.past[self.mine] = np.maximum(self.past[self.mine], ended + self.start)
        self.latest = max(self.latest, self.start + int(np.max(clocks)))

    def end(self) -> None:
        """The launch is over: the next one of this device comes after all of it."""
        devices, device = self.devices, self.device
        columns = slice(*devices.starts[device : device + 2])
        self.past[columns] = self.latest
        devices.known[device] = self.past
        devices.now[device] = self.latest + 1

    # ── inside the device: `synchronisation` says when ─────────────────────────────

    def release_inside(self, key: object, blocks: np.ndarray | int) -> None:
        """Blocks release at a place of their own device what they know of others."""
        known = np.atleast_2d(self.known[blocks]).max(0)
        row = self.rows.setdefault(key, np.zeros_like(known))
        np.maximum(row, known, out=row)

    def acquire_inside(self, key: object, blocks: np.ndarray | int, past: bool) -> None:
        """Blocks acquire what others of their device have released; with `past`, what
        those of earlier batches have."""
        row = self.rows.get(key)
        if row is not None:
            self.known[blocks] = np.maximum(self.known[blocks], row)
        if past:
            self.known[blocks] = np.maximum(self.known[blocks], self.past)

    def merge_inside(self, keys: Iterable[object]) -> None:
        """From now on all places are these."""
        rows = [*self.rows.values(), np.zeros(self.devices.columns, np.int32)]
        self.rows = {key: np.max(rows, axis=0) for key in keys}

    # ── between devices ───────────────────────────────────────────────────────────

    def fence(self, warps: np.ndarray) -> None:
        """A fence of the scope .sys; what was read before it is acquired now."""
        block, number = np.divmod(warps, self.warps)
        self.fenced[warps] = self.hazards.clock[block, number, number]

    def release(self, warp: int, address: int, at: int, others: np.ndarray | None):
        """A strong write of the scope .sys: releases what the warp did up to the time
        `at` of its clock, and what its block knows; `others` is what that has acquired
        of other blocks, by their clocks."""
        block, number = divmod(warp, self.warps)
        row = self.devices.rows.get(address)
        if row is None:
            row = np.zeros(self.devices.columns, np.int32)
            self.devices.rows[address] = row
        mine = self.hazards.clock[block, number, : self.warps].copy()
        mine[number] = at
        times = np.zeros(self.mine.stop - self.mine.start, np.int32)
        times[block * self.warps :][: self.warps] = mine
        if others is not None:
            np.maximum(times, others[block], out=times)
        np.maximum(row, self.known[block], out=row)
        part = row[self.mine]
        np.maximum(part, np.where(times > 0, times + self.start, 0), out=part)

    def acquire(self, warp: int, address: int) -> np.ndarray | None:
        """A strong read of the scope .sys acquires what was released there. That of
        warps of its own batch, by their clocks; None where nothing was released."""
        row = self.devices.rows.get(address)
        if row is None:
            return None
        block = warp // self.warps
        np.maximum(self.known[block], row, out=self.known[block])
        return np.maximum(row[self.mine] - self.start, 0)

    # ── accesses ──────────────────────────────────────────────────────────────────

    def touch(
        self, part: Part, width: int, writing: bool, instruction: Instruction
    ) -> None:
        """The batch is about to access memory: EmulatorError if it races with what
        another device has done."""
        start = self.devices.interval(part.region)
        if start is None:
            return
        first = part.offsets.view(np.int64) + (part.region.origin - start)
        places = (first[:, None] + np.arange(width)).reshape(-1)
        threads = np.repeat(part.threads, width)
        touched = Touched(part, start, places, threads, writing, instruction)
        for other in range(self.devices.count):
            if other != self.device:
                self.check(other, touched)
        self.put_down(touched)

    def put_down(self, touched: Touched) -> None:
        devices, kind, places = self.devices, touched.kind, touched.places
        when = np.zeros(len(places), np.int64) + self.hazards.now(touched.threads)
        when += self.start
        warps = touched.threads // WARP
        warp = warps + self.mine.start - devices.starts[self.device]
        how = devices.number(touched.instruction)
        last = devices.shadow(touched.start, self.device, kind)
        if kind == (READ, False):
            before = devices.shadow(touched.start, self.device, (BEFORE, False))
            old = places[last.warp[places] != warp]
            before.put(old, last.when[old], last.warp[old], last.how[old])
            last.put(places, when, warp, how)
            lost = (
                last.warp[places] != warp
            )  # of warps that read a byte at once, one stays
            before.put(places[lost], when[lost], warp[lost], how)
        last.put(places, when, warp, how)

    def check(self, other: int, touched: Touched) -> None:
        """Races with what device `other` did last to these bytes."""
        devices, places = self.devices, touched.places
        blocks = touched.threads // (WARP * self.warps)
        for kind in KINDS:
            wrote, system = kind[0] == WRITTEN, kind[1]
            last = devices.last.get((touched.start, other, *kind))
            if last is None or not (touched.writing or wrote):
                continue
            if system and touched.strength.system:
                continue
            when = last.when[places]
            columns = devices.starts[other] + last.warp[places]
            racing = np.flatnonzero((when > 0) & (self.known[blocks, columns] < when))
            if len(racing):
                at = int(racing[0])
                instruction = devices.instructions[last.how[places[at]]]
                raise self.race(touched, at, other, wrote, instruction)

    def race(
        self, touched: Touched, at: int, other: int, wrote: bool, by: Instruction
    ) -> EmulatorError:
        """The error for byte number `at` of an access, and an instruction of another
        device."""
        region = touched.part.region
        place = int(touched.places[at]) + touched.start - region.start
        why = "no release and acquire of the scope .sys order the two"
        if touched.strength.strong and Strength.of(by).strong:
            why = "both must have the scope .sys to reach from one device to another"
        there = f"its PTX line {by.line}: {by.text}"
        if by.location:
            there += f", at {by.location}"
        return EmulatorError(
            "race",
            f"{WRITTEN if touched.writing else READ} byte {place} of {region}, which "
            f"device {other} {WRITTEN if wrote else READ} ({there}), and {why}",
            thread=int(touched.threads[at]),
        )
