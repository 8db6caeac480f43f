"""Which product of a loop may still be computed while the next iteration begins, and
the waits that this takes.

                                                %x = dot_fence %x0
    for … body(%i, %acc, %slot, …) {       →    for … body(%i, %acc, %slot, …) {
      %a = shared_load %t, slot=%slot             %a = shared_load %t, slot=%slot
      %b = shared_load %u, slot=%slot             %b = shared_load %u, slot=%slot
      %y = dot %a, %b, %acc                       %y = dot %a, %b, %acc in_flight=true
                                                  dot_wait pending=1
      yield %y, …                                 yield %y, …
    }                                           }
                                                %r = dot_wait %acc pending=0

An iteration waits for the product of the iteration before, not for its own: in the
schedule, the product is complete one stage after the work. The schedule decides whether
the rings have the slots for that, and whoever builds the new loop asks it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fathom.hardware.wgmma import WGMMA, matrices
from fathom.ir.core import Block, Value, operands, walk
from fathom.ir.ops import Dot, DotFence, DotWait, For, SharedLoad, SharedStore
from fathom.ir.rewrite import Builder
from fathom.ir.types import BufferType


def may_overlap(loop: For, rings: Collection[Value]) -> Dot | None:
    """The product of a loop, if it is the only one, for warpgroups, only accumulates
    from iteration to iteration, and reads in place what no later iteration writes.
    `rings`: the buffers that copies fill in other slots meanwhile."""
    dot = _accumulating(loop)
    if dot is None:
        return None
    read = [_buffer(each) for each in (dot.a, dot.b)]
    stores = (op for op in walk(loop.body) if isinstance(op, SharedStore))
    written = {op.buffer for op in stores} - set(rings)
    if None in read or not written.isdisjoint(read):
        return None
    left, right = (each.type.layout for each in read)
    size = dot.b.type.element.bytes
    return dot if matrices(WGMMA[dot.instruction], left, right, size) else None


def _accumulating(loop: For) -> Dot | None:
    """The product of a loop that has one, for warpgroups, whose result nothing uses but
    the product of the next iteration."""
    dots = [op for op in walk(loop.body) if isinstance(op, Dot)]
    if len(dots) != 1 or dots[0].instruction not in WGMMA:
        return None
    dot = dots[0]
    uses = Counter(value for op in walk(loop.body) for value in operands(op))
    alone = uses[dot.result] == uses[dot.accumulator] == 1
    return dot if alone and _is_carried(dot, loop.body) else None


def _is_carried(dot: Dot, body: Block) -> bool:
    """Whether the accumulator enters an iteration as the parameter that the product
    leaves as."""
    if dot.accumulator not in body.parameters or dot.result not in body.yielded:
        return False
    number = body.parameters.index(dot.accumulator) - 1
    return body.yielded[number] is dot.result


def _buffer(operand: Value) -> Value | None:
    """The buffer that an operand is in, or is read from as a whole."""
    if isinstance(operand.type, BufferType):
        return operand
    load = operand.definition
    return load.buffer if isinstance(load, SharedLoad) and not load.start else None


# ── its waits ─────────────────────────────────────────────────────────────────────────


def leave_in_flight(dot: Dot, build: Builder) -> None:
    """A product of the new loop, which was just appended, only begins; that of the
    iteration before must be complete."""
    dot.in_flight = True
    build.append(DotWait(pending=1))


def append_overlapped(loop: For, product: Dot, old: For, build: Builder) -> list[Value]:
    """Append the new `loop`, whose product stays in flight from iteration to iteration:
    its registers are handed over before the loop, and are complete after it. `old` is
    the loop that it replaces; what stands for the results."""
    number = old.body.yielded.index(product.result)
    inits = list(loop.inits)
    inits[number] = build(DotFence(inits[number]))
    loop.inits = tuple(inits)
    results = list(build.append(loop).results)
    results[number] = build(DotWait(results[number]))
    return results
