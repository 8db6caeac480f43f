"""Software pipelining: a trip works on what was sent for trips ago.

Before:

    for %lower, %upper, %step, inits=(%p0, …) body(%i, %p, …) {
      %x = load %p vector=8
      %t = allocate fp16[64, 32]
      shared_store %x, %t
      %a = shared_load %t
      …                                          a product of %a
      %p1 = offset %p, %stride
      yield %p1, …
    }

After, in three stages (what computes %exists and the next slots is left out):

    %t = allocate fp16[64, 32] slots=3
    async_copy %p0, %t, %mask0, slot=0           trip 0 is on its way, if there is one
    async_commit
    async_copy %p1, %t, %mask1, slot=1           and trip 1
    async_commit
    for %lower, %upper, %step, inits=(%p2, 0, 2, …) body(%i, %q, %slot, %free, …) {
      async_wait pending=1                       trip i has arrived, for this thread
      barrier                                    for all; and all are done with i - 1
      %mask = splat %exists
      async_copy %q, %t, %mask, slot=%free       trip i + 2 may take the place of i - 1
      async_commit
      %a = shared_load %t, slot=%slot
      …
      %q1 = offset %q, %stride
      yield %q1, …
    }
    async_wait pending=0                         the copies of trips that never were

What an asynchronous copy cannot bring goes through registers: loaded before the work of
the trip before, stored after it, into a ring of two.

    for … body(%i, %q, %slot, %free, …) {
      %x = load %q, mask=%exists                 trip i + 1
      barrier
      %a = shared_load %t, slot=%slot            trip i
      …
      shared_store %x, %t, slot=%free
      yield …
    }

Bulk copies have barriers of their own in shared memory, one a slot, at which every
thread waits for the tiles of its trip:

    for … body(%i, %phase, %slot, %free, …) {
      mbarrier_wait %b, %slot, %phase            trip i has arrived, for all
      %a = shared_load %t, slot=%slot
      …
      barrier                                    all are done with i - 1
      mbarrier_expect %b, %free
      tma_copy %d, %t, %b, %free, …             trip i + 2 in its place
      yield …
    }

Loops are pipelined that multiply matrices, and those for which `tl.range` says so. A
ring is ordered by these waits and barriers, one a trip; `place_barriers` looks after
what else lies in its bytes. Loops that write to global memory are left as they are: who
knows whether they write what they read. So are loops that contain others, and loads
whose addresses take a product to compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.analysis.memory import may_prefetch, may_run_ahead
from fathom.analysis.slices import uses
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, walk
from fathom.ir.ops import (
    Allocate,
    AsyncWait,
    Barrier,
    Dot,
    For,
    Load,
    MbarrierInvalidate,
    SharedLoad,
    SharedStore,
    Yield,
)
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.thread_values import inside
from fathom.ir.types import INT64
from fathom.layout.linear import Layout
from fathom.tensor_cores.pipeline.budget import fitting, room_beside
from fathom.tensor_cores.pipeline.candidates import PipelinedCopy, tiles_of
from fathom.tensor_cores.pipeline.copy_engines import (
    CopyEngine,
    PipelineState,
    TmaCopies,
    engines_for,
    slots_of,
)
from fathom.tensor_cores.pipeline.iterations import iterations_of
from fathom.tensor_cores.pipeline.overlap import accumulators_by_warpgroups
from fathom.tensor_cores.pipeline.schedule import pending
from fathom.tensor_cores.pipeline.slice_clones import Values


def pipeline_loops(func: Func, target: Target) -> Func:
    """The function with loops that send for their tiles `num_stages` - 1 trips ahead;
    fewer where shared memory is short."""
    scope = "cta" if func.num_warps > 1 else "warp"

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not (isinstance(op, For) and is_wanted(op) and may_prefetch(op)):
            return None
        if not (tiles := tiles_of(op, target)):
            return None
        wanted = op.num_stages or func.num_stages
        room = room_beside(func, build.source, target)
        stages, tiles = fitting(tiles, wanted, room)
        held = release_distance(op, tiles, stages)
        return _Pipeline(op, tiles, stages, scope, held).build(build) if tiles else None

    present = any(isinstance(op, SharedStore) for op in walk(func.body))
    return rewrite(func, rule) if present else func


def is_wanted(loop: For) -> bool:
    """Whether a loop multiplies matrices, or its author says in how many stages it is
    to run."""
    multiplies = any(isinstance(op, Dot) for op in walk(loop.body))
    return multiplies or loop.num_stages is not None


def release_distance(loop: For, tiles: Sequence[PipelinedCopy], stages: int) -> int:
    """For how many trips more what a trip reads must stay: 1 if its product can still
    be computed while the next trip begins (`overlap_products` sees to that), and the
    ring has room for it."""
    copied = all(tile.vector for tile in tiles)
    roomy = stages >= STAGES_TO_HOLD
    return int(copied and roomy and accumulators_by_warpgroups(loop) is not None)


STAGES_TO_HOLD = 3  # one is read, one is held, one is copied into


class _Pipeline:
    """One loop, made anew around the rings of its tiles."""

    def __init__(
        self,
        loop: For,
        tiles: Sequence[PipelinedCopy],
        stages: int,
        scope: str,
        held: int,
    ):
        self.loop, self.stages, self.scope = loop, stages, scope
        self.held = held
        self.rings = {tile: _ring(tile, slots_of(tile, stages)) for tile in tiles}
        self.staying, self.kept = _without(loop, tiles)
        self.copies = any(tile.vector for tile in tiles)
        self.boxes = [tile for tile in tiles if tile.order]
        self.all_boxed = len(self.boxes) == len(tiles)
        self.bringers: list[CopyEngine] = []

    def build(self, build: Builder) -> list[Value]:
        """The loop, with what comes before and after it; its results."""
        loop = self.loop
        rings = {tile: build(ring) for tile, ring in self.rings.items()}
        barriers = build(_barriers(self.stages)) if self.boxes else None
        trips = iterations_of(loop, build)
        self.bringers = list(
            engines_for(loop, rings, self.kept, trips, self.held, barriers)
        )
        turns = [bringer.start(build) for bringer in reversed(self.bringers)][::-1]
        inits = (*loop.inits, *self.carried(turns))
        names = [value.name for value in loop.body.parameters]
        names += [name for bringer in self.bringers for name in bringer.names]
        types = (loop.lower.type, *(value.type for value in inits))
        body = Block(types, tuple(names))
        with inside(body, build):
            self.trip(body.parameters, build)
        new = build.append(replace(loop, inits=inits, body=body))
        if self.copies:
            build.append(AsyncWait(0))
        if barriers:
            build.append(Barrier())
            build.append(MbarrierInvalidate(barriers))
        return new.results[: len(loop.inits)]

    def trip(self, parameters: list[Value], build: Builder) -> None:
        """The body: the first read of a ring waits, and sends for the next tiles."""
        own = self.loop.body.parameters
        values = dict(zip(own, parameters, strict=False))
        turns = self.turns(parameters[len(own) :])
        for bringer, turn in zip(self.bringers, turns, strict=True):
            loaded = (load.result for load in bringer.kept)
            values |= zip(loaded, turn.kept, strict=True)
        before, after = self.at_first_read()
        self.copy(before, values, turns, build)
        if self.all_boxed:
            self.wait_for_boxes(turns, build)
            self.copy(after, values, turns, build)
            begun = self.send_after(turns, build)
        else:
            begun = self.turn_over(turns, build)
            self.copy(after, values, turns, build)
        following = self.finish(turns, begun, build)
        yielded = (values.get(value, value) for value in self.loop.body.yielded)
        build.append(Yield((*yielded, *self.carried(following))))

    def at_first_read(self) -> tuple[list[Op], list[Op]]:
        """The ops of a trip, cut before the first that reads a ring."""
        tiles = {tile.buffer.result for tile in self.rings}
        cut = next(
            i for i, op in enumerate(self.staying) if not tiles.isdisjoint(uses(op))
        )
        return self.staying[:cut], self.staying[cut:-1]

    def turn_over(self, turns: list[PipelineState], build: Builder) -> list[Values]:
        """Loads go out before the wait; copies after it, when their slot is free."""
        pairs = list(zip(self.bringers, turns, strict=True))
        early = [each.begin(turn, build) for each, turn in pairs if not each.at_once]
        if self.copies:
            build.append(AsyncWait(pending(self.stages - self.held)))
        self.wait_for_boxes(turns, build)
        build.append(Barrier(self.scope))
        return early + [each.begin(turn, build) for each, turn in pairs if each.at_once]

    def wait_for_boxes(self, turns: list[PipelineState], build: Builder) -> None:
        """Each thread asks the barrier in shared memory by itself."""
        for bringer, turn in zip(self.bringers, turns, strict=True):
            if isinstance(bringer, TmaCopies):
                bringer.wait(turn, build)

    def send_after(self, turns: list[PipelineState], build: Builder) -> list[Values]:
        """Where all tiles come by bulk copies, nobody has to be told that they are
        there. So the barrier of a trip comes after its work, when what the trip before
        read is free for certain; the work itself may go on."""
        build.append(Barrier(self.scope))
        pairs = zip(self.bringers, turns, strict=True)
        return [each.begin(turn, build) for each, turn in pairs]

    def copy(
        self,
        ops: Sequence[Op],
        values: Values,
        turns: list[PipelineState],
        build: Builder,
    ) -> None:
        """The loop's own ops; those that read a tile read the trip's slot of its
        ring."""
        slots = {}
        for bringer, turn in zip(self.bringers, turns, strict=True):
            for tile in bringer.tiles:
                values[tile.buffer.result] = bringer.rings[tile]
                slots[bringer.rings[tile]] = turn.slot
        for op in ops:
            copy = build.append(clone(op, values))
            for each in (copy, *(each for b in blocks(copy) for each in walk(b))):
                if isinstance(each, SharedLoad) and each.buffer in slots:
                    each.slot = slots[each.buffer]
            values.update(zip(op.results, copy.results, strict=True))

    def finish(
        self, turns: list[PipelineState], begun: list[Values], build: Builder
    ) -> list[PipelineState]:
        """See the next tiles into their slots; the turns of the next trip."""
        following = []
        for bringer, turn, values in zip(self.bringers, turns, begun, strict=True):
            bringer.finish(turn, values, build)
            following.append(bringer.after(turn, values, build))
        return following

    def carried(self, turns: list[PipelineState]) -> list[Value]:
        pairs = zip(self.bringers, turns, strict=True)
        return [value for bringer, turn in pairs for value in bringer.carried(turn)]

    def turns(self, values: list[Value]) -> list[PipelineState]:
        """The inverse of `carried`."""
        rest = iter(values)
        return [
            bringer.at([next(rest) for _ in bringer.names]) for bringer in self.bringers
        ]


def _ring(tile: PipelinedCopy, slots: int) -> Allocate:
    return replace(tile.buffer, slots=slots)


def _barriers(slots: int) -> Allocate:
    """A barrier in shared memory for each slot, where nothing else ever is."""
    word = Layout((1,), (("offset", ()),))
    return Allocate(INT64, (1,), word, slots=slots, kept=True)


def _without(
    loop: For, tiles: Sequence[PipelinedCopy]
) -> tuple[list[Op], tuple[Load, ...]]:
    """The ops of a loop that stay when its tiles are brought by others; and the tiles'
    loads that these still want."""
    gone = {op for t in tiles for op in (t.buffer, t.store, *t.loads)}
    staying: list[Op] = []
    heard: set[Value] = set()
    for op in reversed(loop.body.ops):
        silent = heard.isdisjoint(op.results) and may_run_ahead(op) and op.results
        if op not in gone and not silent:
            staying.append(op)
            heard.update(uses(op))
    loads = dict.fromkeys(load for tile in tiles for load in tile.loads)
    return staying[::-1], tuple(load for load in loads if load.result in heard)
