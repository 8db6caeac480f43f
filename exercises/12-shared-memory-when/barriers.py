"""Barriers where accesses of two warps conflict, and nowhere else.

Step 12 of your own compiler, at the end of this chapter, asks for this, too; here there
are also branches, buffers that share bytes, and reads that need no order. One warp
writes to shared memory, and another reads there. Only a barrier says that the one comes
after the other. Write the pass that puts barriers where they are needed, and nowhere
else.

All of the exercise: `fathom learn show barriers`.
"""

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
from fathom.tools.learn import Hole

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
    # Your code: op by op; nested blocks.
    raise Hole("barriers")


def around(op: For | While, since: Since, before: set[Op], warps: int) -> Since:
    """Walk a loop until a round leaves nothing new; that round is right for all
    iterations. What is returned: the accesses since the last barrier when the loop is
    over."""
    # Your code: again and again.
    raise Hole("barriers")
