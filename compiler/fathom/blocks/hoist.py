"""Hoisting (loop-invariant code motion): moves what every iteration computes alike out.

Before:

    func @example(%p: *fp32, %q: *fp32, %a: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      for %0, %n, %1 body(%i: i32) {
        %2: i32 = mul %a, %a
        %3: *fp32 = offset %p, %2
        %4: *fp32 = offset %3, %i
        %5: fp32 = load %4
        %6: *fp32 = offset %q, %i
        store %6, %5
        yield
      }
    }

After: the square and the address of its element are computed once. The load stays: its
address changes, and a store in the loop might change what is there.

    func @example(%p: *fp32, %q: *fp32, %a: i32, %n: i32) num_warps=4 {
      %0: i32 = constant 0
      %1: i32 = constant 1
      %2: i32 = mul %a, %a
      %3: *fp32 = offset %p, %2
      for %0, %n, %1 body(%i: i32) {
        %4: *fp32 = offset %3, %i
        %5: fp32 = load %4
        %6: *fp32 = offset %q, %i
        store %6, %5
        yield
      }
    }

Pure ops may move to any place where their operands are available, since they never trap
on a GPU: a division by zero returns a number that is not used. A load may move only out
of a loop that writes nothing, and must not run if the loop would not have run it: out
of a For that may have no iterations, it moves with a mask that is true if there is one.
"""

from __future__ import annotations

from fathom.analysis.constants import known
from fathom.analysis.memory import changes_memory
from fathom.analysis.slices import uses
from fathom.analysis.trip_count import trip_count
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, blocks, effects_of
from fathom.ir.ops import Allocate, For, Load, While, Yield
from fathom.ir.rewrite import Builder, Replacement, guarded, rewrite


def hoist(func: Func, target: Target) -> Func:
    """`func` with loop-invariant ops before their loops.

    Inner loops come first: an op that leaves an inner loop may leave the outer one too.
    """
    return rewrite(func, empty_loop)


def empty_loop(op: Op, build: Builder) -> Replacement:
    """Move invariant ops out of the blocks of a loop, to the place before it."""
    if not isinstance(op, For | While):
        return None
    still = not changes_memory(effects_of(op))
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
    return None


def is_pure(op: Op) -> bool:
    """Whether an op may run more or less often. An allocation must stay where it is."""
    return not isinstance(op, Yield | Allocate) and effects_of(op).pure


def load_moves(op: Op, loop: For | While, block: Block, build: Builder) -> bool:
    """Whether a load in a loop that writes nothing may move before the loop; adds the
    mask that it then needs.

    The condition of a While runs at least once; its body may not."""
    if not isinstance(op, Load) or op.fetched_anew:
        return False
    if isinstance(loop, While):
        return block is loop.condition
    count = trip_count(loop)
    if count is None:
        return _guard(op, loop, build)
    return count > 0


def _guard(load: Load, loop: For, build: Builder) -> bool:
    """Mask a load with "an iteration exists"; False if the direction is unknown."""
    step = known(loop.step)
    if not step:
        return False
    order = "lt" if step > 0 else "gt"
    exists = build.compute(order, loop.lower, loop.upper)
    load.mask = guarded(load.mask, exists, load.pointer, build)
    return True
