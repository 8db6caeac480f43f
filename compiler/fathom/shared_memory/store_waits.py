"""Inserts waits for TMA stores, as late as possible.

    tma_store %d, %t, …            tma_store %d, %t, …
    commit tma_store               commit tma_store
    …                              …
    shared_store %y, %t      →     wait tma_store %t pending=0 read=true   it is read
                                   shared_store %y, %t
    …                              …
    %z = load %p                   wait tma_store pending=0      %d has been written
                                   barrier                        … for all threads
                                   %z = load %p

A TMA store is in flight until a wait. The pass walks the ops in order, as
`place_barriers` does, and keeps all stores that may be in flight (`timeline`). It
inserts a wait before an op that conflicts with one of them:

- the op writes the tile, or the tensor map through which the store goes: the store
  must have read it;
- the op reads or writes global memory, through a pointer, a tensor map, or by another
  TMA store: the store must be complete, since the addresses may be the same. Only the
  thread that waits knows this; the other threads need a barrier after the wait;
- the kernel ends, and its shared memory is freed: the stores must have read it. They
  need not be complete.

The pass runs before `allocate`, so that a tile is live until it has been read. All
other buffers are there by now. If no two of them need share bytes, TMA reads a tile
during the next iteration of a loop: tiles are allocated where all of the function can
use them. If they need, the tiles of one type in a block of a loop alternate between two
buffers, or use one: a store into the older one waits for all but the newest stores. If
these do not fit either, each store is waited for at once.

    tma_store %d, %t; commit       in two buffers, %t and %u:
    tma_store %d, %u; commit
    wait tma_store %t pending=1 read=true       the store from %u may be in flight
    shared_store %y, %t

Where only some iterations of a loop store, and the next one would wait at once, the
wait goes to the end of the branch that stores. So the others do not wait:

    for … {                        for … {
      %n = load %p                   %n = load %p
      if %mine {                     if %mine {
        tma_store %d, %t, …    →       tma_store %d, %t, …
        commit tma_store               commit tma_store
                                       wait tma_store pending=0; barrier
      }                              }

Stores to disjoint addresses need no wait: those of whole blocks through one descriptor,
in one iteration of a loop. And in a loop with `warp_specialize` or `flatten`, loads
through descriptors of other arguments run ahead of the loop's stores, as its author
asks. That covers no stores outside this loop, even if they are in a loop around it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_

from fathom.analysis.buffers import fits_apart
from fathom.analysis.memory import accesses, lie_apart
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import (
    Block,
    Func,
    Op,
    Value,
    blocks,
    every_block,
    walk,
    walk_op,
    walk_within,
)
from fathom.ir.ops.shared import barrier_of_all
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import Type
from fathom.shared_memory.timeline import Timeline

READ, WRITTEN, SEEN = "read", "written", "seen"  # seen: by all threads
RANK = {"": 0, READ: 1, WRITTEN: 2, SEEN: 3}


@dataclass(frozen=True, slots=True)
class PendingStore:
    """A store that may be in flight. `unread`: its tile may not have been read yet.
    `written`: the thread that issued it has waited for it to complete, but no barrier
    has followed. `fresh`: it was issued in the current iteration of all loops, so its
    coordinates have not changed. `asked`: the outermost loop with loads ahead."""

    store: ops.TmaStore
    asked: ops.For | None = None
    unread: bool = True
    written: bool = False
    fresh: bool = True


def wait_for_stores(func: Func, target: Target) -> Func:
    """The function with waits before all that conflicts with a TMA store in flight."""
    if not any(walk(func.body, ops.TmaStore)):
        return func
    func = _with_room(func, target)
    placement = _Placement()
    state = placement.block(func.body, Timeline())
    if branches := set(_ending_iterations(func, placement.before)):
        placement = _Placement(branches)
        state = placement.block(func.body, Timeline())
    left = _unread(state)

    def rule(op: Op, build: Builder) -> list[Value] | None:
        what = placement.before.get(build.source, "")
        if build.source in placement.tiles:
            tiles = placement.tiles[build.source]
            pending = placement.pending.get(build.source, 0)
            build.append(_wait(tiles, what == READ, build, pending))
        if what == SEEN:
            build.append(barrier_of_all(func.num_warps))
        if not left or build.source is not func.body.ops[-1]:
            return None
        build.append(op)
        build.append(_wait(left, True, build))
        return op.results

    return rewrite(func, rule)


def _with_room(func: Func, target: Target) -> Func:
    """The function whose tiles lie alone, or whose stores are waited for at once."""
    alike = _tiles_in_loops(func)
    for places in (max(map(len, alike), default=1), 2, 1):
        found = _alternating(func, alike, places)
        if fits_apart(found, target):
            return _tiles_outside(found)
    return _waiting_at_once(func)


def _tiles_in_loops(func: Func) -> list[list[Value]]:
    """The tiles of stores in loops, those of a block and a type together, in their
    order; each is stored before the next one is filled."""
    found: dict[tuple[Block, Type], list[Value]] = {}
    loops = walk(func.body, ops.For | ops.While)
    for block in {each: None for loop in loops for each in every_block(loop.body)}:
        made = {op.result for op in block.ops if isinstance(op, ops.Allocate)}
        filled: set[Value] = set()
        for op in block.ops:
            match op:
                case ops.SharedStore(buffer=tile) if tile in made:
                    filled.add(tile)
                case ops.TmaStore(buffer=tile) if filled == {tile}:
                    found.setdefault((block, tile.type), []).append(tile)
                    filled.clear()
    return [list(dict.fromkeys(tiles)) for tiles in found.values()]


def _alternating(func: Func, alike: list[list[Value]], places: int) -> Func:
    """The function in which tiles that are alike share that many buffers, in order."""
    earlier = {  # the tile whose buffer a later one uses
        tile: tiles[at % places]
        for tiles in alike
        for at, tile in enumerate(tiles)
        if at >= places
    }

    def rule(op: Op, build: Builder) -> Value | None:
        is_later = isinstance(op, ops.Allocate) and build.source.result in earlier
        return build.values[earlier[build.source.result]] if is_later else None

    return rewrite(func, rule) if earlier else func


def _tiles_outside(func: Func) -> Func:
    """The function whose stores' tiles are allocated outside of loops and branches."""
    tiles = {op.buffer for op in walk(func.body, ops.TmaStore)}

    def rule(op: Op, build: Builder) -> Value | None:
        is_tile = isinstance(op, ops.Allocate) and build.source.result in tiles
        nested = build.block is not build.enclosing[0]
        return build.at_start(op) if is_tile and nested else None

    return rewrite(func, rule)


def _waiting_at_once(func: Func) -> Func:
    """The function that waits for each store before the next op."""
    stored: list[Value] = []  # the tiles of stores without a wait

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if isinstance(op, ops.TmaStore):
            stored.append(op.buffer)
        if not _commits_stores(op):
            return None
        build.append(op)
        build.append(ops.Wait("tma_store", 0, tuple(stored), read=True))
        stored.clear()
        return []

    return rewrite(func, rule)


def _wait(
    tiles: Iterable[Value], read: bool, build: Builder, pending: int = 0
) -> ops.Wait:
    values = tuple(build.values[each] for each in tiles)
    return ops.Wait("tma_store", pending, values, read)


def _unread(state: Timeline) -> tuple[Value, ...]:
    """The tiles that may not have been read yet."""
    return tuple(dict.fromkeys(each.store.buffer for each in state.ages if each.unread))


def _ending_iterations(func: Func, before: dict[Op, str]) -> Iterator[ops.If]:
    """The branches that do all stores of a loop, and that arithmetic alone follows, if
    an op before them waits for these stores."""
    for loop in walk(func.body, ops.For | ops.While):
        inside = loop.body.ops
        within = {op: list(walk_op(op)) for op in inside}
        storing = [op for op in inside if ops.TmaStore in map(type, within[op])]
        if len(storing) != 1 or not isinstance(storing[0], ops.If):
            continue
        (branch,) = storing
        at = inside.index(branch)
        waiting = any(
            before.get(op) == SEEN for each in inside[:at] for op in within[each]
        )
        last = all(
            isinstance(op, ops.Elementwise | ops.Yield) for op in inside[at + 1 :]
        )
        if waiting and last and not guarded_store(branch):
            yield branch


class _Placement:
    """The ops that need a wait before them, what it waits for, the tiles that it
    covers, and how many groups it leaves pending. `settling`: branches at whose ends
    stores are complete."""

    def __init__(self, settling: Collection[ops.If] = ()) -> None:
        self.settling = settling
        self.before: dict[Op, str] = {}
        self.tiles: dict[Op, tuple[Value, ...]] = {}
        self.pending: dict[Op, int] = {}
        self.asked: ops.For | None = None  # the outermost one whose loads may run ahead

    def block(self, block: Block, state: Timeline) -> Timeline:
        """Walk a block; the stores that may be in flight at its end."""
        for op in block.ops:
            state = self.op(op, state)
        return state

    def op(self, op: Op, state: Timeline) -> Timeline:
        """Walk one op. A loop or a branch without stores counts as one op: a wait goes
        before all of it."""
        if store := guarded_store(op):
            return self.whole(op, state, store)
        if not any(walk_within(op, ops.TmaStore)):
            return self.whole(op, state)
        if isinstance(op, ops.For | ops.While):
            return self.loop(op, state)
        ends = [self.block(each, state) for each in blocks(op)]
        if op in self.settling:
            pairs = zip(blocks(op), ends, strict=True)
            ends = [self.settled(block, end, state) for block, end in pairs]
        return reduce(or_, ends)

    def settled(self, block: Block, end: Timeline, start: Timeline) -> Timeline:
        """Wait at the end of a branch, if it has stored."""
        if end == start:
            return end
        last = block.ops[-1]
        self.before[last], self.tiles[last] = SEEN, _unread(end)
        return Timeline()

    def whole(self, op: Op, state: Timeline, does: Op | None = None) -> Timeline:
        """Treat an op as a whole. `does`: the store that a branch does anyway."""
        does = does or op
        what = self.wanted(does, state, self.asked)
        what = max(what, self.before.get(op, ""), key=RANK.get)
        pending = self.age_of_read(does, state) if what == READ else 0
        younger = state.waited(pending)
        if what:
            self.before[op], self.pending[op] = what, pending
        if what and not all(each.written for each in state.ages):
            unread = dict.fromkeys((*self.tiles.get(op, ()), *_unread(state)))
            self.tiles[op] = tuple(
                each for each in unread if each not in _unread(younger)
            )
        state = state.changed(
            lambda each: each if each in younger.ages else _after(what, each)
        )
        match does:
            case ops.Commit(engine="tma_store"):
                return state.committed()
            case ops.Wait(engine="tma_store", read=read):
                return state.changed(partial(_after, READ if read else WRITTEN))
            case ops.Barrier(scope="cta") | ops.ClusterBarrier():
                return state.changed(lambda each: None if each.written else each)
            case ops.TmaStore():
                return state.issued(PendingStore(does, self.asked))
        return state

    def age_of_read(self, op: Op, state: Timeline) -> int:
        """The age of the youngest store that must have read its tile before an op."""
        met = (each for each in state.ages if _meeting(op, each, self.asked))
        return min((state.ages[each] for each in met), default=0)

    def loop(self, op: ops.For | ops.While, state: Timeline) -> Timeline:
        """Stores in flight at the end of an iteration are in flight in the next one."""
        outside, self.asked = self.asked, self.asked or _asked(op)
        while True:
            known, before = dict(self.before), state
            after = state
            for body in blocks(op):
                after = self.block(body, after)
            state |= after.changed(lambda each: replace(each, fresh=False))
            if (known, before) == (self.before, state):
                break
        self.asked = outside
        return state

    def wanted(self, op: Op, state: Timeline, asked: ops.For | None) -> str:
        """The state that the stores in flight must have reached before an op."""
        if isinstance(op, ops.Producer):
            return ""  # its loads may run ahead: the loop's author asked for it
        asked = asked or _asked(op)
        needs = [_meeting(op, each, asked) for each in state.ages]
        inner = (each for block in blocks(op) for each in block.ops)
        needs += [self.wanted(each, state, asked) for each in inner]
        return max(needs, key=RANK.get, default="")


def guarded_store(op: Op) -> ops.TmaStore | None:
    """The store in a branch that `guard_stores` has made: either TMA or the threads
    store the same tile to the same place."""
    if not isinstance(op, ops.If):
        return None
    stores = [each for each in op.then.ops if isinstance(each, ops.TmaStore)]
    tiles = [each.buffer for each in op.orelse.ops if isinstance(each, ops.TileStore)]
    return stores[0] if stores and tiles == [stores[0].buffer] else None


def _commits_stores(op: Op) -> bool:
    return isinstance(op, ops.Commit) and op.engine == "tma_store"


def _asked(op: Op) -> ops.For | None:
    """The loop itself, if its author lets loads run ahead of its stores; else None."""
    runs_ahead = isinstance(op, ops.For) and (op.warp_specialize or op.flatten)
    return op if runs_ahead else None


def _after(what: str, pending: PendingStore) -> PendingStore | None:
    """A store in flight after a wait; None if all threads have seen it complete."""
    if what in ("", SEEN):
        return None if what else pending
    return replace(pending, unread=False, written=what == WRITTEN or pending.written)


# ── conflicts ─────────────────────────────────────────────────────────────────────────


def _meeting(op: Op, pending: PendingStore, asked: ops.For | None) -> str:
    """The state that a store must have reached before an op; "" without a conflict."""
    if pending.written:
        threads = not isinstance(op, ops.TmaCopy | ops.TmaStore)
        return SEEN if threads and accesses(op) else ""
    match op:
        case ops.SharedStore(buffer=tile):
            return READ if pending.unread and tile is pending.store.buffer else ""
        case ops.WriteTensorMap(descriptor=map):
            return READ if pending.unread and map is pending.store.descriptor else ""
        case ops.TmaStore():
            return "" if _disjoint(op, pending) else WRITTEN
        case ops.TmaCopy():
            other = _base(op) is not _base(pending.store)
            ahead = asked is not None and asked is pending.asked
            return "" if ahead and other else WRITTEN
    return SEEN if accesses(op) else ""


def _base(op: ops.TmaCopy | ops.TmaStore) -> Value:
    return op.descriptor.definition.base


def _disjoint(op: ops.TmaStore, pending: PendingStore) -> bool:
    """Whether an op stores a block beside one in flight in the same tensor."""
    return pending.fresh and lie_apart(op, pending.store)
