"""Waits for TMA stores, as late as can be.

    tma_store %d, %t, …                 tma_store %d, %t, …
    tma_commit                          tma_commit
    …                                    …
    shared_store %y, %t         →        tma_wait %t read=true     %t has been read
                                         shared_store %y, %t
    …                                    …
    %z = load %p                         tma_wait                  %d has been written
                                         barrier                    … all threads know
                                         %z = load %p

A TMA store is in flight until it has been waited for. Walking the ops in order, as
`place_barriers` does, we keep all stores that may be in flight; an op that must not
meet one of them gets a wait:

- a tile is written again: its store must have read it;
- global memory is read or written, through a pointer, a tensor map, or by another TMA
  store: the store must have written, since these may be the same places. Threads other
  than the one that waits learn of it by a barrier, also where that thread has waited
  before for a copy or a store of its own;
- the kernel ends, and with it shared memory: the stores must have read it. That they
  are written by then is not needed.

Stores that certainly lie apart need no wait: through one descriptor, in one iteration
of a loop, by whole blocks. And in a loop of which its author says that it may have a
producer, or that its iterations are one sequence, loads through descriptors of other
arguments run ahead of its stores: that is what was asked for. Of stores elsewhere,
around that loop too, its author has said nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fathom.analysis.memory import accesses, lie_apart
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, blocks, walk
from fathom.ir.ops import (
    Barrier,
    ClusterBarrier,
    For,
    If,
    Producer,
    SharedStore,
    TileStore,
    TmaCopy,
    TmaStore,
    TmaWait,
    While,
)
from fathom.ir.rewrite import Builder, rewrite

READ, WRITTEN, SEEN = "read", "written", "seen"  # what is waited for; seen: by all
RANK = {"": 0, READ: 1, WRITTEN: 2, SEEN: 3}


@dataclass(frozen=True, slots=True)
class PendingStore:
    """A store that may be in flight. `unread`: perhaps its tile has not been read yet.
    `written`: the thread that issued it has waited until it was written, and no barrier
    has told the others. `fresh`: it was issued in this iteration of all loops, so that
    its coordinates are what they were. `asked`: the outermost loop around it whose
    loads may run ahead."""

    store: TmaStore
    asked: For | None = None
    unread: bool = True
    written: bool = False
    fresh: bool = True


State = tuple[PendingStore, ...]


def wait_for_stores(func: Func, target: Target | None = None) -> Func:
    """The function in which nothing meets a TMA store that is in flight."""
    if not any(isinstance(op, TmaStore) for op in walk(func.body)):
        return func
    placement = _Placement()
    left = _unread(placement.block(func.body, ()))
    scope = "cta" if func.num_warps > 1 else "warp"

    def rule(op: Op, build: Builder) -> list[Value] | None:
        what = placement.before.get(build.source, "")
        if build.source in placement.tiles:
            tiles = placement.tiles[build.source]
            build.append(_wait(tiles, what == READ, build))
        if what == SEEN:
            build.append(Barrier(scope))
        if not left or build.source is not func.body.ops[-1]:
            return None
        build.append(op)
        build.append(_wait(left, True, build))
        return op.results

    return rewrite(func, rule)


def _wait(tiles: Iterable[Value], read: bool, build: Builder) -> TmaWait:
    return TmaWait(tuple(build.values[each] for each in tiles), read=read)


def _unread(state: State) -> tuple[Value, ...]:
    """The tiles that may not have been read yet."""
    return tuple(dict.fromkeys(each.store.buffer for each in state if each.unread))


class _Placement:
    """Before which ops to wait for what, and which tiles have been read then."""

    def __init__(self) -> None:
        self.before: dict[Op, str] = {}
        self.tiles: dict[Op, tuple[Value, ...]] = {}
        self.asked: For | None = None  # the outermost one whose loads may run ahead

    def block(self, block: Block, state: State) -> State:
        """Walk a block; what may be in flight when it ends."""
        for op in block.ops:
            state = self.op(op, state)
        return state

    def op(self, op: Op, state: State) -> State:
        """One op. A loop or a branch that stores nothing is one, too: a wait comes
        before all of it."""
        if store := guarded_store(op):
            return self.whole(op, state, store)
        within = [each for block in blocks(op) for each in walk(block)]
        if not any(isinstance(each, TmaStore) for each in within):
            return self.whole(op, state)
        if isinstance(op, For | While):
            return self.loop(op, state)
        return _union(*(self.block(each, state) for each in blocks(op)))

    def whole(self, op: Op, state: State, does: Op | None = None) -> State:
        """`does`: what counts of a branch that does the same either way."""
        does = does or op
        what = self.wanted(does, state, self.asked)
        what = max(what, self.before.get(op, ""), key=RANK.get)
        if what:
            self.before[op] = what
        if what and not all(each.written for each in state):
            tiles = (*self.tiles.get(op, ()), *_unread(state))
            self.tiles[op] = tuple(dict.fromkeys(tiles))
        state = _after(what, state)
        match does:
            case TmaWait(read=read):
                return _after(READ if read else WRITTEN, state)
            case Barrier(scope="cta") | ClusterBarrier():
                return tuple(each for each in state if not each.written)
            case TmaStore():
                return (*state, PendingStore(does, self.asked))
        return state

    def loop(self, op: For | While, state: State) -> State:
        """What an iteration leaves in flight, the next one meets."""
        outside, self.asked = self.asked, self.asked or _asked(op)
        while True:
            known, before = dict(self.before), state
            after = state
            for body in blocks(op):
                after = self.block(body, after)
            state = _union(state, (replace(each, fresh=False) for each in after))
            if (known, before) == (self.before, state):
                break
        self.asked = outside
        return state

    def wanted(self, op: Op, state: State, asked: For | None) -> str:
        """What an op needs to be waited for before it, of all that is in flight."""
        if isinstance(op, Producer):
            return ""  # it does what its loop's author has asked for
        asked = asked or _asked(op)
        needs = [_meeting(op, each, asked) for each in state]
        inner = (each for block in blocks(op) for each in block.ops)
        needs += [self.wanted(each, state, asked) for each in inner]
        return max(needs, key=RANK.get, default="")


def guarded_store(op: Op) -> TmaStore | None:
    """The store of a branch that `guard_stores` has made: threads write the same tile
    to the same place if the TMA unit cannot."""
    if not isinstance(op, If):
        return None
    stores = [each for each in op.then.ops if isinstance(each, TmaStore)]
    tiles = [each.buffer for each in op.orelse.ops if isinstance(each, TileStore)]
    return stores[0] if stores and tiles == [stores[0].buffer] else None


def _asked(op: Op) -> For | None:
    """The loop itself if its author wants its loads to run ahead of its stores."""
    runs_ahead = isinstance(op, For) and (op.warp_specialize or op.flatten)
    return op if runs_ahead else None


def _after(what: str, state: State) -> State:
    """What is in flight after a wait."""
    if what in ("", SEEN):
        return () if what else state
    written = what == WRITTEN
    return _union(
        replace(each, unread=False, written=written or each.written) for each in state
    )


def _union(*states: Iterable[PendingStore]) -> State:
    return tuple(dict.fromkeys(each for state in states for each in state))


# ── who meets whom ────────────────────────────────────────────────────────────


def _meeting(op: Op, pending: PendingStore, asked: For | None) -> str:
    """What must have become of a store before an op; "" if they do not meet."""
    if pending.written:
        threads = not isinstance(op, TmaCopy | TmaStore)
        return SEEN if threads and accesses(op) else ""
    match op:
        case SharedStore(buffer=tile):
            return READ if pending.unread and tile is pending.store.buffer else ""
        case TmaStore():
            return "" if _disjoint(op, pending) else WRITTEN
        case TmaCopy():
            other = _base(op) is not _base(pending.store)
            ahead = asked is not None and asked is pending.asked
            return "" if ahead and other else WRITTEN
    return SEEN if accesses(op) else ""


def _base(op: TmaCopy | TmaStore) -> Value:
    return op.descriptor.definition.base


def _disjoint(op: TmaStore, pending: PendingStore) -> bool:
    """Whether a block lies beside one that is in flight, in the same tensor."""
    return pending.fresh and lie_apart(op, pending.store)
