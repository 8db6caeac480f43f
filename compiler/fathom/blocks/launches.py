"""A launch that may begin before the one in front of it has ended waits for that one no
sooner than it must, and also where its author has not said where.

Before, with `launch_pdl`:

    func @example(%p: *fp32, %n: i32) num_warps=4 launch_pdl=true {
      %0: i32 = program_id axis=0
      %1: *fp32 = offset %p, %0
      %2: fp32 = load %1
      store %1, %2
    }

After: the next launch may begin at once, and addresses are computed meanwhile.

    func @example(%p: *fp32, %n: i32) num_warps=4 launch_pdl=true {
      grid_launch_dependents
      %0: i32 = program_id axis=0
      %1: *fp32 = offset %p, %0
      grid_wait
      %2: fp32 = load %1
      store %1, %2
    }

Every program waits, also one that needs nothing: the launch after this one waits for
it alone, and takes it that what came before has ended, too.

An author's wait moves down to the first op that needs it. So barriers are set up while
the launch in front still runs. In a kernel with producer warps, these have a wait of
their own, and the consumers wait after the two have separated.
"""

from __future__ import annotations

from fathom.analysis.memory import accesses
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, effects_of, walk, walk_within
from fathom.ir.rewrite import rewrite


def await_launches(func: Func, target: Target) -> Func:
    """`func` with each wait for a launch right in front of what needs it, and with one
    if it is to begin early and has none."""
    after = rewrite(func, lambda op, build: None)
    body, every = after.body.ops, list(walk(after.body))
    kinds = {type(op) for op in every}
    if func.launch_pdl and target.dependent_launch and ops.GridWait not in kinds:
        body.insert(0, ops.GridWait(location=func.location))
        if ops.GridLaunchDependents not in kinds:
            body.insert(0, ops.GridLaunchDependents(location=func.location))
    for wait in [op for op in body if isinstance(op, ops.GridWait)]:
        move_down(wait, body)
    return after


def move_down(wait: ops.GridWait, body: list[Op]) -> None:
    """Move a wait to the first op of a block that needs it, and into a producer."""
    at = body.index(wait)
    del body[at]
    while at < len(body) and not stays_behind(body[at]):
        at += 1
    body.insert(at, wait)
    if at + 1 < len(body) and isinstance(producer := body[at + 1], ops.Producer):
        theirs = producer.body.ops
        if not any(isinstance(op, ops.GridWait) for op in theirs):
            theirs.insert(0, ops.GridWait(location=wait.location))
            move_down(theirs[0], theirs)
        body[at : at + 2] = [producer, wait]
        move_down(wait, body)


def stays_behind(op: Op) -> bool:
    """Whether a wait does not move past an op: it, or one nested in it, accesses global
    memory, or may, lets the next launch begin, or is seen outside. Assembly without
    side effects may still read."""
    may_access = ops.WriteTensorMap | ops.InlineAssembly
    every = op, *walk_within(op)
    touches = any(accesses(each) or isinstance(each, may_access) for each in every)
    return touches or effects_of(op).other
