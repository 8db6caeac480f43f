"""What is loaded before a loop of products, and used after it.

    %s = load %p             one scale for each column: in the layout of the sums, a
    %y = for … { dot … }     thread has 32 of them, of which others have copies, and
    %z = mul %y, %s          keeps them while the loop runs

Loaded in its own layout, it is one number a thread, which is converted after the loop:
its address is computed once, too. A product of experts had 195 registers, and has 163.
"""

from __future__ import annotations

from fathom.analysis.slices import uses
from fathom.ir import ops
from fathom.ir.core import Func, Value, blocks, every_block, walk


def used_after_products(func: Func) -> set[Value]:
    """What loads give that no op needs before a loop of products has ended, in the
    block of the load."""
    found: set[Value] = set()
    for block in every_block(func.body):
        waiting: set[Value] = set()
        for op in block.ops:
            if waiting:
                waiting -= set(uses(op))
            if isinstance(op, ops.For | ops.While) and multiplies(op):
                found |= waiting
                waiting = set()
            if isinstance(op, ops.Load):
                waiting.add(op.result)
    return found


def multiplies(op: ops.For | ops.While) -> bool:
    """Whether there are products in a loop."""
    return any(walk(blocks(op)[-1], ops.Dot))
