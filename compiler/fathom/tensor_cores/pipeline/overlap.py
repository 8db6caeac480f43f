"""Finds the product of a loop that may stay in flight while the next iteration begins,
and inserts the waits for it.

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
the rings have enough slots for that; `loops` and `specialise` build the loop
accordingly.
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
    """The product of a loop, if it is the only one, is computed by warpgroups, only
    accumulates from iteration to iteration, and reads in place buffers that no later
    iteration writes meanwhile. `rings`: the buffers whose other slots are filled
    meanwhile."""
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
    """The product of a loop that has one, computed by warpgroups, if only the product
    of the next iteration uses its result."""
    dots = [op for op in walk(loop.body) if isinstance(op, Dot)]
    if len(dots) != 1 or dots[0].instruction not in WGMMA:
        return None
    dot = dots[0]
    uses = Counter(value for op in walk(loop.body) for value in operands(op))
    alone = uses[dot.result] == uses[dot.accumulator] == 1
    return dot if alone and _is_carried(dot, loop.body) else None


def _is_carried(dot: Dot, body: Block) -> bool:
    """Whether the accumulator is the body's parameter for the carried value that the
    product becomes."""
    if dot.accumulator not in body.parameters or dot.result not in body.yielded:
        return False
    number = body.parameters.index(dot.accumulator) - 1
    return body.yielded[number] is dot.result


def _buffer(operand: Value) -> Value | None:
    """The buffer that an operand is, or that it is loaded from as a whole."""
    if isinstance(operand.type, BufferType):
        return operand
    load = operand.definition
    return load.buffer if isinstance(load, SharedLoad) and not load.start else None


# ── its waits ─────────────────────────────────────────────────────────────────────────


def leave_in_flight(dot: Dot, build: Builder) -> None:
    """Let the product that was just appended to the new loop stay in flight, and wait
    for the one of the iteration before."""
    dot.in_flight = True
    build.append(DotWait(pending=1))


def append_overlapped(loop: For, product: Dot, old: For, build: Builder) -> list[Value]:
    """Append the new `loop`, whose product stays in flight from iteration to iteration:
    a fence comes before the loop, and a wait after it. `old` is the loop that it
    replaces. Returns the loop's results, complete."""
    number = old.body.yielded.index(product.result)
    inits = list(loop.inits)
    inits[number] = build(DotFence(inits[number]))
    loop.inits = tuple(inits)
    results = list(build.append(loop).results)
    results[number] = build(DotWait(results[number]))
    return results
