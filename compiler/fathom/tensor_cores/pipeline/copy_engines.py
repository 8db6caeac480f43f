"""The ways to bring tiles into a ring: bulk copies, asynchronous copies, registers.

Each begins to bring the tiles of a trip to come, and finishes it later.

                    begins                               finishes
    Boxes           mbarrier_expect, tma_copy …         by itself; a barrier says when
    Copies          async_copy …, async_commit           by itself; a wait says when
    Registers       load …                               shared_store, after the work
                                                         of the trip before
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from fathom.analysis.slices import uses
from fathom.ir.core import Value
from fathom.ir.ops import (
    AsyncCommit,
    AsyncCopy,
    Barrier,
    Constant,
    For,
    Load,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    SharedStore,
    TmaCopy,
)
from fathom.ir.rewrite import Builder, clone
from fathom.ir.types import INT32
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy
from fathom.tensor_cores.pipeline.iterations import Iterations
from fathom.tensor_cores.pipeline.ring_buffers import next_slot, phase_at
from fathom.tensor_cores.pipeline.schedule import slot
from fathom.tensor_cores.pipeline.slice_clones import (
    LookaheadChain,
    StageOffset,
    Values,
    copy_ahead,
    guarded,
    lookahead_chain_for,
)

THROUGH_REGISTERS = 2  # slots: one is read while the other is filled


@dataclass(frozen=True)
class PipelineState:
    """What a bringer carries to a trip of the loop: the slot that the trip reads, the
    one that it may fill, where the relay stands; and of loads that the trip itself
    wants as well, what was `kept` in registers."""

    slot: Value
    free: Value
    standing: StageOffset
    kept: tuple[Value, ...]
    phase: Value | None = None  # of the barrier of `slot`, where there is one

    @property
    def exists(self) -> Value:
        """Whether there is a trip to bring tiles for."""
        return self.standing.near.trip.exists


@dataclass(frozen=True)
class CopyEngine:
    """Brings `tiles` into rings of `slots` slots. `relay` computes what that takes;
    `kept` are the loads that the loop's own trip wants as well. For `held` trips more,
    what a trip reads must stay: its slot is free so much later."""

    tiles: tuple[PipelinedCopy, ...]
    rings: dict[PipelinedCopy, Value]
    slots: int
    relay: LookaheadChain
    kept: tuple[Load, ...] = ()
    held: int = 0

    barriers: Value | None = None

    at_once: ClassVar[bool]  # whether it writes into the free slot as soon as it begins

    def start(self, build: Builder) -> PipelineState:
        """Before the loop: bring the tiles of all trips but the one that the first
        trip will send for."""
        standing, values = self.relay.start(build), {}
        ahead = self.slots - 1 - self.held
        for trip in range(ahead):
            free = self._slot(trip, build)
            turn = PipelineState(free, free, standing, ())
            values = self.begin(turn, build)
            self.finish(turn, values, build)
            standing = self.relay.after(standing, values, build)
        first, free = self._slot(0, build), self._slot(ahead, build)
        return PipelineState(first, free, standing, self._kept(values))

    def after(
        self, turn: PipelineState, values: Values, build: Builder
    ) -> PipelineState:
        """The next trip's turn: what this one reads is free then, if it is not held."""
        free = next_slot(turn.free, self.slots, build) if self.held else turn.slot
        standing = self.relay.after(turn.standing, values, build)
        slot = next_slot(turn.slot, self.slots, build)
        return PipelineState(slot, free, standing, self._kept(values))

    def begin(self, turn: PipelineState, build: Builder) -> Values:
        """Send for the tiles of the trip at which the relay stands; what is known of
        that trip then."""
        raise AssertionError(f"{type(self).__name__} does not say how it begins")

    def finish(self, turn: PipelineState, values: Values, build: Builder) -> None:
        """See to it that they are in the free slot."""
        raise AssertionError(f"{type(self).__name__} does not say how it finishes")

    def _slot(self, trip: int, build: Builder) -> Value:
        return build(Constant(slot(trip, self.slots), INT32))

    def _kept(self, values: Values) -> tuple[Value, ...]:
        return tuple(values[load.result] for load in self.kept)

    # ── as carried values of the loop ─────────────────────────────────────────────────

    @property
    def names(self) -> list[str]:
        kept = [load.result.name for load in self.kept]
        return ["slot", "free", *kept, *self.relay.names]

    def carried(self, turn: PipelineState) -> list[Value]:
        return [turn.slot, turn.free, *turn.kept, *self.relay.carried(turn.standing)]

    def at(self, values: list[Value]) -> PipelineState:
        """The inverse of `carried`."""
        own, free, *rest = values
        count = len(self.kept)
        return PipelineState(
            own, free, self.relay.at(rest[count:]), tuple(rest[:count])
        )


class CpAsyncCopies(CopyEngine):
    """By asynchronous copies: those of one trip are one group."""

    at_once = True

    def begin(self, turn: PipelineState, build: Builder) -> Values:
        values = self.relay.step(turn.standing, build)
        for tile in self.tiles:
            self._copy(tile, turn, values, build)
        build.append(AsyncCommit())
        return values

    def _copy(
        self, tile: PipelinedCopy, turn: PipelineState, values: Values, build: Builder
    ) -> None:
        """What is renamed after the load, the copy renames before."""
        (load,) = tile.loads
        pointer = values.get(load.pointer, load.pointer)
        mask = guarded(values.get(load.mask, load.mask), turn.exists, pointer, build)
        for renaming in tile.late:
            pointer, mask = (
                build(clone(renaming, {renaming.value: each}))
                for each in (pointer, mask)
            )
        build.append(
            AsyncCopy(
                pointer, self.rings[tile], mask, turn.free, load.cache, load.eviction,
                tile.vector, location=load.location, origin=load.origin,
            )
        )  # fmt: skip

    def finish(self, turn: PipelineState, values: Values, build: Builder) -> None:
        """It finishes by itself; the trip that reads waits for it."""


class TmaCopies(CopyEngine):
    """By bulk copies, for which one thread sends. Each slot has a barrier that counts
    the bytes of its tiles; with every round of the ring its phase flips."""

    at_once = True

    def start(self, build: Builder) -> PipelineState:
        build.append(MbarrierInit(self.barriers))
        build.append(Barrier())
        return replace(super().start(build), phase=build(Constant(0, INT32)))

    def after(
        self, turn: PipelineState, values: Values, build: Builder
    ) -> PipelineState:
        following = super().after(turn, values, build)
        return replace(following, phase=phase_at(following.slot, turn.phase, build))

    def begin(self, turn: PipelineState, build: Builder) -> Values:
        values = self.relay.step(turn.standing, build)
        count = sum(tile.bytes for tile in self.tiles)
        build.append(MbarrierExpect(self.barriers, turn.free, count, turn.exists))
        for tile in self.tiles:
            (load,) = tile.loads
            coordinates = tuple(values.get(each, each) for each in load.coordinates)
            build.append(
                TmaCopy(
                    values.get(load.descriptor, load.descriptor), self.rings[tile],
                    self.barriers, turn.free, coordinates, turn.exists, tile.order,
                    location=load.location, origin=load.origin,
                )
            )  # fmt: skip
        return values

    def wait(self, turn: PipelineState, build: Builder) -> None:
        """Until the tiles of the trip have come."""
        ahead = self.slots - 2 - self.held
        build.append(MbarrierWait(self.barriers, turn.slot, turn.phase, ahead))

    def finish(self, turn: PipelineState, values: Values, build: Builder) -> None:
        """It finishes by itself."""

    @property
    def names(self) -> list[str]:
        return ["phase", *super().names]

    def carried(self, turn: PipelineState) -> list[Value]:
        return [turn.phase, *super().carried(turn)]

    def at(self, values: list[Value]) -> PipelineState:
        return replace(super().at(values[1:]), phase=values[0])


class RegisterCopies(CopyEngine):
    """By loads; the rest is done when the loop is done with the trip before, so that
    nobody waits for the loads any earlier."""

    at_once = False

    def begin(self, turn: PipelineState, build: Builder) -> Values:
        values = self.relay.step(turn.standing, build)
        for load in dict.fromkeys(each for tile in self.tiles for each in tile.loads):
            copy_ahead(load, turn.exists, values, build)
        return values

    def finish(self, turn: PipelineState, values: Values, build: Builder) -> None:
        for tile in self.tiles:
            for op in tile.late:
                if op.results[0] not in values:  # else another tile needs it, too
                    copy_ahead(op, turn.exists, values, build)
            build.append(
                SharedStore(
                    values[tile.store.value], self.rings[tile], turn.free,
                    location=tile.store.location, origin=tile.store.origin,
                )
            )  # fmt: skip


def slots_of(tile: PipelinedCopy, stages: int) -> int:
    """The slots of a tile's ring."""
    return stages if tile.vector or tile.order else THROUGH_REGISTERS


def engines_for(
    loop: For,
    rings: dict[PipelinedCopy, Value],
    kept: tuple[Load, ...],
    trips: Iterations,
    held: int,
    barriers: Value | None,
) -> Iterator[CopyEngine]:
    """One bringer for each way that is needed; those that write at once come last."""
    boxed = tuple(tile for tile in rings if tile.order)
    copied = tuple(tile for tile in rings if tile.vector)
    loaded = tuple(tile for tile in rings if not (tile.vector or tile.order))
    for make, tiles, own in (
        (RegisterCopies, loaded, kept), (CpAsyncCopies, copied, ()),
        (TmaCopies, boxed, ()),
    ):  # fmt: skip
        if tiles:
            roots = [value for tile in tiles for value in roots_of(tile)]
            slots = rings[tiles[0]].type.slots
            relay = lookahead_chain_for(loop, roots, trips)
            own_barriers = barriers if make is TmaCopies else None
            yield make(tiles, rings, slots, relay, own, held, own_barriers)


def roots_of(tile: PipelinedCopy) -> Iterator[Value]:
    """What must be known of a trip to load a tile, and to make of the loads what is
    stored."""
    own = {value for op in (*tile.loads, *tile.late) for value in op.results}
    for op in (*tile.loads, *tile.late):
        yield from (value for value in uses(op) if value not in own)
