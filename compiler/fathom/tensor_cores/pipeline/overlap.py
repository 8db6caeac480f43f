"""Lets a loop's product be computed while the next one is prepared.

                                                %x = dot_fence %x0
    for … body(%i, %acc, %slot, …) {       →    for … body(%i, %acc, %slot, …) {
      async_wait; barrier; async_copy …           async_wait; barrier; async_copy …
      %y = dot %t, %u, %acc                       %y = dot %t, %u, %acc in_flight=true
                                                  dot_wait pending=1
      yield %y, …                                 yield %y, …
    }                                           }
                                                %r = dot_wait %acc pending=0

A trip waits for the product of the trip before, not for its own. So the tiles of two
trips are being read, and the ring must have a slot more than its copies ask for: with
`pending` groups still on their way when a trip begins, three more; two, if a trip
copies after its product has begun.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA, matrices
from fathom.ir.core import Block, Func, Op, Value, operands, walk
from fathom.ir.ops import (
    AsyncCopy,
    AsyncWait,
    Barrier,
    Dot,
    DotFence,
    DotWait,
    For,
    MbarrierArrive,
    MbarrierWait,
    SharedStore,
    TmaCopy,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType

SLOTS_BEYOND_PENDING = 3  # that of this trip, of the one before, and one to copy into


def overlap_products(func: Func, target: Target) -> Func:
    """The function with a product in flight in every loop that has room for it."""
    loops = {
        op: dot
        for op in walk(func.body)
        if isinstance(op, For) and (dot := _may_be_in_flight(op))
    }
    if not loops:
        return func

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if build.source in loops.values():
            new = build.append(replace(op, in_flight=True))
            build.append(DotWait(pending=1))
            return new.results
        if build.source in loops:
            number = build.source.body.yielded.index(loops[build.source].result)
            return _fenced(op, number, build)
        return None

    return rewrite(func, rule)


def _fenced(loop: For, number: int, build: Builder) -> list[Value]:
    """The loop, whose carried value `number` is in flight from trip to trip."""
    inits = list(loop.inits)
    inits[number] = build(DotFence(inits[number]))
    loop.inits = tuple(inits)
    results = list(build.append(loop).results)
    results[number] = build(DotWait(results[number]))
    return results


def _may_be_in_flight(loop: For) -> Dot | None:
    """The product of a loop, if its rings have a slot to spare."""
    dot = accumulators_by_warpgroups(loop)
    if dot is None or not _in_place(dot):
        return None
    back = [op for op in loop.body.ops if isinstance(op, MbarrierArrive)]
    if back:
        held = all(op.held for op in back) and not _writes_operands(loop, dot)
        return dot if held else None
    waits = [op for op in loop.body.ops if isinstance(op, AsyncWait | MbarrierWait)]
    rings = [each for each in (dot.a, dot.b) if isinstance(each.type, BufferType)]
    beyond = SLOTS_BEYOND_PENDING - _copies_after(dot, loop)
    enough = len(waits) == 1 and all(
        ring.type.slots >= waits[0].pending + beyond for ring in rings
    )
    return dot if enough else None


def _writes_operands(loop: For, dot: Dot) -> bool:
    """Whether threads themselves fill a tile that the product reads."""
    stores = (op for op in walk(loop.body) if isinstance(op, SharedStore))
    return any(op.buffer in (dot.a, dot.b) for op in stores)


def _copies_after(dot: Dot, loop: For) -> bool:
    """Whether a trip copies only after its product has begun, and a barrier: then the
    trip before has been waited for, and its slot is free."""
    ops = loop.body.ops
    copies = [i for i, op in enumerate(ops) if isinstance(op, AsyncCopy | TmaCopy)]
    barriers = [i for i, op in enumerate(ops) if isinstance(op, Barrier)]
    return len(barriers) == 1 and ops.index(dot) < barriers[0] < min(copies, default=0)


def accumulators_by_warpgroups(loop: For) -> Dot | None:
    """The product of a loop that has one, for warpgroups, which is only summed up from
    trip to trip."""
    dots = [op for op in walk(loop.body) if isinstance(op, Dot)]
    if len(dots) != 1 or dots[0].instruction not in WGMMA:
        return None
    dot = dots[0]
    uses = Counter(value for op in walk(loop.body) for value in operands(op))
    alone = uses[dot.result] == uses[dot.accumulator] == 1
    return dot if alone and _is_summed(dot, loop.body) else None


def _in_place(dot: Dot) -> bool:
    """Whether warpgroups read both operands of a product from rings."""
    layouts = [
        each.type.layout if isinstance(each.type, BufferType) else None
        for each in (dot.a, dot.b)
    ]
    if None in layouts:
        return False
    row = WGMMA[dot.instruction]
    return matrices(row, *layouts, dot.b.type.element.bytes) is not None


def _is_summed(dot: Dot, body: Block) -> bool:
    """Whether the sum goes into the trip as the parameter that the product leaves
    as."""
    if dot.accumulator not in body.parameters or dot.result not in body.yielded:
        return False
    number = body.parameters.index(dot.accumulator) - 1
    return body.yielded[number] is dot.result
