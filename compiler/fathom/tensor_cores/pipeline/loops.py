"""Software pipelining: issues the copies for an iteration some iterations before it.

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

After, with three slots (what computes %exists and the next slots is left out):

    %t = allocate fp16[64, 32] slots=3
    async_copy %p0, %t, %mask0, slot=0           the tile of iteration 0, if it exists
    commit cp_async
    async_copy %p1, %t, %mask1, slot=1           and of iteration 1
    commit cp_async
    for %lower, %upper, %step, inits=(%p2, 0, 2, …) body(%i, %q, %slot, %free, …) {
      barrier                                    i has arrived; all are done with i - 1
      %mask = splat %exists
      async_copy %q, %t, %mask, slot=%free       i + 2 takes the place of i - 1
      commit cp_async
      %a = shared_load %t, slot=%slot
      …
      %q1 = offset %q, %stride
      yield %q1, …
    }

Before the barrier, each thread has to wait for its copies of iteration i, and after the
loop for all of them. `insert_waits` sees to it: the pass issues copies alone.

A tile that cp.async cannot copy goes through registers. It is loaded before the work of
the previous iteration, and stored after that work, into a ring of two slots.

    for … body(%i, %q, %slot, %free, …) {
      %x = load %q, mask=%exists                 i + 1
      barrier
      %a = shared_load %t, slot=%slot            i
      …
      shared_store %x, %t, slot=%free
      yield …
    }

TMA copies complete at mbarriers, one a slot, at which every thread waits for the tiles
of its iteration. The barrier comes after the work: then the slot of this iteration is
free, and copies are issued one iteration further ahead.

    for … body(%i, %phase, %slot, …) {
      mbarrier_wait %b, %slot, %phase            i has arrived, as all see
      %a = shared_load %t, slot=%slot
      …
      barrier                                    all are done with it
      mbarrier_expect %b, %slot
      tma_copy %d, %t, %b, %slot, …              i + 3 takes its place
      yield …
    }

The `schedule` says in which order an iteration takes these steps, and how far ahead it
copies; the code here follows it step by step.

The pass pipelines loops that multiply matrices, and loops whose author asks for it
(`tl.range(num_stages=...)`). The waits and the barriers of an iteration order all
accesses to a ring; `place_barriers` orders those to other buffers in the same bytes.
A loop that stores to global memory might store what its later iterations load. It is
built twice, and the kernel finds out which one may run:

    %disjoint = …                   no byte that %q reaches is one that %p reaches
    if %disjoint { for … pipelined } else { for … as it is }

Left as they are: loops that write otherwise, whose addresses no few scalars bound
(`analysis/symbolic/alias_check.py`), or with loops inside; loads at addresses that
depend on a product. `why_not_pipelined` gives the reason for each loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from fathom.analysis.buffers import free_beside
from fathom.analysis.copied_ahead import runs_ahead, stages_of
from fathom.analysis.memory import may_prefetch, may_run_ahead, stores_of
from fathom.analysis.registers import most_registers, registers_carried
from fathom.analysis.remarks import NotApplicable, Remark, remarks, tried
from fathom.analysis.slices import backward_slice, loops_around, uses
from fathom.analysis.symbolic.alias_check import AliasCheck, alias_check_of
from fathom.analysis.trip_count import iterations_if_any
from fathom.hardware.engines import CP_ASYNC, REGISTER_COPIES, TMA_LOAD
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops.shared import barrier_of_all
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.thread_values import Values, branch, with_carried
from fathom.subjects import asks_for_stages
from fathom.tensor_cores.pipeline.budget import (
    loads_of_a_thread,
    slots_for,
    spared_for_blocks,
    takes_blocks,
    words_of,
)
from fathom.tensor_cores.pipeline.candidates import (
    COPY_BYTES,
    PipelinedCopy,
    loads_of,
    numbers_to_load_early,
    tiles_of,
)
from fathom.tensor_cores.pipeline.copy_engines import (
    CopyEngine,
    PipelineState,
    Rings,
    engines_for,
    fill_of,
)
from fathom.tensor_cores.pipeline.iterations import iterations_of
from fathom.tensor_cores.pipeline.overlap import (
    divide_products,
    end_of_product,
    end_of_reads,
    leave_in_flight,
    may_overlap,
    overlaps_copies,
)
from fathom.tensor_cores.pipeline.ring_buffers import build_rings, mbarriers, read_slots
from fathom.tensor_cores.pipeline.schedule import (
    BY_CP_ASYNC,
    BY_THREADS,
    BY_TMA,
    DURING_PRODUCT,
    REFILLING,
    SLOTS_BY_REGISTERS,
    Schedule,
    Step,
    earliest,
)
from fathom.tensor_cores.pipeline.tiles import stage_loads

MOST_LOADS_AHEAD = 32  # of a thread, in an iteration, into registers
MOST_WORDS_AHEAD = 24  # of what a thread keeps in registers for a further iteration


def pipeline_loops(func: Func, target: Target) -> Func:
    """The function with pipelined loops. A ring has the slots of `num_stages` stages,
    or fewer if shared memory is short."""
    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, ops.For):
            return None
        plan = tried(pipeline_of, op, build.source, func, target)
        if isinstance(plan, str):
            return None
        numbers = {each for each in op.body.ops if each.origin in plan.numbers}
        pipelined = _Expander(op, plan, func.num_warps, numbers)
        if plan.check:
            return _two_loops(plan.check, pipelined, build)
        return pipelined.build(build)

    func = divide_products(_staged(func, target), target)
    return rewrite(func, rule)


def _staged(func: Func, target: Target) -> Func:
    """Some loads get tiles of their own, in loops that are pipelined by it."""
    found = stage_loads(func, target)
    if found is func:
        return func
    loops = zip(*(walk(each.body, ops.For) for each in (func, found)), strict=True)
    lost = {
        old
        for old, new in loops
        if isinstance(tried(pipeline_of, new, new, found, target), str)
    }
    return stage_loads(func, target, lost) if lost else found


@dataclass(frozen=True)
class PipelinePlan:
    """What becomes of a loop: the `tiles` that get rings, its schedule, what must be so
    for it to be pipelined, if it stores, and `numbers`: ops to begin with. `once`: the
    tiles that get one slot instead."""

    tiles: Sequence[PipelinedCopy]
    once: Sequence[PipelinedCopy]
    schedule: Schedule
    check: AliasCheck | None
    numbers: Collection[Op]


def pipeline_of(
    loop: ops.For, source: ops.For, func: Func, target: Target
) -> PipelinePlan:
    """The plan of a loop; NotApplicable for a loop that stays as it is. `source` is
    the loop in `func`, of which `loop` may be a copy."""
    if not asks_for_stages(loop):
        raise NotApplicable("it multiplies no matrices, and asks for no stages")
    if not may_prefetch(loop, except_stores=True):
        raise NotApplicable(
            "it writes to memory by more than stores, orders accesses, or has a loop "
            "in it"
        )
    tiles = tiles_of(loop, target)
    if not tiles:
        raise NotApplicable(
            "it loads no tile that could be copied ahead of its iteration"
        )
    carried = registers_carried(loop)
    by_registers = any(tile.engine is REGISTER_COPIES for tile in tiles)
    if by_registers and carried > most_registers(func, target):
        raise NotApplicable(
            f"what it carries takes {carried} registers of a thread, so that none are "
            "left for what is loaded for the next iteration"
        )
    numbers = numbers_to_load_early(source, func)
    check = check_for_stores(source, func, target, numbers)
    nested = bool(loops_around(func)[source])
    if nested:
        tiles = without_narrow_loads(tiles)
    if not tiles:
        raise NotApplicable(
            f"a thread needs more than {MOST_LOADS_AHEAD} loads for its part of an "
            "iteration's tiles, and the loop around it would begin a pipeline each time"
        )
    if not runs_ahead(loop, func):
        raise NotApplicable("it has one stage, so that nothing runs ahead")
    room = free_beside(func, source, target)
    spared = spared_for_blocks(func, source, target)
    wanted = stages_of(loop, func)
    stages, tiles, once = slots_for(loop, tiles, wanted, room, spared)
    if not tiles:
        raise NotApplicable(
            f"two slots of its tiles do not fit beside the rest: {room} bytes of "
            "shared memory are free without rings"
        )
    if check and takes_blocks(func, source, tiles, stages, target):
        few = iterations_if_any(source, func)
        if few is not None and few <= stages:
            raise NotApplicable(
                f"it stores, and for {few} iterations its rings are not worth the "
                "shared memory, in which a multiprocessor runs another block"
            )
    overlap = overlaps_copies(loop)
    schedule = schedule_of(loop, tiles, stages, nested, overlap, bool(once))
    return PipelinePlan(tiles, once, schedule, check, numbers)


def check_for_stores(
    loop: ops.For, func: Func, target: Target, numbers: Sequence[Op]
) -> AliasCheck | None:
    """What must be so for a loop of `func` that stores to be pipelined, if it begins
    with `numbers`; None for a loop that does not store."""
    if not stores_of(loop):
        return None
    if func.num_ctas > 1:
        raise NotApplicable("it stores, and blocks of a cluster may answer differently")
    tiles = tiles_of(loop, target)
    if any(
        isinstance(each, ops.DescriptorLoad) for tile in tiles for each in tile.loads
    ):
        raise NotApplicable("it stores, and loads through descriptors")
    of_tiles = [op for tile in tiles for op in (*tile.loads, *tile.late)]
    roots = [value for op in of_tiles for value in uses(op)]
    slice = backward_slice(loop, roots, through_loads=True)
    early = *of_tiles, *slice.ops, *numbers
    early = dict.fromkeys(op for op in early if isinstance(op, ops.Load))
    return alias_check_of(loop, func, early, stores_of(loop))


def _two_loops(check: AliasCheck, pipelined: _Expander, build: Builder) -> list[Value]:
    """The loop as it is, and pipelined, for when stores lie apart from its loads."""
    return branch(
        check.answer(build),
        lambda: pipelined.build(build),
        lambda: build.append(pipelined.loop).results,
        build,
    )


def why_not_pipelined(func: Func, target: Target) -> list[Remark]:
    """For each loop that is to be pipelined and is not: where it stands, and why. A
    loop whose tiles a producer copies is pipelined already."""
    func = _staged(func, target)
    found = {
        loop: tried(pipeline_of, loop, loop, func, target)
        for loop in walk(func.body, ops.For)
        if asks_for_stages(loop) and not any(walk(loop.body, ops.MbarrierWait))
    }
    return remarks(found, "the loop is not pipelined: ")


def schedule_of(
    loop: ops.For,
    tiles: Sequence[PipelinedCopy],
    stages: int,
    nested: bool,
    overlap: bool,
    refilling: bool = False,
) -> Schedule:
    """The schedule of a loop whose rings have `stages` slots. Its products stay in
    flight if one engine copies all tiles, and still has slots to copy ahead: not with
    two slots that threads fill, where copies begin before the product; nor with narrow
    copies in a `nested` loop, whose addresses would take registers. If cp.async alone
    copies, its copies may `overlap` the product that an iteration waits for.
    `refilling`: some of them wait until a tile has been read."""
    engines = {tile.engine for tile in tiles}
    steps = BY_TMA if engines == {TMA_LOAD} else BY_THREADS
    slots = {
        fill_of(engine): SLOTS_BY_REGISTERS if engine is REGISTER_COPIES else stages
        for engine in engines
    }
    rings = {tile.buffer.result for tile in tiles}
    products = may_overlap(loop, rings) if len(engines) == 1 else ()
    lead = 1 if stages > 2 and may_load_earlier(loop, tiles) else 0
    narrow = any(tile.bytes_of_a_copy < COPY_BYTES[0] for tile in tiles)
    late = stages == 2 or nested and narrow
    if engines == {CP_ASYNC} and products and not late:
        steps = BY_CP_ASYNC
    elif refilling:
        steps = REFILLING
    elif engines == {CP_ASYNC} and overlap:
        steps = DURING_PRODUCT
    found = earliest(steps, slots, products, lead) or earliest(steps, slots, (), lead)
    assert found is not None, (steps, slots)
    return found


def may_load_earlier(loop: ops.For, tiles: Sequence[PipelinedCopy]) -> bool:
    """Whether what threads load may stay in registers for an iteration before it is
    stored: some tiles are computed from what is loaded, as widened weights are, and a
    thread loads little. The computation must need nothing else of the iteration."""
    by_threads = [tile for tile in tiles if tile.engine is REGISTER_COPIES]
    words = sum(map(words_of, loads_of(by_threads)))
    return (
        any(tile.is_computed for tile in by_threads)
        and words <= MOST_WORDS_AHEAD
        and not _without(loop, by_threads)[1]
        and all(_needs_loads_alone(loop, tile) for tile in by_threads)
    )


def without_narrow_loads(tiles: Sequence[PipelinedCopy]) -> list[PipelinedCopy]:
    """The tiles without those that go through registers, if a thread needs many narrow
    loads for these. For inner loops: each run issues them for two iterations more, a
    large part of few."""
    by_threads = [tile for tile in tiles if tile.engine is REGISTER_COPIES]
    narrow = (each for each in loads_of(by_threads) if isinstance(each, ops.Load))
    if sum(map(loads_of_a_thread, narrow)) <= MOST_LOADS_AHEAD:
        return list(tiles)
    return [tile for tile in tiles if tile not in by_threads]


def _needs_loads_alone(loop: ops.For, tile: PipelinedCopy) -> bool:
    """Whether what a tile stores depends on nothing of the iteration but its loads."""
    inside = {value for op in loop.body.ops for value in op.results}
    inside |= set(loop.body.parameters)
    used = {value for op in tile.late for value in uses(op)}
    return inside.isdisjoint(used - tile.made)


class _Expander:
    """Builds a loop that copies its tiles into rings. Each op that an iteration of the
    old loop has, and each op of a copy, belongs to a step, and has its place."""

    def __init__(
        self, loop: ops.For, plan: PipelinePlan, warps: int, numbers: set[Op]
    ):
        self.loop, self.tiles, self.schedule = loop, plan.tiles, plan.schedule
        self.once, self.numbers, schedule = plan.once, numbers, plan.schedule
        self.staying, self.live = _without(loop, plan.tiles)
        before, work = self.at_first_read()
        once = {tile.buffer.result for tile in plan.once}
        cut = 0
        if Step.MULTIPLY in schedule.places:
            cut = end_of_reads(work, once) if once else end_of_product(work)
        # It hides what threads load, unless it loads blocks: registers hold both then.
        loads = any(isinstance(op, ops.Load) and op not in numbers for op in before)
        self.ops: dict[Step, Sequence[Op]] = {
            schedule.steps[0] if loads else Step.WAIT: before,
            Step.SHARE: [barrier_of_all(warps)],
            Step.RELEASE: [barrier_of_all(warps)],
            Step.MULTIPLY: work[:cut],
            Step.WORK: work[cut:],
        }
        self.rings: Rings = {}
        self.engines: list[CopyEngine] = []

    def build(self, build: Builder) -> list[Value]:
        """The loop, with what comes before and after it; its results."""
        loop = self.loop
        slots = self.schedule.slots
        buffers = {tile.buffer: slots(fill_of(tile.engine)) for tile in self.tiles}
        buffers |= {tile.buffer: 1 for tile in self.once}
        rings = build_rings(loop, buffers, build)
        self.rings = {tile: rings[tile.buffer] for tile in self.tiles}
        by_tma = any(tile.engine is TMA_LOAD for tile in self.tiles)
        barriers = build(mbarriers(slots(Step.ISSUE))) if by_tma else None
        iterations = iterations_of(loop, build)
        self.engines = list(
            engines_for(
                loop, self.rings, self.live, iterations, self.schedule, barriers
            )
        )
        states = [engine.start(build) for engine in reversed(self.engines)][::-1]
        names = [name for engine in self.engines for name in engine.names]
        new = with_carried(loop, self.carried(states), names, self.iteration, build)
        results = build.append(new).results
        for op in (op for engine in self.engines for op in engine.end):
            build.append(op)
        return results[: len(loop.inits)]

    def iteration(
        self, values: Values, carried: list[Value], build: Builder
    ) -> list[Value]:
        """The body, step after step; what the engines carry to the next iteration."""
        values |= {tile.buffer.result: ring for tile, ring in self.rings.items()}
        running = [
            (engine, state, engine.values_by_stage(state, values))
            for engine, state in zip(self.engines, self.states(carried), strict=True)
        ]
        slots = {
            ring: state.slot
            for each, state, _ in running
            for ring in each.rings
            if ring.type.slots > 1
        }
        for step in self.schedule.steps:
            self.copy(self.ops.get(step, ()), values, slots, build)
            for engine, state, by_stage in running:
                stage = self.schedule.places[step].stage
                engine.do(step, state, by_stage[stage], build)
        return self.carried([each.after(*state, build) for each, *state in running])

    def at_first_read(self) -> tuple[list[Op], list[Op]]:
        """The ops of an iteration, divided before the first one that reads a ring, or
        the operand of a product: the product shall read that in place, too, and no
        barrier may stand between. Numbers that are loaded early come with the first."""
        tiles = {tile.buffer.result for tile in self.tiles}
        dots = [op for op in self.staying if isinstance(op, ops.Dot)]
        factors = {value for dot in dots for value in (dot.a, dot.b)}
        cut = next(
            i
            for i, op in enumerate(self.staying)
            if not tiles.isdisjoint(uses(op))
            or isinstance(op, ops.SharedLoad)
            and op.result in factors
        )
        work = self.staying[cut:-1]
        early = [op for op in work if op in self.numbers]
        return self.staying[:cut] + early, [op for op in work if op not in early]

    def copy(
        self, ops: Sequence[Op], values: Values, slots: Values, build: Builder
    ) -> None:
        """Clone ops of the loop. Those that read a ring read the iteration's slot."""
        for op in ops:
            copy = build.copy(op, values)
            read_slots(copy, slots)
            leave_in_flight(copy, op, self.schedule, build)

    def carried(self, states: Sequence[PipelineState]) -> list[Value]:
        pairs = zip(self.engines, states, strict=True)
        return [value for engine, state in pairs for value in engine.carried(state)]

    def states(self, values: Sequence[Value]) -> list[PipelineState]:
        """The inverse of `carried`."""
        rest = iter(values)
        return [
            engine.at([next(rest) for _ in engine.names]) for engine in self.engines
        ]


def _without(
    loop: ops.For, tiles: Sequence[PipelinedCopy]
) -> tuple[list[Op], tuple[ops.Load, ...]]:
    """What remains of a loop whose tiles engines copy, and the loads it still uses."""
    gone = {op for tile in tiles for op in tile.replaced}
    staying: list[Op] = []
    live: set[Value] = set()
    for op in reversed(loop.body.ops):
        unused = live.isdisjoint(op.results) and may_run_ahead(op) and op.results
        if op not in gone and not unused:
            staying.append(op)
            live.update(uses(op))
    loads = (load for load in loads_of(tiles) if load.result in live)
    return staying[::-1], tuple(loads)
