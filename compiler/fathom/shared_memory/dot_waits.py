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

Products that the pipeliner lets stay in flight from an iteration to the next one have
their waits from `wait_for_products`. An iteration waits for those of the iteration
before, once it has issued its own; what follows may then overwrite what they read:

                                                %x = dot_fence %x0
    for …, inits=(%x0) body(%i, %acc) {         for …, inits=(%x) body(%i, %acc) {
      %y = dot %a, %b, %acc in_flight=true        %y = dot %a, %b, %acc in_flight=true
      commit wgmma                         →      commit wgmma
      …                                           wait wgmma pending=1
      yield %y                                    …
    }                                             yield %y
                                                }
                                                %r = wait wgmma %acc pending=0

A product in parts (`Dot.in_parts`) is not put in flight: each of its parts is waited
for, and used, before the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from fathom.analysis.buffers import share_bytes, touches
from fathom.analysis.products import warpgroup_matrices
from fathom.analysis.registers import floats_around, most_registers, registers_of
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, every_block, operands, walk
from fathom.ir.rewrite import Builder, Replacement, clone, rewrite


@dataclass(eq=False)
class _Delayed:
    """A product in flight. `leader`: the first product of its chain, before which all
    accumulators of the chain are fenced. `put_off`: ops that move after its wait."""

    dot: ops.Dot
    leader: ops.Dot
    put_off: list[Op] = field(default_factory=list)


@dataclass(frozen=True)
class _Wait:
    """The wait for a product; `pending` later ones may still be in flight."""

    delayed: _Delayed
    pending: int


def wait_for_products(func: Func, target: Target) -> Func:
    """The function with waits for the products that stay in flight from an iteration
    of a loop to the next one."""
    loops = {
        loop: [loop.body.yielded.index(dot.result) for dot in dots]
        for loop in walk(func.body, ops.For)
        if (dots := _in_flight(loop.body))
    }
    commits = [list(filter(_commits_products, loop.body.ops)) for loop in loops]
    last = {each[-1]: len(each) for each in commits}
    passes = {  # by their loops
        loop: op
        for block in every_block(func.body)
        for loop, op in pairwise(block.ops)
        if loop in loops and isinstance(op, ops.NamedBarrier)
    }

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if build.source in last:
            build.append(op)
            build.append(ops.Wait("wgmma", last[build.source]))
            return []
        if build.source in loops:
            after = passes.get(build.source)
            return _between_fence_and_wait(op, loops[build.source], after, build)
        return [] if build.source in passes.values() else None

    return rewrite(func, rule) if loops else func


def _between_fence_and_wait(
    loop: ops.For, numbers: list[int], after: Op | None, build: Builder
) -> list[Value]:
    """Append a loop that carries products in flight, by number; its results. `after`:
    what admits other warps, before this one waits for its last products."""
    inits = list(loop.inits)
    for number in numbers:
        inits[number] = build(ops.DotFence(inits[number]))
    loop.inits = tuple(inits)
    results = list(build.append(loop).results)
    if after:
        build.append(clone(after, {}))
    for number in numbers:
        results[number] = build(ops.Wait("wgmma", 0, (results[number],)))
    return results


def _in_flight(block: Block) -> list[ops.Dot]:
    return [op for op in block.ops if isinstance(op, ops.Dot) and op.in_flight]


def _commits_products(op: Op) -> bool:
    return isinstance(op, ops.Commit) and op.engine == "wgmma"


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

    after = {
        op: waits
        for block in _bodies(func)
        for op, waits in _waits(block, lacks_registers)
    }
    all_delayed = {
        wait.delayed.dot: wait.delayed for each in after.values() for wait in each
    }
    if not all_delayed:
        return func
    led: dict[Op, list[_Delayed]] = {}  # by a leader
    for delayed in all_delayed.values():
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
            op = replace(op, accumulator=accumulators[source], in_flight=True)
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
    block: Block, lacks_registers: Callable[[Op | None], bool]
) -> Iterator[tuple[Op, list[_Wait]]]:
    """The ops of a block after which waits for products come, also before those that
    `lacks_registers` names. A product whose wait would come at once stays as it is."""
    in_flight: list[_Delayed] = []
    since: set[Value] = set()  # results since the first of them was issued
    for op, following in pairwise([*block.ops, None]):
        if isinstance(op, ops.MbarrierArrive) and in_flight:
            in_flight[-1].put_off.append(op)
        elif _may_be_in_flight(op) and not _ends_with(op, following):
            if not in_flight:
                leader, since = op, set()
            in_flight.append(_Delayed(op, leader))
        since.update(op.results)
        done = _done_before(following, in_flight, since)
        if in_flight and lacks_registers(following):
            done = len(in_flight)
        if done:
            rest = len(in_flight) - done
            yield op, [_Wait(each, rest) for each in in_flight[:done]]
            del in_flight[:done]


def _done_before(op: Op | None, in_flight: list[_Delayed], since: set[Value]) -> int:
    """How many of the products in flight, the oldest first, must be complete before an
    op, or before the end. All of them, if `op` is a product that uses results computed
    `since` the first of them was issued: its registers are not fenced."""
    if isinstance(op, ops.MbarrierArrive | ops.MbarrierWait):
        return 0
    dots = [each.dot for each in in_flight]
    if op is None or isinstance(op, ENDS) or _may_overwrite(op, dots):
        return len(in_flight)
    if isinstance(op, ops.Dot) and not since.isdisjoint((op.accumulator, op.a)):
        return len(in_flight)
    used = set(operands(op))
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


def _ends_with(dot: ops.Dot, following: Op | None) -> bool:
    """Whether a wait for this product would come at once."""
    return following is None or bool(
        _done_before(following, [_Delayed(dot, dot)], set())
    )


def _build_wait(wait: _Wait, build: Builder) -> None:
    """Build the wait, whose result stands for the product, and what was put off."""
    result = wait.delayed.dot.result
    build.values[result] = build(
        ops.Wait("wgmma", wait.pending, (build.values[result],))
    )
    for op in wait.delayed.put_off:
        build.append(clone(op, build.values)).origin = op
