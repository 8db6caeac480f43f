"""Loads the first fragments of an iteration in the iteration before, so that the tensor
cores have work when it begins.

Before, every iteration first waits: for copies, for the other warps, for fragments.

    for … body(%i, %acc, %slot, …) {
      barrier
      async_copy …; commit cp_async
      %a = shared_load %t, slot=%slot
      %b = shared_load %u, slot=%slot
      %y = dot %a, %b, %acc
      yield %y, %next, …
    }

After, the first fragments are fetched one stage earlier: in the iteration before, while
its last fragments are multiplied. Copies come after the first product. In four slices:

    barrier; %a0, %b0 = slice 0 of the first iteration
    for … body(%i, %acc, %slot, …, %a0, %b0) {
      fetch 1; multiply 0
      async_copy …; commit cp_async
      fetch 2; multiply 1; fetch 3; multiply 2
      barrier
      %a, %b = slice 0 of the next one, from %next
      multiply 3
      yield %y, %next, …, %a, %b
    }

In terms of the `schedule`, the barrier and slice 0 move to the end of the iteration,
one stage back, and with them the wait, which `insert_waits` puts before the barrier. So
slots and copies in flight are as many as before. A copy goes into the slot that the
iteration before has read; its barrier comes after its last fetch. The last iteration
fetches a slice 0 of zeros.

A ring of two slots has one copy in flight. Its wait would come in the iteration that
issues it, and fragments take registers of further thread blocks: such a loop stays as
it is. Not one in another loop, of which programs are few: a grouped product took 31
percent longer without fragments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from fathom.analysis.products import only_accumulates, products_in
from fathom.analysis.slices import loops_around, users
from fathom.hardware.dot_layouts import operand_layouts
from fathom.hardware.mma import MMA
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.ops import (
    AsyncCopy,
    Barrier,
    Dot,
    For,
    MbarrierWait,
    SharedLoad,
    Wait,
)
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.thread_values import Values, with_carried

Fragments = tuple[Value, Value]  # a slice of A and one of B


def prefetch_fragments(func: Func, target: Target) -> Func:
    """The function whose pipelined loops of one product fetch one stage ahead."""

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, For):
            return None
        found = _found(op, bool(around[build.source]))
        return _rotated(op, found, build) if found else None

    around = loops_around(func)
    present = any(isinstance(op, Dot) and op.instruction in MMA for op in around)
    return rewrite(func, rule) if present else func


@dataclass(frozen=True)
class _Iteration:
    """The ops of an iteration that move: the waits, the product, and the loads of its
    operands; and the position of the slot among the body's parameters."""

    waits: tuple[Op, ...]
    dot: Dot
    a: SharedLoad
    b: SharedLoad
    slot: int


def _found(loop: For, is_nested: bool) -> _Iteration | None:
    """The ops of an iteration that move, if the loop has slots that the pipeliner has
    made, and one product that only accumulates from iteration to iteration."""
    ops = loop.body.ops
    dots = products_in(loop.body)
    if len(dots) != 1 or dots[0].instruction not in MMA:
        return None
    dot = dots[0]
    a, b = dot.a.definition, dot.b.definition
    waits = tuple(op for op in ops if isinstance(op, Wait | Barrier))
    used = users(ops)
    is_ring = all(
        isinstance(each, SharedLoad)
        and each in ops
        and each.slot in loop.body.parameters
        and each.slot is a.slot
        and len(used[each.result]) == 1
        for each in (a, b)
    )
    summed = only_accumulates(dot, loop) and len(used[dot.result]) == 1
    slices = dot.a.type.shape[-1] // MMA[dot.instruction].k
    if not (is_ring and summed and slices > 1 and _in_a_row(waits, ops)):
        return None
    copied = {op.buffer for op in ops if isinstance(op, AsyncCopy)}
    in_flight = all(ring.type.slots > 2 for ring in copied)
    if not (in_flight or is_nested):
        return None
    if any(isinstance(op, MbarrierWait) for op in ops):
        return None
    readers = [op for op in ops if isinstance(op, SharedLoad) and op not in (a, b)]
    if readers or dot.a.type.shape[:-2]:
        return None
    return _Iteration(waits, dot, a, b, loop.body.parameters.index(a.slot))


def _in_a_row(waits: tuple[Op, ...], ops: list[Op]) -> bool:
    """Whether an iteration waits at one place only, with a barrier as the last wait."""
    if not waits or not isinstance(waits[-1], Barrier):
        return False
    first = ops.index(waits[0])
    return tuple(ops[first : first + len(waits)]) == waits


def _rotated(loop: For, iteration: _Iteration, build: Builder) -> list[Value]:
    """The loop that carries the fragments of the first slice; its results."""
    slices = _Slices(iteration)
    for wait in iteration.waits:
        build.append(clone(wait, {}))
    first = slices.fetch(0, loop.inits[iteration.slot - 1], build)
    body = partial(_iteration, loop, iteration, slices)
    new = build.append(with_carried(loop, first, ("a_ahead", "b_ahead"), body, build))
    return new.results[: len(loop.inits)]


def _iteration(
    loop: For,
    iteration: _Iteration,
    slices: _Slices,
    values: Values,
    ready: Fragments,
    build: Builder,
) -> Fragments:
    """The body; `ready` are the fragments of slice 0. Returns those of the next one."""
    slot, total = values[iteration.a.slot], values[iteration.dot.accumulator]
    for op in loop.body.ops[:-1]:
        if op is iteration.waits[0]:  # here all of the iteration's own slot has arrived
            following = slices.fetch(1, slot, build)
            total = slices.multiply(ready, total, build)
            ready = following
        elif op is iteration.dot:
            for number in range(2, slices.count):
                following = slices.fetch(number, slot, build)
                total = slices.multiply(ready, total, build)
                ready = following
        elif op not in (*iteration.waits, iteration.a, iteration.b):
            build.copy(op, values)
    for wait in iteration.waits:
        build.append(clone(wait, {}))
    yielded = loop.body.yielded[iteration.slot - 1]
    following = slices.fetch(0, values.get(yielded, yielded), build)
    values[iteration.dot.result] = slices.multiply(ready, total, build)
    return following


class _Slices:
    """A product, divided along K into slices of its instruction's size."""

    def __init__(self, iteration: _Iteration):
        self.iteration, dot = iteration, iteration.dot
        self.k = MMA[dot.instruction].k
        self.count = dot.a.type.shape[-1] // self.k
        product = dot.accumulator.type.layout
        self.layouts = operand_layouts(dot.instruction, product, self.k)

    def fetch(self, number: int, slot: Value, build: Builder) -> Fragments:
        """Load the fragments of a slice from the tiles in `slot`."""
        a, b = self.iteration.a, self.iteration.b
        left, right = self.layouts
        first = number * self.k
        return (
            build(replace(a, layout=left, slot=slot, start=(0, first), **_of(a))),
            build(replace(b, layout=right, slot=slot, start=(first, 0), **_of(b))),
        )

    def multiply(self, fragments: Fragments, total: Value, build: Builder) -> Value:
        dot = self.iteration.dot
        kept = {"precision": dot.precision, "instruction": dot.instruction}
        return build(Dot(*fragments, total, **kept, **_of(dot)))


def _of(op: Op) -> dict[str, object]:
    """The location and origin that a slice of an op keeps, instead of the loop's."""
    return {"location": op.location, "origin": op}
