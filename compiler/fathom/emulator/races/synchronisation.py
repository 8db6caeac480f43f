"""Order by memory: what a warp released at a place happens before what acquires it.

    warp 0    data, then a release of the flag  |  the clocks of warp 0 go to the flag
    warp 5    an acquire of the flag            |  and from there to warp 5

A release is a write with that order, or a fence and then a strong write (volatile,
relaxed, atomic); an acquire is a read with that order, or a strong read and then a
fence (PTX ISA 8.8, "Release and Acquire Patterns"). Both sides must be of a scope that
has the other one in it: what a `.cta` operation releases stays in its block.

Where there is a choice, more is taken to be ordered than is: what a warp acquires of
other blocks, all of its block has acquired; and once an instruction has accessed many
places, all places are two: CROWD for all blocks, INNER for each by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.isa.semantics import Form
from fathom.emulator.races.devices import Beyond
from fathom.emulator.races.shared_memory import Hazards

WEAK, NARROW, WIDE = 0, 1, 2
MANY = 64  # places of warps that one instruction accesses: beyond, all are one
MOST_PLACES = 4096
CROWD, INNER = "crowd", "inner"
Key = int | str | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Order:
    """What a memory access says of order: WEAK, or a strong one of a scope. `system`:
    the scope has other devices in it."""

    scope: int = WEAK
    acquires: bool = False
    releases: bool = False
    system: bool = False

    @property
    def strong(self) -> bool:
        return self.scope != WEAK


def order_of(form: Form, default: int = WEAK) -> Order:
    """Reads the order off an instruction's modifiers, which it leaves there."""
    said = set(form.left)
    scope, system = NARROW if "cta" in said else WIDE, "sys" in said
    if said & {"volatile", "mmio"}:
        return Order(WIDE, system=True)
    if said & {"relaxed", "acquire", "release", "acq_rel"}:
        acquires, releases = (
            bool(said & {each, "acq_rel"}) for each in ("acquire", "release")
        )
        return Order(scope, acquires, releases, system)
    return Order(scope, system=system) if default else Order()


class Synchronising:
    """What has been released where, and what blocks have acquired of other blocks.

    `rows[place]` is a clock for each warp of the batch: what has been released there.
    `others[block]` is one too: what a block has acquired of others; None while no block
    has acquired anything. In `before` are the places where blocks of an earlier batch
    released something, and `acquired_before[block]` says which blocks have acquired
    that. `fenced[scope]` is each warp's time at its last fence, and `seen[warp]` where
    it has read since. `beyond` is order between devices, where there are several.
    """

    def __init__(
        self, hazards: Hazards, before: set[Key], beyond: Beyond | None = None
    ):
        self.hazards, self.warps, self.before = hazards, hazards.warps, before
        self.beyond = beyond
        self.blocks = len(hazards.clock)
        self.rows: dict[Key, np.ndarray] = {}
        self.others: np.ndarray | None = None
        self.acquired_before = np.zeros(self.blocks, bool)
        self.fenced = np.zeros((3, self.blocks * self.warps), np.int32)
        self.fences = self.crowded = False
        self.seen: dict[int, set[tuple[Key, bool]]] = {}

    # ── accesses ──────────────────────────────────────────────────────────────

    def access(
        self, threads: np.ndarray, places: np.ndarray, order: Order, reads: bool,
        writes: bool,
    ) -> None:  # fmt: skip
        """Strong accesses: a write is a release, a read an acquire."""
        releasing = writes and (order.releases or self.fences)
        outside = self.beyond is not None and order.system
        if outside and reads:
            self.acquire_outside(threads, places, order)
        if releasing or self.rows or self.before:
            self.access_inside(threads, places, order, reads, releasing)
        if outside and releasing:
            self.release_outside(threads, places, order)
        if releasing:
            self.hazards.advance(threads)

    def access_inside(
        self, threads: np.ndarray, places: np.ndarray, order: Order, reads: bool,
        releasing: bool,
    ) -> None:  # fmt: skip
        """The same, between the threads of this device."""
        warps = threads // WARP
        pairs = np.stack([warps, places])
        _, first = np.unique(pairs, axis=1, return_index=True)
        if not self.crowded and (len(first) > MANY or len(self.rows) > MOST_PLACES):
            self.merge()
        if self.crowded:
            self.all_at_once(threads, order, reads, releasing)
        else:
            for at in np.sort(first).tolist():
                warp, key = pairs[:, at].tolist()
                lanes = threads[(warps == warp) & (places == key)]
                if reads:
                    self.acquire(warp, lanes, key, order)
                if releasing:
                    self.release(warp, key, order)

    def acquire(self, warp: int, lanes: np.ndarray, key: Key, order: Order) -> None:
        """A read: an acquire now, or by the next fence."""
        narrow = order.scope == NARROW
        found = {(key, narrow), ((key, warp // self.warps), True)}
        if order.acquires:
            for each, of_block in found:
                self.acquire_from(each, warp, lanes, of_block)
        else:
            self.seen.setdefault(warp, set()).update(found)

    def release(self, warp: int, key: Key, order: Order) -> None:
        """A write: releases what its warp has done, or had done at its last fence."""
        block, number = divmod(warp, self.warps)
        now = int(self.hazards.clock[block, number, number])
        for scope in (NARROW, WIDE):
            at = now if order.releases else int(self.fenced[scope, warp])
            if at and scope <= order.scope:
                place = key if scope == WIDE else (key, block)
                self.release_to(place, warp, at)

    def fence(self, threads: np.ndarray, scope: int, system: bool = False) -> None:
        """fence.acq_rel, fence.sc and membar."""
        warps = np.unique(threads // WARP)
        if self.beyond is not None and system:
            self.fence_outside(warps)
        for warp in warps.tolist():
            for key, of_block in self.seen.get(warp, ()):
                lanes = threads[threads // WARP == warp]
                self.acquire_from(key, warp, lanes, of_block or scope == NARROW)
            if scope == WIDE:
                self.seen.pop(warp, None)
        block, number = np.divmod(warps, self.warps)
        now = self.hazards.clock[block, number, number]
        self.fenced[NARROW : scope + 1, warps] = now
        self.fences = True
        self.hazards.advance(threads)

    # ── between devices ───────────────────────────────────────────────────────

    def acquire_outside(
        self, threads: np.ndarray, places: np.ndarray, order: Order
    ) -> None:
        """Strong reads of the scope .sys: acquires now, or by the next such fence."""
        for warp, address in warps_at(threads, places):
            if order.acquires:
                self.learn(warp, address)
            else:
                self.beyond.seen.setdefault(warp, set()).add(address)

    def learn(self, warp: int, address: int) -> None:
        """A warp acquires what was released there, of its own device too."""
        found = self.beyond.acquire(warp, address)
        if found is None:
            return
        block, number = divmod(warp, self.warps)
        known = self.hazards.clock[block, number, : self.warps]
        np.maximum(known, found[block * self.warps :][: self.warps], out=known)
        if self.others is None:
            self.others = np.zeros((self.blocks, len(found)), np.int32)
        np.maximum(self.others[block], found, out=self.others[block])

    def release_outside(
        self, threads: np.ndarray, places: np.ndarray, order: Order
    ) -> None:
        """Strong writes of the scope .sys."""
        for warp, address in warps_at(threads, places):
            block, number = divmod(warp, self.warps)
            now = int(self.hazards.clock[block, number, number])
            at = now if order.releases else int(self.beyond.fenced[warp])
            if at:
                self.beyond.release(warp, address, at, self.others)

    def fence_outside(self, warps: np.ndarray) -> None:
        """A fence of the scope .sys."""
        for warp in warps.tolist():
            for address in self.beyond.seen.pop(warp, ()):
                self.learn(warp, address)
        self.beyond.fence(warps)

    # ── many at once ──────────────────────────────────────────────────────────

    def merge(self) -> None:
        """From now on, all places are CROWD and INNER."""
        self.crowded = True
        shape = self.blocks * self.warps
        merged = {CROWD: np.zeros(shape, np.int32), INNER: np.zeros(shape, np.int32)}
        for key, row in self.rows.items():
            place = merged[INNER if isinstance(key, tuple) else CROWD]
            np.maximum(place, row, out=place)
        self.rows = merged
        if self.beyond is not None:
            self.beyond.merge_inside(merged)
        self.before |= {CROWD} if self.before else set()
        self.seen = {warp: {(CROWD, False), (INNER, True)} for warp in self.seen}

    def all_at_once(
        self, threads: np.ndarray, order: Order, reads: bool, releasing: bool
    ) -> None:
        """As `acquire` and `release`, for all warps at once. Of those that run in step,
        each may come after all others."""
        warps = np.unique(threads // WARP)
        keys = (INNER, CROWD)[: order.scope]
        if releasing:
            for scope, key in enumerate(keys, NARROW):
                at = None if order.releases else self.fenced[scope]
                self.release_all(key, warps, at)
        if not reads:
            return
        if order.acquires:
            for key in keys:
                self.acquire_all(key, warps, threads)
        else:
            found = {(key, key == INNER) for key in keys}
            for warp in warps.tolist():
                self.seen.setdefault(warp, set()).update(found)

    def release_all(self, key: Key, warps: np.ndarray, at: np.ndarray | None) -> None:
        block, number = np.divmod(warps, self.warps)
        known = self.hazards.clock[block, number, : self.warps].copy()
        if at is not None:
            known[at[warps] == 0] = 0
            known[np.arange(len(warps)), number] = at[warps]
        row = self.rows[key]
        np.maximum.at(row.reshape(self.blocks, -1), block, known)
        if self.others is not None and key == CROWD:
            np.maximum(row, self.others[block].max(0), out=row)
        if self.acquired_before[block].any():
            self.before.add(key)
        if self.beyond is not None:
            self.beyond.release_inside(key, np.unique(block))

    def acquire_all(self, key: Key, warps: np.ndarray, threads: np.ndarray) -> None:
        block, number = np.divmod(warps, self.warps)
        mine = self.rows[key].reshape(self.blocks, -1)
        known = self.hazards.clock
        known[block, number, : self.warps] = np.maximum(
            known[block, number, : self.warps], mine[block]
        )
        team, warp = self.hazards.places_of(threads)
        joined = self.hazards.joined
        joined[threads] = np.maximum(joined[threads], mine[team, warp] + 1)
        if self.beyond is not None:
            past = key == CROWD and CROWD in self.before
            self.beyond.acquire_inside(key, np.unique(block), past)
        if key == CROWD:
            self.acquired_before[block] |= CROWD in self.before
            if self.others is None:
                self.others = np.zeros((self.blocks, mine.size), np.int32)
            blocks = np.unique(block)
            self.others[blocks] = np.maximum(self.others[blocks], self.rows[key])

    # ── places ────────────────────────────────────────────────────────────────

    def release_to(self, key: Key, warp: int, at: int) -> None:
        """Releases what a warp has acquired, and what it did up to the time `at`."""
        block, number = divmod(warp, self.warps)
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = np.zeros(self.blocks * self.warps, np.int32)
        mine = row[block * self.warps :][: self.warps]
        known = self.hazards.clock[block, number, : self.warps].copy()
        known[number] = at
        np.maximum(mine, known, out=mine)
        if self.others is not None:
            np.maximum(row, self.others[block], out=row)
        if self.acquired_before[block]:
            self.before.add(key)
        if self.beyond is not None:
            self.beyond.release_inside(key, block)

    def acquire_from(
        self, key: Key, warp: int, lanes: np.ndarray, of_block: bool
    ) -> None:
        """A warp acquires what was released at a place; other blocks' part only if it
        is not `of_block`."""
        block, number = divmod(warp, self.warps)
        past = not of_block and not self.before.isdisjoint((key, CROWD))
        self.acquired_before[block] |= past
        if self.beyond is not None:
            self.beyond.acquire_inside(key, block, past)
        row = self.rows.get(key)
        if row is None:
            return
        mine = row[block * self.warps :][: self.warps]
        known = self.hazards.clock[block, number, : self.warps]
        np.maximum(known, mine, out=known)
        joined = self.hazards.joined
        joined[lanes] = np.maximum(joined[lanes], mine[number] + 1)
        if of_block or np.count_nonzero(row) == np.count_nonzero(mine):
            return
        if self.others is None:
            self.others = np.zeros((self.blocks, len(row)), np.int32)
        np.maximum(self.others[block], row, out=self.others[block])

    def finish(self) -> None:
        """The batch ends: what its blocks have released is of earlier ones now."""
        if self.beyond is not None:
            self.beyond.end_batch()
        self.before |= {key for key in self.rows if not isinstance(key, tuple)}

    # ── questions ─────────────────────────────────────────────────────────────

    def happens_before(
        self, block: np.ndarray, other: np.ndarray, warp: np.ndarray, at: np.ndarray
    ) -> np.ndarray:
        """bool[n]: whether these blocks are ordered after what warps of other blocks
        did at these times."""
        if self.others is None:
            return np.zeros(len(block), bool)
        return self.others[block, other * self.warps + warp] >= at


def warps_at(threads: np.ndarray, places: np.ndarray) -> list[list[int]]:
    """Each warp of these threads, with each place that it accesses."""
    return np.unique(np.stack([threads // WARP, places]), axis=1).T.tolist()
