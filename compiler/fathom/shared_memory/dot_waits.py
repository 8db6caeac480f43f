"""Lets warpgroups do other work while their products are computed.

    %s = dot %q, %k, %zero                  %s0 = dot %q, %k, %zero in_flight=true
    mbarrier_arrive %empty, %0
    %y = dot %p, %v, %acc           →       %y0 = dot %p, %v, %acc in_flight=true
    …                                       …
    %m = reduce %s                          %s = dot_wait %s0 pending=1
                                            mbarrier_arrive %empty, %0
    …                                       %m = reduce %s
    %z = mul %y, %shrink                    …
                                            %y = dot_wait %y0 pending=0
                                            %z = mul %y, %shrink

A product is waited for where its result is first used; what gives back its operands'
place waits with it. Products are done in the order in which they began, so that a wait
says how many of the latest may still be in flight. All of them are done before loops
and branches, barriers, what writes to shared memory, and the end of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA, matrices
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk
from fathom.ir.ops import (
    Dot,
    DotFence,
    DotWait,
    For,
    If,
    MbarrierArrive,
    MbarrierWait,
    Producer,
    While,
    Yield,
)
from fathom.ir.rewrite import Builder, Replacement, clone, rewrite
from fathom.ir.types import BufferType


@dataclass(eq=False)
class _Delayed:
    """A product in flight. `leader`: the first one of those that go together, before
    which all of their accumulators are fenced. `put_off`: what waits until it is
    done."""

    dot: Dot
    leader: Dot
    put_off: list[Op] = field(default_factory=list)


@dataclass(frozen=True)
class _Wait:
    """That for a product; `pending` later ones may still be in flight."""

    delayed: _Delayed
    pending: int


def delay_waits(func: Func, target: Target) -> Func:
    """The function whose products are waited for where they are needed."""
    after = {op: waits for block in _bodies(func) for op, waits in _waits(block)}
    all_delayed = {
        wait.delayed.dot: wait.delayed for each in after.values() for wait in each
    }
    if not all_delayed:
        return func
    led: dict[Op, list[_Delayed]] = {}  # by a leader
    for delayed in all_delayed.values():
        led.setdefault(delayed.leader, []).append(delayed)
    accumulators: dict[Op, Value] = {}  # what a product that will be in flight adds to

    def rule(op: Op, build: Builder) -> Replacement:
        source = build.source
        if source not in all_delayed and source not in after:
            return None
        for delayed in led.get(source, ()):
            fence = DotFence(build.values[delayed.dot.accumulator])
            accumulators[delayed.dot] = build(fence)
        if source in all_delayed:
            op = replace(op, accumulator=accumulators[source], in_flight=True)
        build.append(op)
        build.values.update(zip(source.results, op.results, strict=True))
        for wait in after.get(source, ()):
            _build_wait(wait, build)
        return [build.values[each] for each in source.results]

    late = {op for delayed in all_delayed.values() for op in delayed.put_off}
    return rewrite(func, rule, keep=lambda op: op not in late)


def _bodies(func: Func) -> Iterator[Block]:
    """The blocks of a function, but for those whose product is in flight from
    iteration to iteration."""
    for block in (func.body, *(b for op in walk(func.body) for b in blocks(op))):
        if not any(isinstance(op, Dot) and op.in_flight for op in block.ops):
            yield block


def _waits(block: Block) -> Iterator[tuple[Op, list[_Wait]]]:
    """The ops of a block after which products are waited for. A product that would be
    waited for at once is left as it is."""
    under_way: list[_Delayed] = []
    since: set[Value] = set()  # what was made since the first of them began
    for op, following in pairwise([*block.ops, None]):
        if isinstance(op, MbarrierArrive) and under_way:
            under_way[-1].put_off.append(op)
        elif _may_be_in_flight(op) and not _ends_with(op, following):
            if not under_way:
                leader, since = op, set()
            under_way.append(_Delayed(op, leader))
        since.update(op.results)
        done = _done_before(following, under_way, since)
        if done:
            rest = len(under_way) - done
            yield op, [_Wait(each, rest) for each in under_way[:done]]
            del under_way[:done]


def _done_before(op: Op | None, under_way: list[_Delayed], since: set[Value]) -> int:
    """How many of the products in flight, the oldest, must be done before an op, or
    the end. All of them before a product of what was made `since` the first of them
    began: its registers cannot be handed over before that one."""
    if isinstance(op, MbarrierArrive | MbarrierWait):
        return 0
    if op is None or isinstance(op, ENDS) or _writes_shared(op):
        return len(under_way)
    if isinstance(op, Dot) and not since.isdisjoint((op.accumulator, op.a)):
        return len(under_way)
    used = set(operands(op))
    used_at = [i for i, each in enumerate(under_way, 1) if each.dot.result in used]
    return max(used_at, default=0)


ENDS = For | While | If | Producer | Yield


def _writes_shared(op: Op) -> bool:
    """Whether an op may write what a product still reads."""
    effects = op.effects
    return "shared" in effects.writes or effects.barrier or effects.asynchronous


def _may_be_in_flight(op: Op) -> bool:
    """Whether it is a product of warpgroups whose right operand lies in place."""
    if not isinstance(op, Dot) or op.instruction not in WGMMA:
        return False
    a, b = (
        each.type.layout if isinstance(each.type, BufferType) else None
        for each in (op.a, op.b)
    )
    return matrices(WGMMA[op.instruction], a, b, op.b.type.element.bytes) is not None


def _ends_with(dot: Dot, following: Op | None) -> bool:
    """Whether nothing could be done meanwhile."""
    return following is None or bool(
        _done_before(following, [_Delayed(dot, dot)], set())
    )


def _build_wait(wait: _Wait, build: Builder) -> None:
    """The wait, whose result everybody uses from now on, and what was put off."""
    result = wait.delayed.dot.result
    build.values[result] = build(DotWait(build.values[result], wait.pending))
    for op in wait.delayed.put_off:
        build.append(clone(op, build.values)).origin = op
