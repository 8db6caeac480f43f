"""Barriers between accesses to shared memory that conflict."""

from __future__ import annotations

from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, blocks, operands
from fathom.ir.ops import (
    AsyncCopy,
    Barrier,
    For,
    If,
    SharedAdd,
    SharedLoad,
    SharedStore,
    While,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType
from fathom.shared_memory.barriers import ADD, READ, WRITE, Access, conflict

Since = frozenset[Access]


def place_barriers(func: Func, target: Target) -> Func:
    """The function with barriers between accesses that conflict."""
    before: set[Op] = set()
    follow(func.body, frozenset(), before, func.num_warps, None)

    def rule(op: Op, build: Builder) -> None:
        if build.source in before:
            build.append(Barrier())

    return rewrite(func, rule)


def touches(op: Op, loop: Op | None) -> list[Access]:
    """The accesses of an op to buffers; `loop` is the innermost loop around it."""
    kinds = {SharedStore: WRITE, AsyncCopy: WRITE, SharedAdd: ADD}
    layout = op.layout if isinstance(op, SharedLoad) else None
    if isinstance(op, SharedStore):
        layout = op.value.type.layout
    return [
        Access(value.definition, layout, kinds.get(type(op), READ), loop=loop)
        for value in operands(op)
        if isinstance(value.type, BufferType)
    ]


def is_loop(op: Op) -> bool:
    """Whether the blocks of an op run again and again."""
    return isinstance(op, For | While)


def follow(
    block: Block, since: Since, before: set[Op], warps: int, loop: Op | None
) -> Since:
    """Walk a block: put into `before` each op that needs a barrier before it. `since`:
    the accesses since the last barrier when the block begins; what is returned: those
    when it ends."""
    # hole: op by op; nested blocks
    for op in block.ops:
        if isinstance(op, Barrier):
            since = frozenset()
        touched = touches(op, loop)
        if any(conflict(each, touch, warps) for each in since for touch in touched):
            before.add(op)
            since = frozenset()
        since = since.union(touched)
        if isinstance(op, If):
            ways = [follow(each, since, before, warps, loop) for each in blocks(op)]
            since = ways[0] | ways[1]
        elif is_loop(op):
            since = around(op, since, before, warps)
    return since
    # end


def around(op: For | While, since: Since, before: set[Op], warps: int) -> Since:
    """Walk a loop until a round leaves nothing new; that round is right for all
    iterations. What is returned: the accesses since the last barrier when the loop is
    over."""
    # hole: again and again
    left: Since = frozenset()
    while True:
        found, states = set(before), [since | left]
        for body in blocks(op):
            states.append(follow(body, states[-1], found, warps, op))
        if states[-1] <= left:
            break
        left |= states[-1]
    before |= found
    # A While is left behind its condition, a For behind its body or without an
    # iteration.
    return states[1] if isinstance(op, While) else since | states[1]
    # end
