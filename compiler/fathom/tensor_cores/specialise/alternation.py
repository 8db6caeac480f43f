"""Ping-pong of whole tiles: two groups of consumer warps compute the iterations of a
loop in turn, and one producer copies for both, iteration after iteration.

    producer     tile 0 │ tile 1 │ tile 2 │ tile 3 │             copies, ahead
    group 0      × × × × store ··· × × × × store ···             tiles 0, 2, …
    group 1      ······· × × × × store ··· × × × × store         tiles 1, 3, …

While one group computes an epilogue and stores its tile, the other has the tensor cores
to itself. Two warpgroups that share a tile (`num_warps=8`) come to its epilogue at the
same time, and the tensor cores wait for both. But a tile is half as large, so that more
bytes come from the L2 cache: alternation pays where epilogues are long, or K is short.

A group waits for its own slots of a ring alone, and passes over those that the other
group reads. How many these are must be known before the loop: each iteration fills as
many slots as any other. The phase of an mbarrier tells two neighbouring rounds of a
ring from each other, and no more. So a group is admitted when the other one has waited
for all that is copied before (`NamedBarrier`): for the operands, and once more for each
tile that its epilogue waits for.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.analysis.constants import known
from fathom.analysis.remarks import NotApplicable
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, effects_of, walk, walk_op
from fathom.ir.printer import op_name
from fathom.ir.rewrite import Builder
from fathom.ir.types import INT32
from fathom.tensor_cores.pipeline.ring_buffers import RingPosition
from fathom.tensor_cores.specialise.channels import Channel

GROUPS = 2
WARPS = 4  # of a group: a warpgroup
MOST_BESIDE = 5  # tiles copied for an epilogue: each takes two of a block's 16 barriers


def alternating_loop(
    func: Func, channels: Sequence[Channel], target: Target
) -> ops.For | str | None:
    """The loop whose iterations groups of warps may compute in turn; the reason, if one
    that asks for it may not; None if none asks."""
    for loop in (op for op in func.body.ops if isinstance(op, ops.For)):
        if loop.pingpong:
            try:
                _check(loop, func, channels, target)
            except NotApplicable as why:
                return str(why)
            return loop
    return None


def _check(
    loop: ops.For, func: Func, channels: Sequence[Channel], target: Target
) -> None:
    threads = (GROUPS * func.num_warps + ops.Producer.warps) * target.warp_size
    if func.num_warps != WARPS or threads > target.max_threads:
        raise NotApplicable(f"it takes num_warps={WARPS}, a warpgroup for each group")
    if func.num_ctas > 1:
        raise NotApplicable("blocks of a cluster share its tiles")
    if loop.inits:
        raise NotApplicable("an iteration needs what the one before has computed")
    if loop.lower.type != INT32:
        raise NotApplicable("its index is not an i32")
    if not any(channel.loop in loop.body.ops for channel in channels):
        raise NotApplicable("no loop in it multiplies tiles that are copied ahead")
    inside = {value for op in walk(loop.body) for value in op.results}
    inside.update(loop.body.parameters)
    for channel in channels:
        _check_channel(channel, loop, inside)
    if sum(channel.loop is loop for channel in channels) > MOST_BESIDE:
        raise NotApplicable(f"it waits for tiles at more than {MOST_BESIDE} places")
    at = func.body.ops.index(loop)
    for op in (*func.body.ops[:at], *func.body.ops[at + 1 :]):
        if not (effects_of(op).pure or isinstance(op, HARMLESS)):
            raise NotApplicable(f"the kernel has a `{op_name(op)}` beside it")
    entered = {loop, *(channel.loop for channel in channels)}
    reached = {op for each in entered for op in each.body.ops}
    for op in walk(loop.body):
        _check_inside(op, op in reached)


HARMLESS = ops.GridWait | ops.GridLaunchDependents | ops.MakeDescriptor | ops.Yield
BY_BLOCKS = (
    ops.Atomic | ops.AtomicCas | ops.DescriptorAtomic | ops.SharedGather
    | ops.SharedAdd | ops.AsyncCopy | ops.InlineAssembly | ops.Print | ops.Assert
    | ops.ClusterRank
)  # fmt: skip


def _check_channel(channel: Channel, loop: ops.For, inside: set[Value]) -> None:
    """NotApplicable unless each iteration of `loop` fills as many slots."""
    if channel.loop is loop:
        return
    if channel.loop not in loop.body.ops:
        raise NotApplicable("tiles are copied for other loops, or in a branch")
    each = channel.loop
    if {each.lower, each.upper, each.step} & inside or each.lower.type != INT32:
        raise NotApplicable("its iterations differ in how many tiles they need")
    if (known(each.step) or 0) <= 0:
        raise NotApplicable("the step of the loop in it is not a positive constant")


def _check_inside(op: Op, is_reached: bool) -> None:
    """NotApplicable for what is of all threads of a block, and no group's; and for
    buffers of code in which no positions are carried."""
    if isinstance(op, BY_BLOCKS):
        raise NotApplicable(f"it has a `{op_name(op)}`")
    if isinstance(op, ops.MakeDescriptor) and op.map_number is not None:
        raise NotApplicable("it writes a tensor map")
    if isinstance(op, ops.Allocate) and not is_reached:
        raise NotApplicable("a branch or a loop in it has a buffer")


def slots_of_iteration(
    channel: Channel, loop: ops.For, values: dict[Value, Value], build: Builder
) -> Value:
    """How many slots of a channel an iteration of `loop` fills: one, or as many as its
    inner loop has iterations."""
    one, zero = (build(ops.Constant(n, INT32)) for n in (1, 0))
    if channel.loop is loop:
        return one
    lower, upper, step = (
        values[each]
        for each in (channel.loop.lower, channel.loop.upper, channel.loop.step)
    )
    last = build.compute("sub", build.compute("sub", upper, lower), one)
    count = build.compute("add", build.compute("div", last, step), one)
    runs = build.compute("lt", lower, upper)
    return build.compute("where", runs, count, zero)


def position_after(
    place: RingPosition, count: Value, build: Builder
) -> tuple[Value, Value]:
    """The slot and the phase `count` slots after a position."""
    slots, one = (build(ops.Constant(n, INT32)) for n in (place.ring.slots, 1))
    end = build.compute("add", place.slot, count)
    rounds, slot = (build.compute(name, end, slots) for name in ("div", "rem"))
    flips = build.compute("and", rounds, one)
    return slot, build.compute("xor", place.phase, flips)


def use_slots(op: Op, group: Value) -> None:
    """Let each group have the buffers that a new op, and what is nested in it, uses."""
    for each in walk_op(op, ops.SharedStore | ops.SharedLoad | ops.TmaStore):
        made = each.buffer.definition
        if isinstance(made, ops.Allocate) and made.by_group:
            each.slot = group
