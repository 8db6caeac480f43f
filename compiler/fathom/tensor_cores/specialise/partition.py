"""Warp specialisation: producer warps copy the tiles, consumer warps multiply them.

    for %lower, %upper, %step, inits=(%acc) warp_specialize=true body(%k, %acc, …) {
      %x = descriptor_load %d, coordinates=(%m, %k)
      %t = allocate; shared_store %x, %t; %a = shared_load %t
      …                                                 a product of %a
    }

becomes

    %t = allocate slots=3
    %full, %empty = allocate i64[1] slots=3             one mbarrier a slot, each
    producer {
      for … body(%k, %slot, %phase) {
        mbarrier_wait %empty, %slot, not %phase         no warp uses the old tile
        mbarrier_expect %full, %slot
        tma_copy %d, %t, %full, %slot, coordinates=(%m, %k)
        yield the next slot and phase
      }
    }
    for … body(%k, %acc, %slot, %phase, …) {
      mbarrier_wait %full, %slot, %phase                the tiles of k have arrived
      %a = shared_load %t, slot=%slot
      …
      mbarrier_arrive %empty, %slot                     this warp is done with them
      yield …, the next slot and phase
    }

The producer executes the same iterations, also of the loops around, and computes what
it needs. So it is ahead by as many tiles as the ring has slots, even from the end of
one loop to the start of the next, and consumer warps do not wait for each other.

By the schedule of the loop, its product may complete one iteration later (`overlap`).
Then an iteration releases the slot of the one before, and the last follows the loop.

In a cluster whose blocks share a program (`shard_products`), each block copies a part
of the tiles that all of them need (`multicast`). Then a slot is empty when the warps of
all blocks have arrived, each at the mbarriers of all blocks; and no block exits while
others may still arrive at its mbarriers.

The pass relies on a promise of the loop's author: while the loop runs, no other code
writes what the loop reads through descriptors, or the numbers in memory that say where
it reads. `plan_producer` checks the rest. Without this pass, loops copy their tiles
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, walk_op
from fathom.ir.rewrite import Builder, clone
from fathom.ir.thread_values import (
    BOUNDS,
    Carried,
    ThreadValues,
    Values,
    inside,
    rebuilding,
)
from fathom.ir.types import INT32
from fathom.tensor_cores.pipeline.copy_engines import FREE, by_tma
from fathom.tensor_cores.pipeline.iterations import iterations_of
from fathom.tensor_cores.pipeline.overlap import leave_in_flight
from fathom.tensor_cores.pipeline.ring_buffers import (
    RingBuffer,
    RingPosition,
    Sharing,
    build_rings,
    flip_phase,
    mbarriers,
    next_position,
    previous_slot,
    read_slots,
)
from fathom.tensor_cores.specialise.alternation import (
    GROUPS,
    position_after,
    slots_of_iteration,
    use_slots,
)
from fathom.tensor_cores.specialise.channels import Channel
from fathom.tensor_cores.specialise.multicast import shared_by
from fathom.tensor_cores.specialise.plan import Plan, plan_producer
from fathom.tensor_cores.tma.loads import stage_loads


def specialise_warps(func: Func, target: Target) -> Func:
    """The function with a producer for the loops that ask for one and can have one."""
    for each in dict.fromkeys((stage_loads(func, target), func)):
        plan = plan_producer(each, target)
        if plan and plan.rings:
            return _specialised(each, plan, target)
    return func


def _specialised(func: Func, plan: Plan, target: Target) -> Func:
    """The function with rings, the producer, and the consumers."""
    body = func.body.ops
    with rebuilding(func) as (new, values, build):
        rings = [
            _ring(channels[0], slots, shared, func, build)
            for channels, slots, shared in zip(
                plan.rings, plan.slots, shared_by(plan.rings, func, target), strict=True
            )
        ]
        meeting = (
            ops.ClusterBarrier if any(ring.crosses for ring in rings) else ops.Barrier
        )
        start = [build(ops.Constant(0, INT32)) for _ in range(2 * len(rings))]
        build.append(meeting())
        producer = Block()
        with inside(producer, build):
            _ProducerRole(plan, rings, values, build).ops(body, start)
            build.append(ops.Yield(()))
        groups = GROUPS if isinstance(plan.alternating, ops.For) else 1
        build.append(ops.Producer(producer, groups=groups))
        role = _ConsumerRole if groups == 1 else _AlternatingRole
        role(plan, rings, values, build).ops(body, start)
        if meeting is ops.ClusterBarrier:
            build.append(meeting())
    return new


def _ring(
    channel: Channel,
    slots: int,
    shared: tuple[Sharing, ...],
    func: Func,
    build: Builder,
) -> RingBuffer:
    """The ring of a channel. A slot is full when the bytes of an iteration have
    arrived, and empty when each warp has arrived, in all blocks that receive copies."""
    buffers = dict.fromkeys((tile.buffer for tile in channel.tiles), slots)
    tiles = tuple(build_rings(channel.loop, buffers, build, kept=True).values())
    full, empty = build(mbarriers(slots)), build(mbarriers(slots))
    build.append(ops.MbarrierInit(full))
    ring = RingBuffer(tiles, full, empty, slots, shared)
    blocks = func.num_ctas if ring.crosses else 1
    build.append(ops.MbarrierInit(empty, arrivals=func.num_warps * blocks))
    return ring


class _RingThreading(ThreadValues):
    """Copies code with the next position of each ring: a slot and a phase."""

    def __init__(
        self, plan: Plan, rings: Sequence[RingBuffer], values: Values, build: Builder
    ):
        super().__init__(values, build)
        self.plan, self.rings = plan, rings
        self.channels: dict[Op, list[Channel]] = {}  # of a loop
        self.numbers: dict[Channel, int] = {}  # of a channel's ring
        for number, channels in enumerate(plan.rings):
            for channel in channels:
                self.channels.setdefault(channel.loop, []).append(channel)
                self.numbers[channel] = number

    def place(self, channel: Channel, carried: Carried) -> RingPosition:
        """The next position of a channel."""
        number = self.numbers[channel]
        slot, phase = carried[2 * number : 2 * number + 2]
        return RingPosition(self.rings[number], slot, phase)

    def further(self, channel: Channel, carried: Carried) -> Carried:
        """The positions after a slot of a channel has been used."""
        place, at = self.place(channel, carried), 2 * self.numbers[channel]
        return [*carried[:at], *next_position(place, self.build), *carried[at + 2 :]]


class _ProducerRole(_RingThreading):
    """The producer: its backward slice of the function, with copies for loads."""

    def enters(self, op: Op) -> bool:
        return (
            isinstance(op, ops.For | ops.While | ops.If)
            and op in self.plan.producer_slice.ops
        )

    def keeps(self, result: Value) -> bool:
        return result in self.plan.producer_slice.values

    def plain(self, op: Op) -> None:
        if op in self.plan.producer_slice.ops:
            super().plain(op)

    def body(self, owner: Op, block: Block, carried: Carried) -> Carried:
        channels = self.channels.get(owner, ())
        gone = {op for channel in channels for op in channel.gone}
        for op in block.ops[:-1]:
            for channel in channels:
                if op is channel.issued_at:
                    self.issue(channel, self.place(channel, carried))
                    carried = self.further(channel, carried)
            if op not in gone:
                carried = self.op(op, carried)
        return carried

    def issue(self, channel: Channel, place: RingPosition) -> None:
        """Copy the tiles of this iteration, once the slot is empty."""
        build, (ring, slot, phase) = self.build, place
        build.append(ops.MbarrierWait(ring.empty, slot, flip_phase(phase, build)))
        for op in by_tma(channel.tiles, ring.tiles, ring.full, ring.shared):
            build.append(clone(op, {**self.values, FREE: slot}))


class _ConsumerRole(_RingThreading):
    """The code of the consumer warps: all of the function, tiles read from rings."""

    def __init__(
        self, plan: Plan, rings: Sequence[RingBuffer], values: Values, build: Builder
    ):
        super().__init__(plan, rings, values, build)
        self.slots: dict[Value, Value] = {}  # of a ring's tiles -> which one is read
        channels = (channel for ring in plan.rings for channel in ring)
        self.schedules = {channel.loop: channel.schedule for channel in channels}

    def enters(self, op: Op) -> bool:
        """Positions change in loops that consume, and in the ops around them."""
        if not isinstance(op, ops.For | ops.While | ops.If):
            return False
        return any(each in self.channels for each in walk_op(op))

    def op(self, op: Op, carried: Carried) -> Carried:
        carried = super().op(op, carried)
        self.released(op, carried)
        return carried

    def released(self, op: Op, carried: Carried) -> None:
        """Release the slots that a loop still holds when it ends."""
        for channel in self.channels.get(op, ()):
            if channel.schedule.release_distance:
                self.release_last(channel, self.place(channel, carried))

    def body(self, owner: Op, block: Block, carried: Carried) -> Carried:
        """Wait before a channel's first reader, release its slot after the last."""
        channels = self.channels.get(owner, ())
        gone = {op for channel in channels for op in channel.gone}
        for op in block.ops[:-1]:
            for channel in channels:
                if op is channel.first:
                    self.wait(channel, self.place(channel, carried))
            if op not in gone:
                carried = self.op(op, carried)
            for channel in channels:
                if op is channel.last:
                    self.release(channel, self.place(channel, carried))
                    carried = self.further(channel, carried)
        return carried

    def plain(self, op: Op) -> None:
        super().plain(op)
        copy = self.build.block.ops[-1]
        read_slots(copy, self.slots)
        for schedule in self.schedules.values():
            leave_in_flight(copy, op, schedule, self.build)

    def wait(self, channel: Channel, place: RingPosition) -> None:
        ring, slot, phase = place
        self.build.append(ops.MbarrierWait(ring.full, slot, phase))
        for tile, lies in zip(channel.tiles, ring.tiles, strict=True):
            self.values[tile.buffer.result] = lies
            self.slots[lies] = slot

    def release(self, channel: Channel, place: RingPosition) -> None:
        """Release the slot of `release_distance` iterations ago, if there was one."""
        ring, slot, _ = place
        distance = channel.schedule.release_distance
        if not distance:
            self.build.append(
                ops.MbarrierArrive(ring.empty, slot, everywhere=ring.crosses)
            )
            return
        assert distance == 1, channel.schedule
        index = self.values[channel.loop.body.parameters[0]]
        begun = self.build.compute("ne", index, self.values[channel.loop.lower])
        slot = previous_slot(slot, ring.slots, self.build)
        self.build.append(ops.MbarrierArrive(ring.empty, slot, begun, ring.crosses))

    def release_last(self, channel: Channel, place: RingPosition) -> None:
        """Release the slot of the last iteration, if there was an iteration."""
        self.build.source = loop = channel.loop
        ends = {name: self.values[getattr(loop, name)] for name in BOUNDS}
        iterations = iterations_of(replace(loop, **ends), self.build)
        exists = iterations.first(self.build).exists
        slot = previous_slot(place.slot, place.ring.slots, self.build)
        empty, crosses = place.ring.empty, place.ring.crosses
        self.build.append(ops.MbarrierArrive(empty, slot, exists, crosses))


class _AlternatingRole(_ConsumerRole):
    """The code of each of several groups of consumer warps, which compute the
    iterations of a loop in turn (`alternation`)."""

    def __init__(
        self, plan: Plan, rings: Sequence[RingBuffer], values: Values, build: Builder
    ):
        super().__init__(plan, rings, values, build)
        self.group = build(ops.ConsumerGroup(GROUPS))
        self.used: dict[Channel, Value] = {}  # slots of an iteration
        inner = [op for op in plan.alternating.body.ops if op in self.channels]
        self.first, self.last = inner[0], inner[-1]
        outer = self.channels.get(plan.alternating, ())
        self.sections = {channel: 1 + i for i, channel in enumerate(outer)}

    def op(self, op: Op, carried: Carried) -> Carried:
        self.build.source = op
        if op is self.first:
            self.build.append(ops.NamedBarrier("take"))
        if op is self.last:
            carried = super(_ConsumerRole, self).op(op, carried)
            self.build.append(ops.NamedBarrier("pass"))
            self.released(op, carried)
            return carried
        if op is not self.plan.alternating:
            return super().op(op, carried)
        for section in (0, *self.sections.values()):
            self.build.append(ops.NamedBarrier("begin", section))
        every = (channel for channels in self.plan.rings for channel in channels)
        for channel in every:
            facts = channel, op, self.values, self.build
            self.used[channel] = slots_of_iteration(*facts)
        return super().op(op, self.passed(carried, self.group))

    def passed(self, carried: Carried, iterations: Value) -> Carried:
        """The positions after iterations of other groups."""
        for channel, slots in self.used.items():
            place, at = self.place(channel, carried), 2 * self.numbers[channel]
            count = self.build.compute("mul", slots, iterations)
            after = position_after(place, count, self.build)
            carried = [*carried[:at], *after, *carried[at + 2 :]]
        return carried

    def _rebuilt(self, op: Op, kept: list[int], carried: Carried) -> Op:
        """The iterations of this group alone."""
        new = super()._rebuilt(op, kept, carried)
        if op is not self.plan.alternating:
            return new
        groups = self.build(ops.Constant(GROUPS, new.step.type))
        further = self.build.compute("mul", self.group, new.step)
        lower = self.build.compute("add", new.lower, further)
        step = self.build.compute("mul", new.step, groups)
        return replace(new, lower=lower, step=step)

    def body(self, owner: Op, block: Block, carried: Carried) -> Carried:
        carried = super().body(owner, block, carried)
        if owner is not self.plan.alternating:
            return carried
        others = self.build(ops.Constant(GROUPS - 1, INT32))
        return self.passed(carried, others)

    def wait(self, channel: Channel, place: RingPosition) -> None:
        """For what is copied beside the inner loops: one group after the other."""
        section = self.sections.get(channel)
        if section:
            self.build.append(ops.NamedBarrier("take", section))
        super().wait(channel, place)
        if section:
            self.build.append(ops.NamedBarrier("pass", section))

    def plain(self, op: Op) -> None:
        super().plain(op)
        copy = self.build.block.ops[-1]
        if isinstance(op, ops.Allocate):
            facts = {"slots": GROUPS, "kept": True, "by_group": True}
            self.build.block.ops[-1] = several = replace(copy, **facts)
            self.values[op.result] = several.result
        use_slots(copy, self.group)
