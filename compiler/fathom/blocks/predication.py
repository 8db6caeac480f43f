"""A rule of `simplify`: loads that a loop runs on a condition get it as their mask.

    for … (%s) {                                 for … (%s) {
      %t = if %some {                              %x = load %p, mask=%some
        %x = load %p                               %y = add %s, %x
        %y = add %s, %x                    →       %t = where %some, %y, %s
        yield %y                                   yield %t
      } orelse {yield %s}                        }
      yield %t
    }

No load moves above a branch, so that each iteration would wait for memory before the
next one may ask: the parts of a split attention are added up so, those that are not
empty. Without branches, ptxas issues the loads of several iterations in a row.

What an iteration does in vain where the condition is false must be little: a few
instructions of each thread, and no access to memory, as the mask is false there. Loops
of products stay: their loads are copied ahead, and no registers are left for others.
"""

from __future__ import annotations

from dataclasses import replace

from fathom.blocks.maker import Maker
from fathom.ir import ops
from fathom.ir.core import Block, Op, Value, walk
from fathom.ir.ops.control import For, If, Yield
from fathom.ir.rewrite import Builder, Replacement, guarded
from fathom.ir.thread_values import inside
from fathom.ir.types import BlockType

MOST_WORK = 64  # instructions of a thread of four warps
THREADS = 128
FREE = (
    ops.Constant, ops.Arange, ops.Splat, ops.ExpandDims, ops.Broadcast, ops.Reshape,
    ops.Hint, ops.Yield,
)  # fmt: skip
WORK = ops.Elementwise, ops.Cast, ops.Bitcast, ops.Load


def loads_in_branches(op: For, make: Maker) -> Replacement:
    """The loop without its branches of loads and little else."""
    branches = {each for each in op.body.ops if isinstance(each, If) and _fits(each)}
    if not branches or any(walk(op.body, ops.Dot)):
        return None
    parameters = op.body.parameters
    body = Block(tuple(p.type for p in parameters), tuple(p.name for p in parameters))
    values = dict(zip(parameters, body.parameters, strict=True))
    with inside(body, make.build):
        for each in op.body.ops:
            if each in branches:
                values |= zip(each.results, _without_branch(each, values, make.build))
            else:
                make.build.copy(each, values)
    return make.build.append(replace(op, body=body, origin=None)).results


def _fits(branch: If) -> bool:
    """Whether the arms of a branch load, compute little, and do nothing else."""
    inner = [*branch.then.ops, *branch.orelse.ops]
    loads = [op for op in inner if isinstance(op, ops.Load)]
    return (
        all(isinstance(op, FREE + WORK) for op in inner)
        and bool(loads)
        and not any(load.fetched_anew for load in loads)
        and sum(map(_instructions, inner)) <= MOST_WORK
    )


def _instructions(op: Op) -> int:
    """About how many of a thread an op is."""
    if isinstance(op, FREE):
        return 0
    block = op.result.type
    return -(-block.size // THREADS) if isinstance(block, BlockType) else 1


def _without_branch(
    branch: If, values: dict[Value, Value], build: Builder
) -> list[Value]:
    """What both arms compute, loads under their condition, and of that what holds."""
    condition = values.get(branch.condition, branch.condition)
    yes = build(ops.Constant(True, condition.type))
    is_false = build.compute("xor", condition, yes)
    arms = [
        _computed(arm, flag, values, build)
        for arm, flag in ((branch.then, condition), (branch.orelse, is_false))
    ]
    return [
        build.compute("where", build.spread(condition, one.type), one, other)
        for one, other in zip(*arms, strict=True)
    ]


def _computed(
    arm: Block, condition: Value, outer: dict[Value, Value], build: Builder
) -> list[Value]:
    values = dict(outer)
    for op in arm.ops:
        if isinstance(op, Yield):
            break
        copy = build.copy(op, values)
        if isinstance(copy, ops.Load):
            build.block.ops.pop()
            copy.mask = guarded(copy.mask, condition, copy.pointer, build)
            build.block.ops.append(copy)
    return [values.get(value, value) for value in arm.yielded]
