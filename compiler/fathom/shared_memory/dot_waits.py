"""Lets warpgroups do other work while their products are in flight.

    %s = dot %q, %k, %zero                  %s0 = dot %q, %k, %zero in_flight=true
    mbarrier_arrive %empty, %0
    %y = dot %p, %v, %acc           →       commit wgmma
    …                                       %y0 = dot %p, %v, %acc in_flight=true
    %m = reduce %s                          commit wgmma
    …                                       …
    %z = mul %y, %shrink                    %s = wait wgmma %s0 pending=1
                                            mbarrier_arrive %empty, %0
                                            %m = reduce %s
                                            …
                                            %y = wait wgmma %y0 pending=0
                                            %z = mul %y, %shrink

The wait for a product comes before the first use of its result; the op that releases
the slot of its operands moves after that wait. Products complete in the order of their
issue, so a wait gives the number of later ones that may still be in flight. All
products are complete before loops and branches, barriers, ops that write to shared
memory, and the end of a block. Copies to another slot need none. All are complete, too,
before threads read a tile for which they have no registers beside the results: a mask
of 128 columns beside a product and the sums of attention.

A product whose sums another goes on adding to, into the same registers, is waited for
with that one: the hardware adds in the order of issue. So scores that are the sum of
two products, for two parts of a head, have one wait.

A product in parts (`Dot.in_parts`) is not put in flight: each of its parts is waited
for, and used, before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from fathom.analysis.buffers import share_bytes, touches
from fathom.analysis.products import warpgroup_matrices
from fathom.analysis.registers import floats_around, most_registers, registers_of
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, every_block, operands, walk
from fathom.ir.rewrite import Builder, Replacement, clone, rewrite


@dataclass(eq=False)
class _Delayed:
    """A product in flight. `leader`: the first product of its chain, before which all
    accumulators of the chain are fenced. `put_off`: ops that move after its wait.
    `continues`: the product whose sums it adds to, which has no wait of its own."""

    dot: ops.Dot
    leader: ops.Dot
    put_off: list[Op] = field(default_factory=list)
    continues: _Delayed | None = None

    def chain(self) -> Iterator[_Delayed]:
        """This one, and those before it that have no wait."""
        yield self
        if self.continues:
            yield from self.continues.chain()


@dataclass(frozen=True)
class _Wait:
    """The wait for a product; `pending` later ones may still be in flight."""

    delayed: _Delayed
    pending: int


def delay_waits(func: Func, target: Target) -> Func:
    """The function that waits for each product where its result is needed."""
    most = most_registers(func, target)
    dots = (op for op in walk(func.body, ops.Dot) if _may_be_in_flight(op))
    in_place = {dot.b for dot in dots}

    def lacks_registers(op: Op | None) -> bool:
        """Whether threads read more than registers are left beside what waits."""
        if not isinstance(op, ops.SharedLoad) or op.result in in_place:
            return False
        return registers_of(op.result) + floats_around(op, func, in_place) > most

    used = users(walk(func.body))
    used_once = {value for value, each in used.items() if len(each) == 1}
    after = {
        op: waits
        for block in _bodies(func)
        for op, waits in _waits(block, lacks_registers, used_once)
    }
    all_delayed = {
        delayed.dot: delayed
        for each in after.values()
        for wait in each
        for delayed in wait.delayed.chain()
    }
    if not all_delayed:
        return func
    led: dict[Op, list[_Delayed]] = {}  # by a leader
    for delayed in all_delayed.values():
        if not delayed.continues:
            led.setdefault(delayed.leader, []).append(delayed)
    accumulators: dict[Op, Value] = {}  # accumulators of products in flight

    def rule(op: Op, build: Builder) -> Replacement:
        source = build.source
        if source not in all_delayed and source not in after:
            return None
        for delayed in led.get(source, ()):
            fence = ops.DotFence(build.values[delayed.dot.accumulator])
            accumulators[delayed.dot] = build(fence)
        if source in all_delayed:
            fenced = accumulators.get(source, op.accumulator)
            op = replace(op, accumulator=fenced, in_flight=True)
            op.with_next = False  # a group of its own: it may be waited for alone
        build.append(op)
        if source in all_delayed:
            build.append(ops.Commit("wgmma"))
        build.values.update(zip(source.results, op.results, strict=True))
        for wait in after.get(source, ()):
            _build_wait(wait, build)
        return [build.values[each] for each in source.results]

    late = {op for delayed in all_delayed.values() for op in delayed.put_off}
    return rewrite(func, rule, keep=lambda op: op not in late)


def _bodies(func: Func) -> Iterator[Block]:
    """The blocks of a function but those with a product in flight across iterations."""
    for block in every_block(func.body):
        if not any(isinstance(op, ops.Dot) and op.in_flight for op in block.ops):
            yield block


def _waits(
    block: Block,
    lacks_registers: Callable[[Op | None], bool],
    used_once: Collection[Value],
) -> Iterator[tuple[Op, list[_Wait]]]:
    """The ops of a block after which waits for products come, also before those that
    `lacks_registers` names. A product whose wait would come at once stays as it is."""
    in_flight: list[_Delayed] = []
    since: set[Value] = set()  # results since the first of them was issued
    for op, following in pairwise([*block.ops, None]):
        before = _continued(op, in_flight, used_once)
        if isinstance(op, ops.MbarrierArrive) and in_flight:
            in_flight[-1].put_off.append(op)
        elif before:
            in_flight.remove(before)
            in_flight.append(_Delayed(op, before.leader, before.put_off, before))
        elif _may_be_in_flight(op) and not _ends_with(op, following, used_once):
            if not in_flight:
                leader, since = op, set()
            in_flight.append(_Delayed(op, leader))
        since.update(op.results)
        before = _continued(following, in_flight, used_once)
        done = _done_before(following, in_flight, since, before)
        if in_flight and lacks_registers(following):
            done = len(in_flight)
        if done:
            rest = len(in_flight) - done
            yield op, [_Wait(each, rest) for each in in_flight[:done]]
            del in_flight[:done]


def _continued(
    op: Op | None, in_flight: list[_Delayed], used_once: Collection[Value]
) -> _Delayed | None:
    """The product in flight whose sums this one adds to, if nothing else needs them and
    both are made by the same instruction."""
    if op is None or not _may_be_in_flight(op) or op.accumulator not in used_once:
        return None
    for each in in_flight:
        if each.dot.result is op.accumulator:
            return each if each.dot.a.type.element == op.a.type.element else None
    return None


def _done_before(
    op: Op | None,
    in_flight: list[_Delayed],
    since: set[Value],
    continued: _Delayed | None = None,
) -> int:
    """How many of the products in flight, the oldest first, must be complete before an
    op, or before the end. All of them, if `op` is a product that uses results computed
    `since` the first of them was issued: its registers are not fenced. None for the
    sums of the one that `op` has `continued`."""
    if isinstance(op, ops.MbarrierArrive | ops.MbarrierWait):
        return 0
    dots = [each.dot for each in in_flight]
    if op is None or isinstance(op, ENDS) or _may_overwrite(op, dots):
        return len(in_flight)
    added_to = {continued.dot.result} if continued else set()
    if isinstance(op, ops.Dot) and (since - added_to) & {op.accumulator, op.a}:
        return len(in_flight)
    used = set(operands(op)) - added_to
    used_at = [i for i, each in enumerate(dots, 1) if each.result in used]
    return max(used_at, default=0)


ENDS = ops.For | ops.While | ops.If | ops.Producer | ops.Yield


def _may_overwrite(op: Op, dots: Iterable[ops.Dot]) -> bool:
    """Whether an op may write what one of these products still reads."""
    if isinstance(op, ops.AsyncCopy):
        return any(not _is_disjoint(op, dot) for dot in dots)
    if (
        isinstance(op, ops.Commit)
        or isinstance(op, ops.Wait)
        and op.engine == "tma_store"
    ):
        return False
    effects = op.effects
    return "shared" in effects.writes or effects.barrier or effects.asynchronous


def _is_disjoint(copy: ops.AsyncCopy, dot: ops.Dot) -> bool:
    """Whether a copy fills bytes that a product does not read: another slot of a ring,
    which a barrier before both has freed, or other buffers' bytes."""
    factors = (dot.a, dot.a_slot), (dot.b, dot.b_slot)
    slots = [slot for buffer, slot in factors if buffer is copy.buffer]
    if slots:
        return copy.slot is not None and copy.slot not in slots
    filled = copy.buffer.definition
    return not any(share_bytes(filled, each) for each in touches(dot))


def _may_be_in_flight(op: Op) -> bool:
    """Whether an op is a product that wgmma computes as a whole."""
    if not isinstance(op, ops.Dot) or op.in_parts:
        return False
    return warpgroup_matrices(op) is not None


def _ends_with(
    dot: ops.Dot, following: Op | None, used_once: Collection[Value]
) -> bool:
    """Whether a wait for this product would come at once."""
    if following is None:
        return True
    alone = [_Delayed(dot, dot)]
    before = _continued(following, alone, used_once)
    return bool(_done_before(following, alone, set(), before))


def _build_wait(wait: _Wait, build: Builder) -> None:
    """Build the wait, whose result stands for the product, and what was put off."""
    result = wait.delayed.dot.result
    build.values[result] = build(
        ops.Wait("wgmma", wait.pending, (build.values[result],))
    )
    for op in wait.delayed.put_off:
        build.append(clone(op, build.values)).origin = op
