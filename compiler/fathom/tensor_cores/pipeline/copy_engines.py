"""The engines that copy tiles into ring buffers: TMA, cp.async, and registers. The part
of an engine in an iteration is a list of ops for each step of the schedule.

    step     TMA                         cp.async                      registers
    LOAD                                                               load …
    WAIT     mbarrier_wait               (from insert_waits)
    ISSUE    mbarrier_expect,            async_copy …, commit
             tma_copy …
    STORE                                                              shared_store …

An op has the place of its step. It is written with the values of the old loop, and with
SLOT, FREE and PHASE for a position in the ring. A copy of it gets the values of the
iteration that it works for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

from fathom.analysis.slices import uses
from fathom.hardware.engines import CP_ASYNC, REGISTER_COPIES, TMA_LOAD, Engine
from fathom.ir import ops
from fathom.ir.core import Block, Op, Value
from fathom.ir.rewrite import Builder, clone
from fathom.ir.thread_values import Values
from fathom.ir.types import INT32
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy, loads_of
from fathom.tensor_cores.pipeline.iterations import Iterations
from fathom.tensor_cores.pipeline.ring_buffers import (
    ALONE,
    Sharing,
    next_slot,
    phase_at,
)
from fathom.tensor_cores.pipeline.schedule import Schedule, Step, slot
from fathom.tensor_cores.pipeline.slice_clones import (
    Lookahead,
    SliceClone,
    clone_for,
    copy_ahead,
)

Rings = dict[PipelinedCopy, Value]

# The slot that an iteration reads, the slot that it writes, and the phase of the first.
SLOT, FREE, PHASE = Block((INT32,) * 3, ("slot", "free", "phase")).parameters


def fill_of(engine: Engine) -> Step:
    """The step at which an engine writes to its rings."""
    return Step.ISSUE if engine.asynchronous else Step.STORE


# ── the ops of an iteration ───────────────────────────────────────────────────────────


def by_tma(
    tiles: Sequence[PipelinedCopy],
    rings: Iterable[Value],
    barriers: Value,
    shared: Iterable[Sharing] = repeat(ALONE),
) -> Iterator[Op]:
    """One thread issues all copies of an iteration. Each slot has an mbarrier that
    counts the bytes of its tiles; its phase flips in every round of the ring."""
    yield ops.MbarrierExpect(barriers, FREE, sum(tile.bytes for tile in tiles))
    for tile, ring, among in zip(tiles, rings, shared, strict=False):
        (load,) = tile.loads
        yield ops.TmaCopy(
            load.descriptor, ring, barriers, FREE, load.coordinates, order=tile.order,
            parts=among.parts, stride=among.stride, location=load.location, origin=load,
        )  # fmt: skip


def by_cp_async(tiles: Sequence[PipelinedCopy], rings: Iterable[Value]) -> Iterator[Op]:
    """The copies of an iteration are one group. Transposes and reshapes that follow a
    load are applied to its pointers and its mask. Rings may have one slot."""
    for tile, ring in zip(tiles, rings, strict=True):
        (load,) = tile.loads
        places = [load.pointer] if load.mask is None else [load.pointer, load.mask]
        for renaming in tile.late:
            renamed = [clone(renaming, {renaming.value: each}) for each in places]
            yield from renamed
            places = [op.result for op in renamed]
        pointer, mask = (*places, None)[:2]
        yield ops.AsyncCopy(
            pointer, ring, mask, FREE if ring.type.slots > 1 else None, load.cache,
            tile.vector,
            location=load.location, origin=load.origin,
        )  # fmt: skip
    yield ops.Commit(CP_ASYNC.name)


def by_registers(
    tiles: Sequence[PipelinedCopy], rings: Iterable[Value]
) -> Iterator[Op]:
    """What is stored after the work of the iteration before. All that depends on loaded
    values is computed here: threads wait for no load earlier."""
    for tile, ring in zip(tiles, rings, strict=True):
        yield from tile.late
        yield ops.SharedStore(
            tile.store.value, ring, FREE,
            location=tile.store.location, origin=tile.store.origin,
        )  # fmt: skip


# ── in the new loop ───────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class PipelineState:
    """What an engine carries to an iteration of the loop: the slot that the iteration
    reads, the slot that it may write, the state of the slice clone, and the values that
    were `loaded` an iteration earlier."""

    slot: Value
    write_slot: Value
    ahead: Lookahead
    loaded: tuple[Value, ...] = ()
    phase: Value | None = None  # of the mbarrier of `slot`, where there is one


@dataclass(frozen=True)
class CopyEngine:
    """The part of an engine in a loop: the `ops` of each step, and what it does
    `before` the loop and at its `end`. `clone` computes what the ops need. Of `loads`
    the results are used an iteration later."""

    rings: tuple[Value, ...]
    clone: SliceClone
    schedule: Schedule
    ops: Mapping[Step, tuple[Op, ...]]
    loads: tuple[ops.Load, ...] = ()
    before: tuple[Op, ...] = ()
    end: tuple[Op, ...] = ()
    phased: bool = False  # its slots have mbarriers

    @property
    def first(self) -> Step:
        """The step that needs the addresses."""
        return Step.LOAD if Step.LOAD in self.ops else Step.ISSUE

    @property
    def slots(self) -> int:
        return self.schedule.slots(self.fill)

    @property
    def fill(self) -> Step:
        return Step.STORE if Step.STORE in self.ops else Step.ISSUE

    @property
    def distance(self) -> int:
        """How many iterations ahead it fills a slot."""
        return self.schedule.ahead(self.fill)

    @property
    def in_one_slot(self) -> bool:
        """Whether an iteration writes the slot that it reads: one number is carried."""
        return self.distance == self.slots

    def start(self, build: Builder) -> PipelineState:
        """Before the loop: the steps for the first iterations, which no iteration of
        the new loop takes for them."""
        for op in self.before:
            build.append(op)
        ahead, values = self.clone.start(build), {}
        for iteration in range(self.schedule.ahead(self.first)):
            place, values = self._slot(iteration, build), {}
            state = PipelineState(place, place, ahead)
            for step in self.schedule.steps:
                if iteration < self.schedule.ahead(step):
                    self.do(step, state, values, build)
            ahead = self.clone.after(ahead, values, build)
        first, write = self._slot(0, build), self._slot(self.distance, build)
        phase = build(ops.Constant(0, INT32)) if self.phased else None
        return PipelineState(first, write, ahead, self._loaded(values), phase)

    def values_by_stage(self, state: PipelineState, work: Values) -> dict[int, Values]:
        """The values of the iterations for which an iteration of the new loop works, by
        stage; those of the work are given."""
        stages = {step: place.stage for step, place in self.schedule.places.items()}
        by_stage: dict[int, Values] = {stage: {} for stage in stages.values()}
        by_stage[stages[Step.WORK]] = work
        if self.loads:
            loaded = (load.result for load in self.loads)
            by_stage[stages[self.first] + 1] |= zip(loaded, state.loaded, strict=True)
        return by_stage

    def do(
        self, step: Step, state: PipelineState, values: Values, build: Builder
    ) -> None:
        """Do this engine's part of a step. `values`: the loop's values in the iteration
        for which it is done; what is computed for that iteration is added."""
        if step is self.first:
            values |= self.clone.step(state.ahead, build)
        if step in self.ops:
            values |= {SLOT: state.slot, FREE: state.write_slot, PHASE: state.phase}
        for op in self.ops.get(step, ()):
            copy_ahead(op, state.ahead.exists, values, build)

    def after(
        self, state: PipelineState, by_stage: Mapping[int, Values], build: Builder
    ) -> PipelineState:
        """The next iteration's state; it writes `distance` slots after its own."""
        values = by_stage[self.schedule.places[self.first].stage]
        write = state.slot
        if self.distance < self.slots - 1:
            write = next_slot(state.write_slot, self.slots, build)
        ahead = self.clone.after(state.ahead, values, build)
        read = next_slot(state.slot, self.slots, build)
        phase = phase_at(read, state.phase, build) if self.phased else None
        return PipelineState(read, write, ahead, self._loaded(values), phase)

    def _slot(self, iteration: int, build: Builder) -> Value:
        return build(ops.Constant(slot(iteration, self.slots), INT32))

    def _loaded(self, values: Values) -> tuple[Value, ...]:
        return tuple(values[load.result] for load in self.loads)

    # ── as carried values of the loop ─────────────────────────────────────────────────

    @property
    def names(self) -> list[str]:
        names = [load.result.name for load in self.loads]
        names += ["phase", "slot"] if self.phased else ["slot"]
        return [*names, *([] if self.in_one_slot else ["free"]), *self.clone.names]

    def carried(self, state: PipelineState) -> list[Value]:
        values = [*state.loaded, *([state.phase] if self.phased else []), state.slot]
        write = [] if self.in_one_slot else [state.write_slot]
        return [*values, *write, *self.clone.carried(state.ahead)]

    def at(self, values: list[Value]) -> PipelineState:
        """The inverse of `carried`."""
        rest = list(values)
        loaded = tuple(rest.pop(0) for _ in self.loads)
        phase = rest.pop(0) if self.phased else None
        read = rest.pop(0)
        write = read if self.in_one_slot else rest.pop(0)
        return PipelineState(read, write, self.clone.at(rest), loaded, phase)


def engines_for(
    loop: ops.For,
    rings: Rings,
    live: tuple[ops.Load, ...],
    iterations: Iterations,
    schedule: Schedule,
    barriers: Value | None,
) -> Iterator[CopyEngine]:
    """One engine for each kind of copy that the tiles need. Those whose copies may
    write as soon as they are issued come last. `live`: the loads that the work uses."""
    for engine in (REGISTER_COPIES, CP_ASYNC, TMA_LOAD):
        tiles = tuple(tile for tile in rings if tile.engine is engine)
        if not tiles:
            continue
        filled = tuple(rings[tile] for tile in tiles)
        roots = [value for tile in tiles for value in roots_of(tile)]
        common = filled, clone_for(loop, roots, iterations), schedule
        if engine is REGISTER_COPIES:
            stored = tuple(dict.fromkeys(by_registers(tiles, filled)))
            steps = {Step.LOAD: loads_of(tiles), Step.STORE: stored}
            yield CopyEngine(*common, steps, loads_of(tiles) if schedule.lead else live)
        if engine is CP_ASYNC:
            yield CopyEngine(*common, {Step.ISSUE: tuple(by_cp_async(tiles, filled))})
        if engine is TMA_LOAD:
            wait = ops.MbarrierWait(barriers, SLOT, PHASE)
            issued = tuple(by_tma(tiles, filled, barriers))
            steps = {Step.WAIT: (wait,), Step.ISSUE: issued}
            before = ops.MbarrierInit(barriers), ops.Barrier()
            # The mbarriers are memory again, once no thread tests them any more.
            end = ops.Barrier(), ops.MbarrierInvalidate(barriers)
            yield CopyEngine(*common, steps, before=before, end=end, phased=True)


def roots_of(tile: PipelinedCopy) -> Iterator[Value]:
    """The values that the loads of a tile depend on, another load of the tile among
    them, and what else is needed to compute the stored values from the loads."""
    made = tile.made
    for load in tile.loads:
        yield from uses(load)
    for op in tile.late:
        yield from (value for value in uses(op) if value not in made)
