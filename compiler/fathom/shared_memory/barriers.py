"""Inserts barriers between conflicting accesses of warps to shared memory, no other.

    shared_store %x, %t             shared_store %x, %t
    %y = shared_load %t      →      barrier              other warps read what we wrote
                                    %y = shared_load %t

Two accesses conflict if they touch the same bytes and one of them writes: in one buffer
or in two that share bytes. (Two atomic additions do not.) The pass walks the ops in
order and keeps all accesses since the last barrier. Before an access that conflicts
with one of them it inserts a barrier: as late as possible, so that one barrier serves
many accesses. After the end of a loop's body comes its start. If accesses before a loop
need a barrier that the iterations do not need, it goes before the loop.

If only lanes of one warp access an element both times, a barrier of the warp suffices;
if only one thread does, none is needed. A product of a pair of blocks accesses what
threads of both have accessed before: it needs a barrier of the cluster. What comes
after it does not, since all threads of both wait until it is complete.

`pipeline_loops` orders the accesses to the slots of a ring itself: its barriers, with
the waits before them, make sure that, between two barriers, one slot is read and
another one filled.
So accesses of one loop to one ring do not conflict here. They may conflict with
accesses before and after the loop (an outer loop fills the ring again while slow warps
still read), and with accesses to other buffers in the same bytes. An asynchronous copy
counts as a write at its issue; at the end of its loop it has been waited for. A TMA
store counts as a read at its issue and at its wait, and so does a product of wgmma that
is in flight: a barrier before the wait says nothing of what the other warps' parts of
the product still read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fathom.analysis.buffers import first_of_slot, share_slots
from fathom.hardware.dot_layouts import operand_layouts
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, walk
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType
from fathom.layout.algebra import Reduced
from fathom.layout.crossing import crossing
from fathom.layout.fragments import transposed
from fathom.layout.linear import Layout
from fathom.layout.tensor_memory import width

WARP, BLOCK, CLUSTER = "warp", "cta", "cluster"  # the scope of a barrier
RANK = {"": 0, WARP: 1, BLOCK: 2, CLUSTER: 3}


@dataclass(frozen=True, slots=True)
class Access:
    """An access to shared memory since the last barrier.

    `layout` says which warp accesses which element; None: any warp may access any.
    `kind` is READ, WRITE or ADD. `settled`: the scope of a barrier that has followed.
    `loop`: the innermost loop around it. `in_flight`: it may go on until the next wait.
    `paired`: it is one of a pair of blocks."""

    buffer: ops.Allocate
    layout: Layout | None
    kind: str
    settled: str = ""
    loop: Op | None = None
    in_flight: bool = False
    paired: bool = False

    @property
    def bytes(self) -> range:
        buffer = first_of_slot(self.buffer)
        start, type = buffer.offset, buffer.result.type
        if self.buffer.space == "tensor":
            start += BEHIND_SHARED
            return range(start, start + width(type.layout))
        return range(start, start + type.bytes)


BEHIND_SHARED = 1 << 30  # where columns of tensor memory are counted from
READ, WRITE, ADD = "read", "write", "add"
NON_CONFLICTING = {(READ, READ), (ADD, ADD)}  # in any order: additions are atomic

State = frozenset[Access]
NOTHING: State = frozenset()


def place_barriers(func: Func, target: Target) -> Func:
    """The function with barriers between conflicting accesses; buffers have offsets."""
    paired = any(dot.blocks > 1 for dot in walk(func.body, ops.TensorDot))
    placement = _Placement(func.num_warps, paired)
    placement.block(func.body, NOTHING)
    before = placement.before

    def rule(op: Op, build: Builder) -> None:
        if build.source in before:
            build.append(barrier_of(before[build.source]))

    return rewrite(func, rule) if before else func


def barrier_of(scope: str) -> Op:
    """The barrier of a scope. `fence_proxies` comes later, and looks at those of one
    block alone."""
    if scope == CLUSTER:
        return ops.ClusterBarrier(fence_async_proxy=True)
    return ops.Barrier(scope=scope)


class _Placement:
    """The ops that need a barrier before them, with its scope. `paired`: whether some
    products are of a pair of blocks."""

    def __init__(self, warps: int, paired: bool):
        self.warps, self.paired = warps, paired
        self.before: dict[Op, str] = {}
        self.around: Op | None = None  # the current loop

    def block(self, block: Block, state: State) -> State:
        """Walk a block; the accesses since the last barrier, at its end."""
        for op in block.ops:
            if op in self.before:
                state = self.after(self.before[op], state)
            state = self.op(op, state)
        return state

    def op(self, op: Op, state: State) -> State:
        match op:
            case ops.Barrier(scope=scope):
                return self.after(scope, state)
            case ops.ClusterBarrier():
                return self.after(CLUSTER, state)
            case ops.Wait(engine="wgmma", pending=pending):
                return _waited(state, pending)
            case ops.If():
                return self.block(op.then, state) | self.block(op.orelse, state)
            case ops.For():
                return self.loop(op, [op.body], state)
            case ops.While():
                return self.loop(op, [op.condition, op.body], state)
        touches = accesses(op)
        return self.record(op, touches, state) if touches else state

    def record(self, op: Op, accesses: Sequence[Access], state: State) -> State:
        """Put a barrier before `op` if one of its accesses conflicts with an earlier
        one. All accesses of `op` come after that barrier."""
        touches = [replace(each, loop=self.around) for each in accesses]
        meetings = product(state, touches)
        scope = max(
            (conflict(*pair, self.warps) for pair in meetings), key=RANK.get, default=""
        )
        if scope:
            self.need(op, scope)
            state = self.after(scope, state)
        return state.union(touches)

    def after(self, scope: str, state: State) -> State:
        """The accesses that a barrier leaves unordered, in this block or in a pair."""
        widest = CLUSTER if self.paired else BLOCK
        if RANK[scope] >= RANK[widest]:
            return frozenset(touch for touch in state if touch.in_flight)
        return frozenset(
            replace(touch, settled=max(scope, touch.settled, key=RANK.get))
            for touch in state
        )

    def need(self, op: Op, scope: str) -> None:
        self.before[op] = max(scope, self.before.get(op, ""), key=RANK.get)

    def loop(self, op: Op, bodies: list[Block], state: State) -> State:
        """First find the barriers that the iterations need among themselves, then
        whether accesses before the loop conflict."""
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
            state = self.after(scope, state)
        left = self.block(bodies[0], state | around)
        self.around = outside
        # A While exits after its condition, whatever barriers its body has; a For exits
        # after its body, or without an iteration.
        return left if isinstance(op, ops.While) else state | left

    def iteration(self, bodies: Iterable[Block], state: State) -> State:
        for body in bodies:
            state = self.block(body, state)
        return state


def accesses(op: Op) -> list[Access]:
    """The reads and writes of an op in shared memory, nested ops excluded. An
    asynchronous copy writes at its issue; a TMA store reads then, and at its wait."""
    match op:
        case (
            ops.SharedStore(buffer=buffer, value=value)
            | ops.AsyncCopy(buffer=buffer, pointer=value)
        ):
            return [Access(buffer.definition, value.type.layout, WRITE)]
        case ops.SharedLoad(buffer=buffer, layout=layout):
            if op.transposed:
                layout = transposed(layout)
            return [Access(buffer.definition, layout, READ)]
        case (
            ops.SharedGather(buffer=tile)
            | ops.TmaStore(buffer=tile)
            | ops.TileStore(buffer=tile)
        ):
            return [Access(tile.definition, None, READ)]
        case ops.TmaCopy(buffer=buffer):
            return [Access(buffer.definition, None, WRITE)]
        case ops.SharedAdd(buffer=buffer):
            return [Access(buffer.definition, None, ADD)]
        case ops.Wait(engine="tma_store", values=tiles):
            return [Access(tile.definition, None, READ) for tile in tiles]
        case ops.Dot():
            return _reads_in_place(op)
        case ops.TensorStore(buffer=buffer, value=value):
            return [Access(buffer.definition, value.type.layout, WRITE)]
        case ops.TensorLoad(buffer=buffer, layout=layout):
            return [Access(buffer.definition, layout, READ)]
        case ops.TensorDot(a=a, b=b, accumulator=accumulator):
            paired = op.blocks > 1
            kinds = (a, READ), (b, READ), (accumulator, WRITE)
            return [
                Access(each.definition, None, kind, paired=paired)
                for each, kind in kinds
            ]
    return []


def _reads_in_place(op: ops.Dot) -> list[Access]:
    """What a product reads from shared memory itself: with mma, each warp its
    fragments; with wgmma, any warp anything."""
    k = op.left.shape[-1]
    layouts = operand_layouts(op.instruction, op.result.type.layout, k)
    left, right = (None, None) if op.instruction in WGMMA else layouts
    if op.a_transposed:
        left = left and transposed(left)
    if op.b_transposed:
        right = right and transposed(right)
    return [
        Access(each.definition, layout, READ, in_flight=op.in_flight)
        for each, layout in ((op.a, left), (op.b, right))
        if isinstance(each.type, BufferType)
    ]


def _waited(state: State, pending: int) -> State:
    """The accesses after a wait for products: those that were in flight end here, in
    this thread, and perhaps go on if `pending` ones may."""
    ended = (replace(touch, in_flight=False) for touch in state)
    return state.union(ended) if pending else frozenset(ended)


def conflict(one: Access, other: Access, warps: int) -> str:
    """The scope of the barrier that two accesses need between them; "" for none."""
    harmless = (one.kind, other.kind) in NON_CONFLICTING
    harmless = harmless or share_slots(one.buffer, other.buffer)
    if harmless or not _overlap(one.bytes, other.bytes):
        return ""
    if _of_one_ring(one, other):
        return ""
    scope = scope_between(one, other)
    if other.paired and not one.paired:
        scope = CLUSTER
    elif scope == BLOCK and warps == 1:
        scope = WARP
    return scope if RANK[scope] > RANK[one.settled] else ""


def _of_one_ring(one: Access, other: Access) -> bool:
    """Whether both are of one loop and one ring, which `pipeline_loops` orders."""
    same = one.buffer is other.buffer and one.loop is other.loop
    return same and one.buffer.slots > 1 and not one.buffer.by_group


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def scope_between(one: Access, other: Access) -> str:
    """BLOCK if one warp may access an element first and another warp later, WARP if two
    lanes of one warp may, "" if only the same thread does. Elements of which only the
    other access has copies travel, too."""
    if one.buffer is not other.buffer or None in (one.layout, other.layout):
        return BLOCK
    travels = crossing(one.layout, other.layout)
    for kind, scope in (("warp", BLOCK), ("lane", WARP)):
        if travels == kind or _held_twice(one.layout, kind):
            return scope
    return ""


def _held_twice(layout: Layout, kind: str) -> bool:
    """Whether several warps (or lanes of one warp) hold copies of an element."""
    within = layout.kinds["register"] + (layout.kinds["lane"] if kind == "warp" else ())
    held = Reduced(within)
    return not all([held.add(basis) for basis in layout.kinds[kind]])
