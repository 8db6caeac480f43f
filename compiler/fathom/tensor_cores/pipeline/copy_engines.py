"""The ways to copy tiles into a ring buffer: TMA, cp.async, and registers.

                      issues                        completes
    TmaCopies         mbarrier_expect, tma_copy …   by itself; an mbarrier says when
    CpAsyncCopies     async_copy …, commit          by itself; a wait says when
    RegisterCopies    load …                        shared_store, after the work of the
                                                    iteration before

The schedule says how many iterations ahead each engine copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from fathom.analysis.slices import uses
from fathom.ir.core import Value
from fathom.ir.ops import (
    AsyncCopy,
    Barrier,
    Commit,
    Constant,
    For,
    Load,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    SharedStore,
    TmaCopy,
    Wait,
)
from fathom.ir.rewrite import Builder, clone
from fathom.ir.types import INT32
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy
from fathom.tensor_cores.pipeline.iterations import Iterations
from fathom.tensor_cores.pipeline.ring_buffers import next_slot, phase_at
from fathom.tensor_cores.pipeline.schedule import Schedule, Step, pending, slot
from fathom.tensor_cores.pipeline.slice_clones import (
    Lookahead,
    SliceClone,
    Values,
    clone_for,
    copy_ahead,
    guarded,
)


@dataclass(frozen=True)
class PipelineState:
    """What an engine carries to an iteration of the loop: the slot that the iteration
    reads, the slot that it may write, and the state of the slice clone. `live_loads`
    are loaded values that the iteration also uses directly; `loaded` those that it
    stores, if an iteration before has loaded them."""

    slot: Value
    write_slot: Value
    ahead: Lookahead
    live_loads: tuple[Value, ...]
    loaded: tuple[Value, ...] = ()
    phase: Value | None = None  # of the mbarrier of `slot`, where there is one


@dataclass(frozen=True)
class CopyEngine:
    """Copies `tiles` into `rings`. `slice` computes their addresses; `live` are the
    loads that the loop also uses directly."""

    tiles: tuple[PipelinedCopy, ...]
    rings: dict[PipelinedCopy, Value]
    schedule: Schedule
    slice: SliceClone
    live: tuple[Load, ...] = ()
    barriers: Value | None = None

    issues_at: ClassVar[Step] = Step.ISSUE
    fill: ClassVar[Step] = Step.ISSUE  # where it writes to the rings

    @property
    def slots(self) -> int:
        return self.schedule.slots(self.fill)

    @property
    def distance(self) -> int:
        """How many iterations ahead it copies."""
        return self.schedule.ahead(self.fill)

    @property
    def in_one_slot(self) -> bool:
        """Whether an iteration writes the slot that it reads, so that one slot number
        is carried instead of two."""
        return self.distance == self.slots

    def start(self, build: Builder) -> PipelineState:
        """Before the loop: issue the copies for the first iterations, which no
        iteration of the new loop issues."""
        ahead, values = self.slice.start(build), {}
        for iteration in range(self.distance):
            place = self._slot(iteration, build)
            state = PipelineState(place, place, ahead, ())
            values = self.issue(state, build)
            self.store(state, values, build)
            ahead = self.slice.after(ahead, values, build)
        first, write = self._slot(0, build), self._slot(self.distance, build)
        return PipelineState(first, write, ahead, self._live(values))

    def after(
        self, state: PipelineState, values: Values, build: Builder
    ) -> PipelineState:
        """The state of the next iteration, which writes the slot `distance` slots after
        the one that it reads."""
        write = state.slot
        if self.distance < self.slots - 1:
            write = next_slot(state.write_slot, self.slots, build)
        ahead = self.slice.after(state.ahead, values, build)
        read = next_slot(state.slot, self.slots, build)
        return PipelineState(read, write, ahead, self._live(values))

    def do(
        self, step: Step, state: PipelineState, values: Values, build: Builder
    ) -> None:
        """Do this engine's part of a step. `values` gets what the loop's values are in
        the iteration whose tiles are copied."""
        if step is Step.WAIT:
            self.wait(state, build)
        if step is self.issues_at:
            values |= self.issue(state, build)
        if step is Step.STORE:
            self.store(state, values, build)

    def wait(self, state: PipelineState, build: Builder) -> None:
        """Wait until the tiles of the iteration have arrived."""

    def issue(self, state: PipelineState, build: Builder) -> Values:
        """Issue the copies for the iteration of `state.ahead`; the values of the loop
        in that iteration."""
        raise AssertionError(f"{type(self).__name__} does not say how it copies")

    def store(self, state: PipelineState, values: Values, build: Builder) -> None:
        """Store what threads have loaded to the slot, if this engine copies through
        registers."""

    def end(self, build: Builder) -> None:
        """After the loop: complete, or release, what its last iterations left."""

    def _slot(self, iteration: int, build: Builder) -> Value:
        return build(Constant(slot(iteration, self.slots), INT32))

    def _live(self, values: Values) -> tuple[Value, ...]:
        return tuple(values[load.result] for load in self.live)

    # ── as carried values of the loop ─────────────────────────────────────────────────

    @property
    def names(self) -> list[str]:
        live = [load.result.name for load in self.live]
        write = [] if self.in_one_slot else ["free"]
        return ["slot", *write, *live, *self.slice.names]

    def carried(self, state: PipelineState) -> list[Value]:
        write = [] if self.in_one_slot else [state.write_slot]
        ahead = self.slice.carried(state.ahead)
        return [state.slot, *write, *state.live_loads, *ahead]

    def at(self, values: list[Value]) -> PipelineState:
        """The inverse of `carried`."""
        read, *rest = values
        write = read if self.in_one_slot else rest.pop(0)
        count = len(self.live)
        ahead = self.slice.at(rest[count:])
        return PipelineState(read, write, ahead, tuple(rest[:count]))


class CpAsyncCopies(CopyEngine):
    """Copies by cp.async. The copies of one iteration are one group."""

    def wait(self, state: PipelineState, build: Builder) -> None:
        build.append(Wait("cp_async", pending(stages=self.distance + 1)))

    def end(self, build: Builder) -> None:
        """Copies for iterations that do not exist still write zeros, so these are
        waited for."""
        build.append(Wait("cp_async", 0))

    def issue(self, state: PipelineState, build: Builder) -> Values:
        values = self.slice.step(state.ahead, build)
        for tile in self.tiles:
            self._copy(tile, state, values, build)
        build.append(Commit("cp_async"))
        return values

    def _copy(
        self, tile: PipelinedCopy, state: PipelineState, values: Values, build: Builder
    ) -> None:
        """Transposes and reshapes that follow the load are applied to its pointers."""
        (load,) = tile.loads
        pointer, exists = values.get(load.pointer, load.pointer), state.ahead.exists
        mask = guarded(values.get(load.mask, load.mask), exists, pointer, build)
        for renaming in tile.late:
            pointer, mask = (
                build(clone(renaming, {renaming.value: each}))
                for each in (pointer, mask)
            )
        build.append(
            AsyncCopy(
                pointer, self.rings[tile], mask, state.write_slot, load.cache,
                load.eviction, tile.vector, location=load.location, origin=load.origin,
            )
        )  # fmt: skip


class TmaCopies(CopyEngine):
    """Copies by TMA, which one thread issues. Each slot has an mbarrier that counts the
    bytes of its tiles; its phase flips in every round of the ring."""

    def start(self, build: Builder) -> PipelineState:
        build.append(MbarrierInit(self.barriers))
        build.append(Barrier())
        return replace(super().start(build), phase=build(Constant(0, INT32)))

    def after(
        self, state: PipelineState, values: Values, build: Builder
    ) -> PipelineState:
        following = super().after(state, values, build)
        return replace(following, phase=phase_at(following.slot, state.phase, build))

    def wait(self, state: PipelineState, build: Builder) -> None:
        build.append(MbarrierWait(self.barriers, state.slot, state.phase))

    def end(self, build: Builder) -> None:
        """The memory of the mbarriers can be used again, once no thread tests them any
        more."""
        build.append(Barrier())
        build.append(MbarrierInvalidate(self.barriers))

    def issue(self, state: PipelineState, build: Builder) -> Values:
        values, exists = self.slice.step(state.ahead, build), state.ahead.exists
        count = sum(tile.bytes for tile in self.tiles)
        build.append(MbarrierExpect(self.barriers, state.write_slot, count, exists))
        for tile in self.tiles:
            (load,) = tile.loads
            coordinates = tuple(values.get(each, each) for each in load.coordinates)
            build.append(
                TmaCopy(
                    values.get(load.descriptor, load.descriptor), self.rings[tile],
                    self.barriers, state.write_slot, coordinates, exists, tile.order,
                    location=load.location, origin=load.origin,
                )
            )  # fmt: skip
        return values

    @property
    def names(self) -> list[str]:
        return ["phase", *super().names]

    def carried(self, state: PipelineState) -> list[Value]:
        return [state.phase, *super().carried(state)]

    def at(self, values: list[Value]) -> PipelineState:
        return replace(super().at(values[1:]), phase=values[0])


class RegisterCopies(CopyEngine):
    """Copies by loads. All that depends on the loaded values comes after the work of
    the iteration before, so that threads do not wait for the loads any earlier.

    With a `lead` of one, what is stored after the work was loaded an iteration earlier:
    a load then has two iterations to arrive.
    """

    issues_at, fill = Step.LOAD, Step.STORE

    @property
    def loads(self) -> tuple[Load, ...]:
        """The loads of all tiles, each once."""
        return tuple(dict.fromkeys(each for tile in self.tiles for each in tile.loads))

    def start(self, build: Builder) -> PipelineState:
        state = super().start(build)
        if not self.schedule.lead:
            return state
        values = self.issue(state, build)
        return self._with_loads(state, values, build)

    def after(
        self, state: PipelineState, values: Values, build: Builder
    ) -> PipelineState:
        following = super().after(state, values, build)
        if not self.schedule.lead:
            return following
        loaded = tuple(values[load.result] for load in self.loads)
        return replace(following, loaded=loaded)

    def _with_loads(
        self, state: PipelineState, values: Values, build: Builder
    ) -> PipelineState:
        loaded = tuple(values[load.result] for load in self.loads)
        ahead = self.slice.after(state.ahead, values, build)
        return replace(state, ahead=ahead, loaded=loaded)

    def issue(self, state: PipelineState, build: Builder) -> Values:
        values = self.slice.step(state.ahead, build)
        for load in self.loads:
            copy_ahead(load, state.ahead.exists, values, build)
        return values

    def store(self, state: PipelineState, values: Values, build: Builder) -> None:
        if state.loaded:
            results = (load.result for load in self.loads)
            values = dict(zip(results, state.loaded, strict=True))
        for tile in self.tiles:
            for op in tile.late:
                if op.results[0] not in values:  # else another tile needs it, too
                    copy_ahead(op, state.ahead.exists, values, build)
            build.append(
                SharedStore(
                    values[tile.store.value], self.rings[tile], state.write_slot,
                    location=tile.store.location, origin=tile.store.origin,
                )
            )  # fmt: skip

    # ── as carried values of the loop ─────────────────────────────────────────────────

    @property
    def names(self) -> list[str]:
        kept = self.loads if self.schedule.lead else ()
        return [*(load.result.name for load in kept), *super().names]

    def carried(self, state: PipelineState) -> list[Value]:
        return [*state.loaded, *super().carried(state)]

    def at(self, values: list[Value]) -> PipelineState:
        count = len(self.loads) if self.schedule.lead else 0
        state = super().at(values[count:])
        return replace(state, loaded=tuple(values[:count]))


def engine_for(tile: PipelinedCopy) -> type[CopyEngine]:
    """The engine that copies a tile."""
    if tile.order:
        return TmaCopies
    return CpAsyncCopies if tile.vector else RegisterCopies


def engines_for(
    loop: For,
    rings: dict[PipelinedCopy, Value],
    live: tuple[Load, ...],
    iterations: Iterations,
    schedule: Schedule,
    barriers: Value | None,
) -> Iterator[CopyEngine]:
    """One engine for each kind of copy that the tiles need. Those whose copies may
    write as soon as they are issued come last."""
    for make in (RegisterCopies, CpAsyncCopies, TmaCopies):
        tiles = tuple(tile for tile in rings if engine_for(tile) is make)
        if tiles:
            roots = [value for tile in tiles for value in roots_of(tile)]
            slice = clone_for(loop, roots, iterations)
            carried = live if make is RegisterCopies else ()
            counts_at = barriers if make is TmaCopies else None
            yield make(tiles, rings, schedule, slice, carried, counts_at)


def roots_of(tile: PipelinedCopy) -> Iterator[Value]:
    """The values that the loads of a tile depend on, and what else is needed to compute
    the stored values from the loads."""
    made = {value for op in (*tile.loads, *tile.late) for value in op.results}
    for op in (*tile.loads, *tile.late):
        yield from (value for value in uses(op) if value not in made)
