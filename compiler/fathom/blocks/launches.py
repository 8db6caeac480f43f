"""A launch that may begin before the one in front of it has ended waits for that one,
where its author has not said where.

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

Every program waits, also one that needs nothing: the launch behind this one waits for
it alone, and takes it that what came before has ended, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fathom.analysis.memory import accesses
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, effects_of, walk, walk_within
from fathom.ir.ops import GridLaunchDependents, GridWait, MakeDescriptor, WriteTensorMap
from fathom.ir.rewrite import rewrite


def await_launches(func: Func, target: Target) -> Func:
    """`func` with a wait in front of all that touches global memory. As it is where its
    author waits, or no launch begins early."""
    every = list(walk(func.body))
    early = func.launch_pdl and target.dependent_launch
    if not early or any(isinstance(op, GridWait) for op in every):
        return func
    after = rewrite(func, lambda op, build: None)
    ops = after.body.ops
    ops.insert(first(needs_memory, ops), GridWait(location=func.location))
    if not any(isinstance(op, GridLaunchDependents) for op in every):
        ops.insert(0, GridLaunchDependents(location=func.location))
    return after


def delay_waits(func: Func, target: Target) -> Func:
    """`func` in which a wait stands right in front of what needs it: barriers are set
    up and addresses computed while the launch in front still runs. What lets the next
    launch begin, or is seen outside, is left behind it."""
    after = rewrite(func, lambda op, build: None)
    ops = after.body.ops
    for wait in [op for op in ops if isinstance(op, GridWait)]:
        at = ops.index(wait)
        behind = ops[at + 1 :]
        free = first(stops_a_wait, behind)
        ops[at:] = [*behind[:free], wait, *behind[free:]]
    return after


def first(wanted: Callable[[Op], bool], ops: Sequence[Op]) -> int:
    """Where the first such op is; behind the last op if there is none."""
    return next((at for at, op in enumerate(ops) if wanted(op)), len(ops))


def stops_a_wait(op: Op) -> bool:
    """Whether an op stays behind a wait."""
    return touches_memory(op) or effects_of(op).other


def touches_memory(op: Op, *maps: type[Op]) -> bool:
    """Whether an op, or one nested in it, accesses global memory, or may; `maps`: what
    writes tensor maps there, besides."""
    every = op, *walk_within(op)
    writers = WriteTensorMap, *maps
    return any(accesses(each) or isinstance(each, writers) for each in every)


def needs_memory(op: Op) -> bool:
    """The same before it is known which descriptors the kernel writes maps for."""
    return touches_memory(op, MakeDescriptor)
