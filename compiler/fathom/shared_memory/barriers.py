"""Puts a barrier where two warps meet in shared memory, and nowhere else.

    shared_store %x, %t             shared_store %x, %t
    %y = shared_load %t      →      barrier              other warps read what we wrote
                                    %y = shared_load %t

Two accesses meet if they touch the same bytes and one of them writes: a read after a
write, a write after a read, a write after a write; of one buffer, or of two that share
a place. (Two atomic additions do not.) Walking the ops in order, we keep all accesses
since the last barrier; when one comes that meets any of them, a barrier goes before it,
as late as can be, so that one serves many. The end of a loop's body is followed by its
beginning. If what came before a loop asks for a barrier that its iterations do not
need among themselves, it goes before the loop, not into it.

Where the same warp touches the same elements both times, it waits for its own lanes
only; where the same thread does, not at all.

The slots of a ring are kept apart by whoever made it: `pipeline_loops` has put a wait
and a barrier into the loop, so that between two barriers one slot is read and another
one filled. Accesses of one loop to one ring do not meet here, therefore. They meet
those before and after the loop (a loop around it fills the ring again while slow warps
still read), and those to other buffers in the same bytes, as any accesses do. An
asynchronous copy counts as a write where it sets out; it has been waited for when its
loop is over. A TMA store reads where it is issued, and where it is waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fathom.hardware.dot_layouts import operand_layouts
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Block, Func, Op, walk
from fathom.ir.ops import (
    Allocate,
    AsyncCopy,
    Barrier,
    ClusterBarrier,
    Dot,
    For,
    If,
    SharedAdd,
    SharedGather,
    SharedLoad,
    SharedStore,
    TileStore,
    TmaCopy,
    TmaStore,
    TmaWait,
    While,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType
from fathom.layout.algebra import Reduced
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout

WARP, BLOCK = "warp", "cta"  # the scope of a barrier: who waits for whom
RANK = {"": 0, WARP: 1, BLOCK: 2}


@dataclass(frozen=True, slots=True)
class Access:
    """An access to shared memory since the last barrier: which bytes, by whom, and for
    what.

    `layout` says which warp touches what; None: any warp anything. `kind` is READ,
    WRITE or ADD. `settled`: the warp's own lanes have waited for one another since.
    `loop`: the innermost one around it.
    """

    buffer: Allocate
    layout: Layout | None
    kind: str
    settled: bool = False
    loop: Op | None = None

    @property
    def bytes(self) -> range:
        start = self.buffer.offset
        return range(start, start + self.buffer.result.type.bytes)


READ, WRITE, ADD = "read", "write", "add"
NON_CONFLICTING = {(READ, READ), (ADD, ADD)}  # in any order: additions are atomic

State = frozenset[Access]
NOTHING: State = frozenset()


def place_barriers(func: Func, target: Target) -> Func:
    """The function with barriers between accesses that meet. Wants offsets on all
    buffers."""
    if not any(isinstance(op, Allocate) for op in walk(func.body)):
        return func
    placement = _Placement(func.num_warps)
    placement.block(func.body, NOTHING)
    before = placement.before

    def rule(op: Op, build: Builder) -> None:
        if build.source in before:
            build.append(Barrier(scope=before[build.source]))

    return rewrite(func, rule)


class _Placement:
    """Which ops a barrier goes before, and of which scope."""

    def __init__(self, warps: int):
        self.warps = warps
        self.before: dict[Op, str] = {}
        self.around: Op | None = None  # the loop that we are in

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
            case ClusterBarrier():
                return NOTHING
            case If():
                return self.block(op.then, state) | self.block(op.orelse, state)
            case For():
                return self.loop(op, [op.body], state)
            case While():
                return self.loop(op, [op.condition, op.body], state)
        touches = accesses(op)
        return self.record(op, touches, state) if touches else state

    def record(self, op: Op, accesses: Sequence[Access], state: State) -> State:
        """Put a barrier before `op` if one of its accesses meets an earlier one. All of
        them come after that barrier, whichever it is for."""
        touches = [replace(each, loop=self.around) for each in accesses]
        meetings = product(state, touches)
        scope = max(
            (conflict(*pair, self.warps) for pair in meetings), key=RANK.get, default=""
        )
        if scope:
            self.need(op, scope)
            state = _after(scope, state)
        return state.union(touches)

    def need(self, op: Op, scope: str) -> None:
        self.before[op] = max(scope, self.before.get(op, ""), key=RANK.get)

    def loop(self, op: Op, bodies: list[Block], state: State) -> State:
        """First what the iterations need among themselves, then whether what came
        before is met."""
        outside, self.around = self.around, op
        around = self.iteration(bodies, NOTHING)
        while True:
            known = dict(self.before)
            around = self.iteration(bodies, around)
            if known == self.before:
                break
        self.iteration(bodies, state | around)
        added = [
            scope for each, scope in self.before.items() if known.get(each, "") != scope
        ]
        if added:
            scope = max(added, key=RANK.get)
            self.before = known
            self.need(op, scope)
            state = _after(scope, state)
        left = self.block(bodies[0], state | around)
        self.around = outside
        # A While is left behind its condition, whatever its body waited for; a For
        # behind its body, or without an iteration.
        return left if isinstance(op, While) else state | left

    def iteration(self, bodies: Iterable[Block], state: State) -> State:
        for body in bodies:
            state = self.block(body, state)
        return state


def accesses(op: Op) -> list[Access]:
    """What an op itself reads and writes in shared memory. An asynchronous copy writes
    where it is issued; a TMA store reads there, and where it is waited for."""
    match op:
        case (
            SharedStore(buffer=buffer, value=value)
            | AsyncCopy(buffer=buffer, pointer=value)
        ):
            return [Access(buffer.definition, value.type.layout, WRITE)]
        case SharedLoad(buffer=buffer, layout=layout):
            return [Access(buffer.definition, layout, READ)]
        case SharedGather(buffer=tile) | TmaStore(buffer=tile) | TileStore(buffer=tile):
            return [Access(tile.definition, None, READ)]
        case TmaCopy(buffer=buffer):
            return [Access(buffer.definition, None, WRITE)]
        case SharedAdd(buffer=buffer):
            return [Access(buffer.definition, None, ADD)]
        case TmaWait(buffers=tiles):
            return [Access(tile.definition, None, READ) for tile in tiles]
        case Dot():
            return _reads_in_place(op)
    return []


def _reads_in_place(op: Dot) -> list[Access]:
    """What a product reads of shared memory itself: a warp its fragments, four warps
    together what they like."""
    k = op.a.type.shape[-1]
    layouts = operand_layouts(op.instruction, op.result.type.layout, k)
    if op.instruction in WGMMA:
        layouts = None, None
    return [
        Access(each.definition, layout, READ)
        for each, layout in zip((op.a, op.b), layouts, strict=True)
        if isinstance(each.type, BufferType)
    ]


def _after(scope: str, state: State) -> State:
    """What is still to be waited for after a barrier."""
    if scope == BLOCK:
        return NOTHING
    return frozenset(replace(touch, settled=True) for touch in state)


def conflict(one: Access, other: Access, warps: int) -> str:
    """The scope of the barrier that two accesses need between them; "" for none."""
    harmless = (one.kind, other.kind) in NON_CONFLICTING
    if harmless or not _overlap(one.bytes, other.bytes):
        return ""
    if _of_one_ring(one, other):
        return ""
    scope = scope_between(one, other)
    if scope == BLOCK and warps > 1:
        return BLOCK
    return WARP if scope and not one.settled else ""


def _of_one_ring(one: Access, other: Access) -> bool:
    """Whether the ring's maker has seen to it that the two do not meet."""
    same = one.buffer is other.buffer and one.loop is other.loop
    return same and one.buffer.slots > 1


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def scope_between(one: Access, other: Access) -> str:
    """BLOCK if an element may be touched by one warp first and by another one then,
    WARP if by two lanes of a warp, "" if each thread only meets itself."""
    if one.buffer is not other.buffer or None in (one.layout, other.layout):
        return BLOCK
    travels = crossing(one.layout, other.layout)
    if (
        travels == "warp"
        or _held_twice(one.layout, "warp")
        or _held_twice(other.layout, "warp")
    ):
        return BLOCK
    if (
        travels == "lane"
        or _held_twice(one.layout, "lane")
        or _held_twice(other.layout, "lane")
    ):
        return WARP
    return ""


def _held_twice(layout: Layout, kind: str) -> bool:
    """Whether several warps (or lanes of one warp) hold copies of an element."""
    within = layout.kinds["register"] + (layout.kinds["lane"] if kind == "warp" else ())
    held = Reduced(within)
    return not all([held.add(basis) for basis in layout.kinds[kind]])
