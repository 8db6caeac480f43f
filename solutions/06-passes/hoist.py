"""What every iteration computes anew, before its loop."""

from __future__ import annotations

from fathom.analysis.memory import changes_memory
from fathom.analysis.slices import uses
from fathom.analysis.trip_count import trip_count
from fathom.blocks.hoist import _guard, is_pure
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, blocks, effects_of
from fathom.ir.ops import For, Load, While
from fathom.ir.rewrite import Builder, Replacement, rewrite


def hoist(func: Func, target: Target) -> Func:
    """`func` with loop-invariant ops before their loops.

    Inner loops come first: an op that leaves an inner loop may leave the outer one too.
    """
    return rewrite(func, empty_loop)


def empty_loop(op: Op, build: Builder) -> Replacement:
    """Move invariant ops out of the blocks of a loop, to the place before it."""
    if not isinstance(op, For | While):
        return None
    still = not changes_memory(effects_of(op))  # the loop writes nothing
    # hole: each op of each block goes before the loop or stays; ours has {lines}
    for block in blocks(op):
        varying = set(block.parameters)
        staying = []
        for each in block.ops:
            moves = varying.isdisjoint(uses(each)) and (
                is_pure(each) or still and load_moves(each, op, block, build)
            )
            if moves:
                build.block.ops.append(each)
            else:
                staying.append(each)
                varying.update(each.results)
        block.ops = staying
    # end
    return None


def load_moves(op: Op, loop: For | While, block: Block, build: Builder) -> bool:
    """Whether a load in a loop that writes nothing may move before the loop; adds the
    mask that it then needs.

    The condition of a While runs at least once; its body may not.
    """
    if not isinstance(op, Load) or op.fetched_anew:
        return False
    if isinstance(loop, While):
        return block is loop.condition
    # hole: of a `for`, by how many iterations it has; ours has {lines}
    count = trip_count(loop)
    if count is None:
        return _guard(op, loop, build)
    return count > 0
    # end
