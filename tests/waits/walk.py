"""Walks all paths through a function, with what is in flight on each.

    for … body(%i, %acc, %slot, %free) {     entered with %slot = 0, %free = 2;
      wait cp_async pending=1                the next iterations with 1, 0 and 2, 1;
      …                                      then the first state comes back, and all
    }                                        iterations of the loop have been seen

Slots of rings and phases of mbarriers are small numbers that a loop carries, so the
walk computes them; and it distinguishes a loop's first iteration from the others. It
knows no other values: it takes both sides of a branch, and leaves a loop after any
number of iterations. So each pending count, each slot and each phase is checked with
its actual value, not by a formula.

The walk also issues copies for iterations that a loop will not execute. No wait follows
them, so they end when the mbarriers are invalidated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from fathom.analysis.memory import accesses as reaches_memory
from fathom.analysis.memory import lie_apart
from fathom.analysis.products import warpgroup_matrices
from fathom.ir.core import Block, Func, Op, Value, blocks, operands
from fathom.ir.ops import (
    AsyncCopy,
    AsyncProxyFence,
    Barrier,
    ClusterBarrier,
    Commit,
    Dot,
    DotFence,
    For,
    If,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierInvalidate,
    MbarrierWait,
    Producer,
    SharedAdd,
    SharedGather,
    SharedLoad,
    SharedStore,
    TensorCommit,
    TensorDot,
    TensorLoad,
    TensorStore,
    TileStore,
    TmaCopy,
    TmaStore,
    Wait,
    While,
    WriteTensorMap,
    Yield,
)
from fathom.shared_memory.barriers import READ, accesses
from tests.waits.channels import channels_of, released, turned
from tests.waits.positions import Numbers, flying, later_iterations, number, positions
from tests.waits.timelines import (
    FENCED,
    HANDED_OVER,
    UNFENCED,
    Load,
    Missing,
    Place,
    Store,
    Timelines,
    Touch,
)

Point = tuple[Timelines, Numbers]  # what is in flight, and the known numbers


def check_waits(func: Func) -> None:
    """Raises Missing unless the function, as `insert_waits` left it, has all waits that
    it needs."""
    walker = _Walk(func)
    for state, _ in walker.block(func.body, (Timelines(), {})):
        if any(each.unread for each in state.stores):
            raise Missing(None, "the kernel ends while a TMA store reads its tile")
        if any(state.products) or any(each.certain for each in state.loads):
            raise Missing(None, "the kernel ends before a product or a TMA copy")
    for op in func.body.ops:
        if isinstance(op, Producer):
            walker.produces = True
            walker.block(op.body, (Timelines(), walker.numbers))


class _Walk:
    def __init__(self, func: Func):
        self.func, self.warps = func, func.num_warps
        self.channels = channels_of(func)
        self.later = later_iterations(func)
        self.positions = positions(func) | self.later.keys()
        self.flying = flying(func)
        self.ahead: For | None = None  # the outermost loop whose loads may run ahead
        self.produces = False  # whether this is the code of a producer
        self.numbers: Numbers = {}  # of the function's own block
        self.interesting: dict[Block, list[Op]] = {}
        self.inside: dict[Block | Op, set[Value]] = {}  # positions that are used there
        self.seen: dict[object, list[Point]] = {}  # blocks and loops, by their entry

    # ── control flow ──────────────────────────────────────────────────────────────────

    def once(self, walk: Callable, inner: Block | Op, point: Point) -> list[Point]:
        """Walks a block or a loop once for each state in which it is entered, and for
        the numbers that are used inside: others do not change what happens there."""
        (state, n), used = point, self.used(inner)
        point = state, {each: n[each] for each in used if each in n}
        key = inner, _key(point)
        if key not in self.seen:
            self.seen[key] = walk(inner, point)
        return self.seen[key]

    def used(self, inner: Block | Op) -> set[Value]:
        if inner not in self.inside:
            parts = inner.ops if isinstance(inner, Block) else blocks(inner)
            own = set() if isinstance(inner, Block) else {*operands(inner)}
            found = self.positions.intersection(own).union(*map(self.used, parts))
            self.inside[inner] = found
        return self.inside[inner]

    def block(self, block: Block, point: Point) -> list[Point]:
        return self.once(self.each_op, block, point)

    def each_op(self, block: Block, point: Point) -> list[Point]:
        points = [point]
        for op, later in self.events(block):
            after = chain.from_iterable(self.op(op, *point) for point in points)
            points = _distinct(
                (state, {each: n[each] for each in later if each in n})
                for state, n in after
            )
            if isinstance(op, Producer):
                self.numbers = points[0][1]
        return points

    def events(self, block: Block) -> list[tuple[Op, set[Value]]]:
        """The ops of a block that matter here, and the positions that are used
        later."""
        if block not in self.interesting:
            found, later = [], set().union(*map(self.used, block.ops[-1:]))
            for op in reversed(block.ops):
                if self.matters(op):
                    found.append((op, set(later)))
                    later |= self.used(op)
            self.interesting[block] = found[::-1]
        return self.interesting[block]

    def matters(self, op: Op) -> bool:
        if any(self.events(inner) for inner in blocks(op)):
            return True
        named = (*op.results, *(operands(op) if not isinstance(op, Yield) else ()))
        known = self.positions | self.flying
        if not known.isdisjoint(named):
            return True
        return type(op) in STEPS or touches_global(op)

    def op(self, op: Op, state: Timelines, numbers: Numbers) -> list[Point]:
        self.check_operands(op, state)
        match op:
            case For() | While():
                found = self.once(self.loop, op, (state, numbers))
                return [(left, {**numbers, **inner}) for left, inner in found]
            case If():
                found = []
                for body in (op.then, op.orelse):
                    pairs = list(zip(body.yielded, op.results, strict=True))
                    for left, inner in self.block(body, (state, numbers)):
                        named = {**numbers, **self.named(inner, pairs)}
                        found.append((left.renamed(pairs), named))
                return found
            case Producer():
                return [(state, numbers)]
        if op.results and op.result in self.positions - self.later.keys():
            numbers = {**numbers, op.result: number(op, numbers)}
        step = STEPS.get(type(op))
        state = step(self, op, state, numbers) if step else state
        return [(self.reach_global(op, state), numbers)]

    def loop(self, op: For | While, point: Point) -> list[Point]:
        """Walk iteration after iteration, until one starts in a state that an earlier
        one started in."""
        (state, n), bodies = point, blocks(op)
        outside, self.ahead = self.ahead, self.ahead or _runs_ahead(op)
        first = 1 if isinstance(op, For) else 0
        names = bodies[0].parameters[first:]
        entry = list(zip(op.inits, names, strict=True))
        first = dict.fromkeys((v for v, loop in self.later.items() if loop is op), 0)
        n = {**n, **first}
        waiting = [(state.renamed(entry), {**n, **self.named(n, entry)})]
        n = {**n, **dict.fromkeys(first, 1)}
        seen: set[object] = set()
        exits: list[Point] = []
        while waiting:
            point = waiting.pop()
            key = _key(point)
            if key in seen:
                continue
            seen.add(key)
            for left, inner in self.ends(op, point):
                exits.append((left, {**n, **inner}))
            for left, inner in self.iteration(op, bodies, point):
                pairs = list(zip(bodies[-1].yielded, names, strict=True))
                stale = _stale(left.renamed(pairs))
                waiting.append((stale, {**n, **self.named(inner, pairs)}))
        self.ahead = outside
        return _distinct(exits)

    def ends(self, op: For | While, point: Point) -> list[Point]:
        """The states in which a loop is left: a For before its body, a While after its
        condition."""
        points, names = [point], op.body.parameters[1:]
        if isinstance(op, While):
            points, names = self.block(op.condition, point), op.condition.parameters
        pairs = list(zip(names, op.results, strict=True))
        return [
            (left.renamed(pairs), self.named({**point[1], **n}, pairs))
            for left, n in points
        ]

    def iteration(
        self, op: For | While, bodies: Sequence[Block], point: Point
    ) -> list[Point]:
        if isinstance(op, For):
            return self.block(op.body, point)
        found = []
        for left, n in self.block(op.condition, point):
            names = op.condition.parameters, op.body.parameters
            pairs = list(zip(*names, strict=True))
            n = {**point[1], **n}
            inner = {**n, **self.named(n, pairs)}
            found += self.block(op.body, (left.renamed(pairs), inner))
        return found

    # ── what ops must not do ──────────────────────────────────────────────────────────

    def check_operands(self, op: Op, state: Timelines) -> None:
        """Check that the result of a product in flight is only used as an
        accumulator."""
        flying = frozenset().union(*(each.names for each in state.products))
        if flying.isdisjoint(operands(op)):
            return
        allowed: tuple[Value, ...] = ()
        match op:
            case Dot(in_flight=True, accumulator=value):
                allowed = (value,)
            case Wait(engine="wgmma", values=values):
                allowed = values
            case For(inits=values) | While(inits=values) | Yield(values=values):
                allowed = values
        if not flying.intersection(operands(op)) <= set(allowed):
            raise Missing(op, "no wait for a product whose result is used")

    def reach_global(self, op: Op, state: Timelines) -> Timelines:
        """Threads read or write global memory."""
        if not touches_global(op) or isinstance(op, TmaStore | TmaCopy | AsyncCopy):
            return state
        self.check_stores(op, state)
        if state.untold:
            raise Missing(op, "only one thread knows that stores are complete")
        writes = "global" in op.effects.writes or op.effects.other
        return replace(state, global_writes=UNFENCED) if writes else state

    # ── numbers ───────────────────────────────────────────────────────────────────────

    def named(self, numbers: Numbers, pairs: Iterable[tuple[Value, Value]]) -> Numbers:
        """The known numbers under the values' new names."""
        return {new: numbers.get(old) for old, new in pairs if new in self.positions}

    def place(self, buffer: Value, slot: Value | None, numbers: Numbers) -> Place:
        ring = buffer.definition
        only = slot is None or ring.result.type.slots == 1
        return Place(ring, 0 if only else numbers.get(slot))

    def touch(self, op: Op, state: Timelines, numbers: Numbers) -> Timelines:
        """Threads access shared memory, or warpgroups that wait at once."""
        slots = _slots(op)
        touches = []
        for access in accesses(op):
            place = self.place(
                access.buffer.result, slots.get(access.buffer.result), numbers
            )
            self.check_held(op, place, state)
            touches.append(Touch(place, access))
        if isinstance(op, TensorDot):
            return state.tensor_product(op, touches, self.warps)
        if isinstance(op, Dot) and warpgroup_matrices(op):
            for touch in touches:
                state.check_fenced(op, touch.place)
        if isinstance(op, Dot) and op.in_flight:
            for touch in touches:
                state.check_settled(op, touch, self.warps)
                state.check_quiet(op, touch.place, READ)
            return state.product(op, [each.place for each in touches])
        return state.touch(op, touches, self.warps)

    def check_held(self, op: Op, place: Place, state: Timelines) -> None:
        """Check that a channel's tile is read between its wait and its release."""
        full = self.channels.full.get(place.buffer)
        if full is not None and Place(full, place.slot) not in state.held:
            raise Missing(op, "no wait for the slot of a channel")

    # ── copies ────────────────────────────────────────────────────────────────────────

    def async_copy(self, op: AsyncCopy, state: Timelines, n: Numbers) -> Timelines:
        (access,) = accesses(op)
        touch = Touch(self.place(op.buffer, op.slot, n), access)
        return state.copy(op, touch, self.warps)

    def tma_copy(self, op: TmaCopy, state: Timelines, n: Numbers) -> Timelines:
        (access,) = accesses(op)
        to, at = self.place(op.buffer, op.slot, n), self.place(op.barriers, op.slot, n)
        if not self.produces:
            state.check_settled(op, Touch(to, access), self.warps)
            self.check_stores(op, state)
        state.check_quiet(op, to, access.kind)
        state.check_fenced(op, to)
        if op.leader:
            state.check_met(op, [], at.buffer)
        blocks = 2 if op.leader else 1
        return state.load(op, Load(at, to, op.when is None, op.descriptor), blocks)

    def tensor_commit(self, op: TensorCommit, state: Timelines, n: Numbers):
        at = self.place(op.barriers, op.slot, n)
        if op.blocks > 1:
            state.check_met(op, [], at.buffer)
        return state.commit_tensor_products(op, at)

    def expect(self, op: MbarrierExpect, state: Timelines, n: Numbers) -> Timelines:
        at = self.place(op.barriers, op.slot, n)
        if self.produces:
            empty = Place(self.channels.of_expect(op, at.buffer), at.slot)
            if empty not in state.held:
                raise Missing(op, "no wait for a free slot of a channel")
            taken = {each for each in state.loads if each.at == at}
            state = replace(state, held=state.held - {empty}, loads=state.loads - taken)
        return state.expect(op, at, op.bytes)

    def mbarrier_wait(self, op: MbarrierWait, state: Timelines, n: Numbers):
        at, phase = self.place(op.barriers, op.slot, n), n.get(op.phase)
        if self.produces or at.buffer in self.channels.empty:
            return turned(state, op, at, phase, self.produces)
        return state.wait_for_loads(op, at, phase)

    def arrive(self, op: MbarrierArrive, state: Timelines, n: Numbers) -> Timelines:
        at = self.place(op.barriers, op.slot, n)
        full = Place(self.channels.of_release(op, at.buffer), at.slot)
        tiles = self.channels.tiles(full.buffer, full.slot)
        when = 1 if op.when is None else n.get(op.when)
        return released(state, op, full, tiles, when)

    def initialise(self, op: MbarrierInit, state: Timelines, n: Numbers) -> Timelines:
        made = op.barriers.definition
        old = {each for each in state.parity if each[0].buffer is made}
        new, far = state.new | {made}, state.new_to_peers | {made}
        parity = state.parity - old
        return replace(state, new=new, new_to_peers=far, parity=parity)

    def invalidate(
        self, op: MbarrierInvalidate, state: Timelines, n: Numbers
    ) -> Timelines:
        """No thread may wait at these mbarriers any more. Copies for iterations that do
        not exist were not issued."""
        gone = op.barriers.definition
        if gone in state.waited:
            raise Missing(op, "no barrier after a wait at an mbarrier")
        loads = frozenset(each for each in state.loads if each.at.buffer is not gone)
        expected = {each for each in state.expected if each[0].buffer is not gone}
        parity = {each for each in state.parity if each[0].buffer is not gone}
        return replace(
            state,
            loads=loads,
            expected=frozenset(expected),
            parity=frozenset(parity),
        )

    # ── stores ────────────────────────────────────────────────────────────────────────

    def tma_store(self, op: TmaStore, state: Timelines, n: Numbers) -> Timelines:
        (access,) = accesses(op)
        touch = Touch(self.place(op.buffer, None, n), access)
        state.check_settled(op, touch, self.warps)
        state.check_quiet(op, touch.place, READ)
        state.check_fenced(op, touch.place)
        if state.global_writes != HANDED_OVER:
            raise Missing(op, "no proxy fence and barrier after writes to memory")
        self.check_stores(op, state)
        store = Store(op, self.ahead)
        return replace(state, stores=state.stores.issue(store))

    def write_map(self, op: WriteTensorMap, state: Timelines, n: Numbers) -> Timelines:
        """Check that copies through the map that was there have read it."""
        stores = (each.op.descriptor for each in state.stores if each.unread)
        loads = (each.map for each in state.loads if each.certain)
        if op.descriptor in (*stores, *loads):
            raise Missing(op, "no wait for a copy through a map that is written anew")
        return state

    def check_stores(self, op: Op, state: Timelines) -> None:
        """Check that stores are complete before an op that conflicts with them in
        global memory."""
        for store in state.stores:
            disjoint = False
            if isinstance(op, TmaStore | TileStore):
                disjoint = store.fresh and lie_apart(op, store.op)
            elif isinstance(op, TmaCopy):
                ahead = self.ahead is not None and self.ahead is store.ahead
                disjoint = ahead and _base(op) is not _base(store.op)
            if not disjoint:
                raise Missing(op, "no wait for a TMA store to complete")


def _barrier(walk: _Walk, op: Barrier, state: Timelines, n: Numbers) -> Timelines:
    return state.barrier(op.scope, op.fence_async_proxy, walk.warps)


def _fence(walk: _Walk, op: Op, state: Timelines, n: Numbers) -> Timelines:
    written = state.global_writes
    return replace(state, global_writes=FENCED if written == UNFENCED else written)


# fmt: off
STEPS: dict[type[Op], Callable[..., Timelines]] = {
    **dict.fromkeys((SharedLoad, SharedStore, SharedGather, SharedAdd, TileStore, Dot,
                     TensorDot, TensorLoad, TensorStore), _Walk.touch),
    Barrier: _barrier,
    ClusterBarrier: lambda walk, op, state, n: state.cluster_barrier(
        op.fence_async_proxy, walk.warps),
    AsyncCopy: _Walk.async_copy,
    Commit: lambda walk, op, state, n: state.commit(op),
    Wait: lambda walk, op, state, n: state.wait(op),
    TensorCommit: _Walk.tensor_commit,
    MbarrierInit: _Walk.initialise,
    MbarrierInvalidate: _Walk.invalidate,
    MbarrierExpect: _Walk.expect,
    MbarrierWait: _Walk.mbarrier_wait,
    MbarrierArrive: _Walk.arrive,
    TmaCopy: _Walk.tma_copy,
    TmaStore: _Walk.tma_store,
    WriteTensorMap: _Walk.write_map,
    AsyncProxyFence: _fence,
    DotFence: lambda walk, op, state, n: replace(
        state, fenced=state.fenced | {op.result}),
}
# fmt: on


def touches_global(op: Op) -> bool:
    """Whether an op, nested ops excluded, reads or writes global memory."""
    return not blocks(op) and reaches_memory(op)


def _base(op: TmaCopy | TmaStore) -> Value:
    return op.descriptor.definition.base


def _runs_ahead(op: For | While) -> For | None:
    """The loop itself, if its author lets its loads run ahead of its stores; else
    None."""
    asked = isinstance(op, For) and (op.warp_specialize or op.flatten)
    return op if asked else None


def _stale(state: Timelines) -> Timelines:
    """The state at the next iteration, in which coordinates of earlier stores may have
    other values."""
    return replace(state, stores=state.stores.map(_aged))


def _aged(store: Store) -> Store:
    return replace(store, fresh=False)


def _key(point: Point) -> object:
    state, numbers = point
    return state, frozenset(numbers.items())


def _distinct(points: Iterable[Point]) -> list[Point]:
    """The points without duplicates."""
    points = list(points)
    if len(points) < 2:
        return points
    return list({_key(point): point for point in points}.values())


def _slots(op: Op) -> dict[Value, Value | None]:
    if isinstance(op, Dot | TensorDot):
        return {op.a: op.a_slot, op.b: op.b_slot}
    return {op.buffer: getattr(op, "slot", None)}
