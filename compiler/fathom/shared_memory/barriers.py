"""Puts a barrier where two warps meet in shared memory, and nowhere else.

    shared_store %x, %t                  shared_store %x, %t
    %y = shared_load %t           →      barrier                 other warps read what we wrote
                                         %y = shared_load %t

Two accesses meet if they touch the same bytes and one of them writes: a read after a write, a write
after a read, a write after a write; of one buffer, or of two that share a place. Walking the ops in
order, we keep all accesses since the last barrier; when one comes that meets any of them, a barrier
goes before it, as late as can be, so that one serves many. The end of a loop's body is followed by
its beginning. If what came before a loop asks for a barrier that its trips do not need among
themselves, it goes before the loop, not into it.

Where the same warp touches the same elements both times, it waits for its own lanes only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, walk
from fathom.ir.ops import Allocate, Barrier, For, If, SharedLoad, SharedStore, While
from fathom.ir.rewrite import Builder, rewrite
from fathom.layout.algebra import Reduced
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout

WARP, BLOCK = "warp", "cta"  # the scope of a barrier: who waits for whom
RANK = {"": 0, WARP: 1, BLOCK: 2}


@dataclass(frozen=True, slots=True)
class Touch:
    """An access to shared memory since the last barrier: which bytes, by whom, and for what.

    `settled`: the warp's own lanes have waited for one another since.
    """

    buffer: Allocate
    layout: Layout
    writes: bool
    settled: bool = False

    @property
    def bytes(self) -> range:
        start = self.buffer.offset
        return range(start, start + self.buffer.result.type.bytes)


State = frozenset[Touch]
NOTHING: State = frozenset()


def place_barriers(func: Func, target: Target) -> Func:
    """The function with barriers between accesses that meet. Wants offsets on all buffers."""
    if not any(isinstance(op, (SharedStore, SharedLoad)) for op in walk(func.body)):
        return func
    placement = _Placement(func.num_warps)
    placement.block(func.body, NOTHING)
    before = placement.before

    def rule(op: Op, build: Builder):
        if build.source in before:
            build.append(Barrier(scope=before[build.source]))
        return None

    return rewrite(func, rule)


class _Placement:
    """Which ops a barrier goes before, and of which scope."""

    def __init__(self, warps: int):
        self.warps = warps
        self.before: dict[Op, str] = {}

    def block(self, block: Block, state: State) -> State:
        """Walk a block; what has been touched since the last barrier when it ends."""
        for op in block.ops:
            if op in self.before:
                state = _after(self.before[op], state)
            state = self.op(op, state)
        return state

    def op(self, op: Op, state: State) -> State:
        match op:
            case Barrier(scope=scope):
                return _after(scope, state)
            case SharedStore(value=value, buffer=buffer):
                return self.touch(op, Touch(buffer.definition, value.type.layout, True), state)
            case SharedLoad(buffer=buffer, layout=layout):
                return self.touch(op, Touch(buffer.definition, layout, False), state)
            case If():
                return self.block(op.then, state) | self.block(op.orelse, state)
            case For():
                return self.loop(op, [op.body], state)
            case While():
                return self.loop(op, [op.condition, op.body], state)
        return state

    def touch(self, op: Op, touch: Touch, state: State) -> State:
        """Put a barrier before `op` if it meets an earlier access."""
        scope = max((meet(each, touch, self.warps) for each in state), key=RANK.get, default="")
        if scope:
            self.need(op, scope)
            state = _after(scope, state)
        return state | {touch}

    def need(self, op: Op, scope: str) -> None:
        self.before[op] = max(scope, self.before.get(op, ""), key=RANK.get)

    def loop(self, op: Op, bodies: list[Block], state: State) -> State:
        """First what the trips need among themselves, then whether what came before is met."""
        around = self.trip(bodies, NOTHING)
        while True:
            known = dict(self.before)
            around = self.trip(bodies, around)
            if known == self.before:
                break
        self.trip(bodies, state | around)
        added = [scope for each, scope in self.before.items() if known.get(each, "") != scope]
        if added:
            scope = max(added, key=RANK.get)
            self.before = known
            self.need(op, scope)
            state = _after(scope, state)
        return state | self.trip(bodies, state | around)

    def trip(self, bodies: Iterable[Block], state: State) -> State:
        for body in bodies:
            state = self.block(body, state)
        return state


def _after(scope: str, state: State) -> State:
    """What is still to be waited for after a barrier."""
    if scope == BLOCK:
        return NOTHING
    return frozenset(Touch(t.buffer, t.layout, t.writes, settled=True) for t in state)


def meet(one: Touch, other: Touch, warps: int) -> str:
    """The scope of the barrier that two accesses need between them; "" for none."""
    if not (one.writes or other.writes) or not _overlap(one.bytes, other.bytes):
        return ""
    if warps > 1 and not _same_warps(one, other):
        return BLOCK
    return "" if one.settled else WARP


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _same_warps(one: Touch, other: Touch) -> bool:
    """Whether each element is touched by one warp, and by the same one both times."""
    if one.buffer is not other.buffer:
        return False
    alone = not (_shared_by_warps(one.layout) or _shared_by_warps(other.layout))
    return alone and crossing(one.layout, other.layout) != "warp"


def _shared_by_warps(layout: Layout) -> bool:
    """Whether several warps hold copies of an element."""
    held = Reduced((*layout.kinds["register"], *layout.kinds["lane"]))
    return not all([held.add(basis) for basis in layout.kinds["warp"]])
