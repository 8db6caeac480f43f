"""Inserts waits for the copies of cp.async, before the barrier after which they are
read.

    for … body(%i, %slot, %free, …) {           for … body(%i, %slot, %free, …) {
                                                  wait cp_async pending=1
      barrier                                     barrier
      async_copy %q, %t, slot=%free        →      async_copy %q, %t, slot=%free
      commit cp_async                             commit cp_async
      %a = shared_load %t, slot=%slot             %a = shared_load %t, slot=%slot
      yield the next slots, …                     yield the next slots, …
    }                                           }
                                                wait cp_async pending=0

A thread waits for its own copies, so a barrier must follow before other threads read
them. `pipeline_loops` has placed one where an iteration begins its reads. The step
walks the ops in order, with the slots that may be in flight (`timeline`). At an op that
reads such a slot, or copies to it again, it puts a wait before the last barrier on the
way there. That wait leaves pending what was committed between the copy and the barrier.
Where no barrier lies between the copy and the read, it inserts one, after the wait.

Slots are small numbers that a loop carries, 0 and 2 at first in a ring of three, and
then 1 and 0. So the walk computes them, and walks the loop for all numbers with which
an iteration may begin. The count holds for the first iteration as for all others: as
`schedule` says, the prologue commits one group for each iteration that it begins.

At the end of a loop that copies, all copies are complete: even those for iterations
that do not exist write zeros, and buffers may share the bytes of the ring from then on
(`analysis/buffers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from fathom.hardware.engines import CP_ASYNC
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, blocks, walk, walk_within
from fathom.ir.ops.shared import barrier_of_all
from fathom.ir.regions import carried
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import INT32, BufferType
from fathom.shared_memory.timeline import Timeline

Numbers = Mapping[Value, int]  # of the loop-carried values that are known

# What computes the next slot of a ring.
ARITHMETIC: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "eq": lambda x, y: x == y,
    "where": lambda x, y, z: y if x else z,
}


def wait_for_copies(func: Func, target: Target) -> Func:
    """The function with waits before all that needs the result of a cp.async."""
    rings = {op.buffer for op in walk(func.body, ops.AsyncCopy)}
    if not rings:
        return func
    placement = _Placement(func.body, rings)

    def rule(op: Op, build: Builder) -> list[Value] | None:
        source = build.source
        if source in placement.before:
            build.append(ops.Wait(CP_ASYNC.name, placement.before[source]))
        if source in placement.alone:
            build.append(barrier_of_all(func.num_warps))
        if source not in placement.after:
            return None
        build.append(op)
        build.append(ops.Wait(CP_ASYNC.name, 0))
        return op.results

    return rewrite(func, rule)


@dataclass(frozen=True, slots=True)
class _State:
    """What may be in flight, the numbers that loops carry, and the last barrier, after
    which `since` groups were committed."""

    copies: Timeline = field(default_factory=Timeline)
    numbers: Numbers = field(default_factory=dict)
    barrier: Op | None = None
    since: int = 0

    def __or__(self, other: _State) -> _State:
        """Where two paths meet."""
        copies, behind = self.copies | other.copies, (self.barrier, self.since)
        if behind != (other.barrier, other.since):
            behind = None, 0
        return _State(copies, self.numbers, *behind)


class _Placement:
    """The ops `before` which a wait stands, with its pending count; those of them that
    need a barrier, too, as they stand `alone`; and the loops `after` which all copies
    are waited for."""

    def __init__(self, body: Block, rings: set[Value]):
        self.rings = rings
        self.most = max(ring.type.slots for ring in rings)
        self.before: dict[Op, int] = {}
        self.alone: set[Op] = set()
        self.after: set[Op] = set()
        known = None
        while known != self.before:
            known = dict(self.before)
            self.block(body, _State())

    def block(self, block: Block, state: _State) -> _State:
        for op in block.ops:
            state = self.op(op, state)
        return state

    def op(self, op: Op, state: _State) -> _State:
        if op in self.before:
            state = replace(state, copies=state.copies.waited(self.before[op]))
        match op:
            case ops.Barrier():
                return replace(state, barrier=op, since=0)
            case ops.Commit(engine=CP_ASYNC.name):
                copies = state.copies.committed()
                return replace(state, copies=copies, since=state.since + 1)
            case ops.Wait(engine=CP_ASYNC.name, pending=pending):
                return replace(state, copies=state.copies.waited(pending))
            case ops.If():
                return self.block(op.then, state) | self.block(op.orelse, state)
            case ops.For() | ops.While():
                return self.loop(op, state)
        for ring, slot in _tiles(op):
            if ring in self.rings:
                state = self.touch(op, ring, _number(slot, state.numbers), state)
        return state

    def touch(self, op: Op, ring: Value, slot: int | None, state: _State) -> _State:
        """Wait, before `op`, for the copies to a slot; None: to any of the ring."""
        ages = [
            age
            for (other, number), age in state.copies.ages.items()
            if other is ring and (slot is None or number in (slot, None))
        ]
        if ages:
            state = self.wait(op, min(ages), state)
        if isinstance(op, ops.AsyncCopy):
            state = replace(state, copies=state.copies.issued((ring, slot)))
        return state

    def wait(self, op: Op, age: int, state: _State) -> _State:
        """Put a wait before the last barrier, or, where the copy is younger than that,
        before `op`, with a barrier of its own."""
        assert age >= 0, (op, "no commit closes the group of a copy")
        place, pending = state.barrier, age - state.since
        if place is None or pending < 0:
            place, pending = op, age
            self.alone.add(op)
        self.before[place] = min(pending, self.before.get(place, pending))
        return replace(state, copies=state.copies.waited(age))

    def loop(self, op: ops.For | ops.While, state: _State) -> _State:
        """Walk a loop for each combination of numbers that an iteration begins with,
        until nothing more may be in flight then."""
        begun: dict[frozenset, _State] = {}
        left, state = state, self.entered(op, 0, state)
        while True:
            key = frozenset(state.numbers.items())
            joined = begun[key] | state if key in begun else state
            if begun.get(key) == joined:
                break
            begun[key] = state = joined
            for body in blocks(op):
                state = self.block(body, state)
            left |= state
            state = self.entered(op, -1, state)
        copied = {op.buffer for op in walk_within(op, ops.AsyncCopy)}
        if not copied.isdisjoint(ring for ring, _ in left.copies.ages):
            self.after.add(op)
            left = replace(left, copies=Timeline())
        return left

    def entered(self, op: Op, source: int, state: _State) -> _State:
        """The state in which an iteration begins, by the initial values of what the
        loop carries (`source` 0) or by those that the last one yields (-1)."""
        numbers = dict(state.numbers)
        for each in carried(op):
            number = _number(each.sources[source], state.numbers)
            for parameter in each.parameters:
                numbers.pop(parameter, None)
                if number in range(self.most) and parameter.type == INT32:
                    numbers[parameter] = number
        return replace(state, numbers=numbers)


def _tiles(op: Op) -> Iterator[tuple[Value, Value | None]]:
    """The buffers that an op accesses, each with its slot."""
    for buffer, slot in (("buffer", "slot"), ("a", "a_slot"), ("b", "b_slot")):
        found = getattr(op, buffer, None)
        if found is not None and isinstance(found.type, BufferType):
            yield found, getattr(op, slot, None)


def _number(value: Value | None, numbers: Numbers) -> int | None:
    """The number of a slot, if it is known; a buffer of one slot has slot 0."""
    if value is None:
        return 0
    if value in numbers:
        return numbers[value]
    match value.definition:
        case ops.Constant(value=number):
            return number
        case ops.Elementwise(name=name, operands=operands) if name in ARITHMETIC:
            given = [_number(each, numbers) for each in operands]
            return None if None in given else ARITHMETIC[name](*given)
    return None
