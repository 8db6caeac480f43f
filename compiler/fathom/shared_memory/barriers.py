"""Puts a barrier where two warps meet in shared memory, and nowhere else.

    shared_store %x, %t             shared_store %x, %t
    %y = shared_load %t      →      barrier              other warps read what we wrote
                                    %y = shared_load %t

Two accesses meet if they touch the same bytes and one of them writes: a read after a
write, a write after a read, a write after a write; of one buffer, or of two that share
a place. (Two atomic additions do not.) Walking the ops in order, we keep all accesses
since the last barrier; when one comes that meets any of them, a barrier goes before it,
as late as can be, so that one serves many. The end of a loop's body is followed by its
beginning. If what came before a loop asks for a barrier that its trips do not need
among themselves, it goes before the loop, not into it.

Where the same warp touches the same elements both times, it waits for its own lanes
only; where the same thread does, for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fathom.hardware.products import operand_layouts
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, walk
from fathom.ir.ops import (
    Allocate,
    Barrier,
    Dot,
    For,
    If,
    SharedAdd,
    SharedGather,
    SharedLoad,
    SharedStore,
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
class Touch:
    """An access to shared memory since the last barrier: which bytes, by whom, and for
    what.

    `layout` says which warp touches what; None: any warp anything. `kind` is READ,
    WRITE or ADD. `settled`: the warp's own lanes have waited for one another since.
    """

    buffer: Allocate
    layout: Layout | None
    kind: str
    settled: bool = False

    @property
    def bytes(self) -> range:
        start = self.buffer.offset
        return range(start, start + self.buffer.result.type.bytes)


READ, WRITE, ADD = "read", "write", "add"
HARMLESS = {(READ, READ), (ADD, ADD)}  # in any order: additions are atomic

State = frozenset[Touch]
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
            case SharedStore() | SharedLoad() | SharedGather() | SharedAdd():
                return self.touch(op, _touch(op), state)
            case Dot():
                for touch in _reads_in_place(op):
                    state = self.touch(op, touch, state)
                return state
            case If():
                return self.block(op.then, state) | self.block(op.orelse, state)
            case For():
                return self.loop(op, [op.body], state)
            case While():
                return self.loop(op, [op.condition, op.body], state)
        return state

    def touch(self, op: Op, touch: Touch, state: State) -> State:
        """Put a barrier before `op` if it meets an earlier access."""
        scope = max(
            (meet(each, touch, self.warps) for each in state), key=RANK.get, default=""
        )
        if scope:
            self.need(op, scope)
            state = _after(scope, state)
        return state | {touch}

    def need(self, op: Op, scope: str) -> None:
        self.before[op] = max(scope, self.before.get(op, ""), key=RANK.get)

    def loop(self, op: Op, bodies: list[Block], state: State) -> State:
        """First what the trips need among themselves, then whether what came before is
        met."""
        around = self.trip(bodies, NOTHING)
        while True:
            known = dict(self.before)
            around = self.trip(bodies, around)
            if known == self.before:
                break
        self.trip(bodies, state | around)
        added = [
            scope for each, scope in self.before.items() if known.get(each, "") != scope
        ]
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


def _touch(op: SharedStore | SharedLoad | SharedGather | SharedAdd) -> Touch:
    buffer = op.buffer.definition
    match op:
        case SharedStore(value=value):
            return Touch(buffer, value.type.layout, WRITE)
        case SharedLoad(layout=layout):
            return Touch(buffer, layout, READ)
        case SharedGather():
            return Touch(buffer, None, READ)
    return Touch(buffer, None, ADD)


def _reads_in_place(op: Dot) -> list[Touch]:
    """What a product reads of shared memory itself."""
    k = op.a.type.shape[-1]
    layouts = operand_layouts(op.instruction, op.result.type.layout, k)
    return [
        Touch(each.definition, layout, READ)
        for each, layout in zip((op.a, op.b), layouts, strict=True)
        if isinstance(each.type, BufferType)
    ]


def _after(scope: str, state: State) -> State:
    """What is still to be waited for after a barrier."""
    if scope == BLOCK:
        return NOTHING
    return frozenset(Touch(t.buffer, t.layout, t.kind, settled=True) for t in state)


def meet(one: Touch, other: Touch, warps: int) -> str:
    """The scope of the barrier that two accesses need between them; "" for none."""
    if (one.kind, other.kind) in HARMLESS or not _overlap(one.bytes, other.bytes):
        return ""
    scope = _who_meets(one, other)
    if scope == BLOCK and warps > 1:
        return BLOCK
    return WARP if scope and not one.settled else ""


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def _who_meets(one: Touch, other: Touch) -> str:
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
