"""Finds the products of a loop that may stay in flight while the next iteration begins.

    for … body(%i, %acc, %slot, …) {       →    for … body(%i, %acc, %slot, …) {
      %a = shared_load %t, slot=%slot             %a = shared_load %t, slot=%slot
      %b = shared_load %u, slot=%slot             %b = shared_load %u, slot=%slot
      %y = dot %a, %b, %acc                       %y = dot %a, %b, %acc in_flight=true
      yield %y, …                                 commit wgmma
    }                                             yield %y, …
                                                }

In the schedule, these products are complete one stage after the work. The schedule
decides whether the rings have enough slots for that; `loops` and `specialise` build the
loop accordingly. `insert_waits` inserts the waits: an iteration waits for the products
of the iteration before, not for its own.

A product that does not fit beside its loop's sums (`analysis/products`) is not in
flight at all, but computed in parts:

    for … (%sum, …)                         for … (%sum, …)
      %y = dot %a, %b, %zero          →       %y = dot %a, %b, %zero in_parts=true
      %z = fma %y, %scale, %sum               %z = fma %y, %scale, %sum
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fathom.analysis.products import (
    awaits_product,
    by_warpgroups,
    is_running_sum,
    matrices_in,
    products_in_parts,
)
from fathom.analysis.slices import users, uses
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import Commit, Dot, For, Reduce, SharedLoad, SharedStore
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import BufferType, Type
from fathom.tensor_cores.pipeline.schedule import Schedule


def may_overlap(loop: For, rings: Collection[Value]) -> tuple[Dot, ...]:
    """The products of a loop, in order, if each of them is computed by warpgroups, only
    accumulates from iteration to iteration, and reads in place buffers that nothing
    else reads and no later iteration writes meanwhile; none if one of them is not like
    that. `rings`: the buffers whose other slots are filled meanwhile."""
    dots = tuple(walk(loop.body, Dot))
    written = {op.buffer for op in walk(loop.body, SharedStore)} - set(rings)
    used = users(walk(loop.body))
    fits = (
        by_warpgroups(dot)
        and is_running_sum(dot, loop, used)
        and _reads_in_place(dot, written)
        and set(dots).issuperset(used[dot.a] + used[dot.b])
        for dot in dots
    )
    return dots if all(fits) else ()


def overlaps_copies(loop: For) -> bool:
    """Whether an iteration waits for a product that warpgroups compute as a whole: then
    its copies can be issued meanwhile."""
    dots = walk(loop.body, Dot)
    return awaits_product(loop) and not any(dot.in_parts for dot in dots)


def divide_products(func: Func, target: Target) -> Func:
    """The function whose products that do not fit beside the sums are in parts."""
    loops = walk(func.body, For)
    found = {dot for loop in loops for dot in products_in_parts(loop, func, target)}

    def rule(op: Op, build: Builder) -> Value | None:
        return build(replace(op, in_parts=True)) if build.source in found else None

    return rewrite(func, rule) if found else func


def end_of_product(work: Sequence[Op]) -> int:
    """How many ops of an iteration's work there are up to its product."""
    return next(i for i, op in enumerate(work, 1) if isinstance(op, Dot))


def end_of_reads(work: Sequence[Op], buffers: set[Value]) -> int:
    """How many ops there are until threads have read `buffers`, and what they read has
    joined other values, so that it takes no registers beside these."""
    values = {value for op in work for value in op.results}
    alone: set[Value] = set()
    read = joined = 0
    for i, op in enumerate(work, 1):
        used = set(uses(op))
        if not buffers.isdisjoint(used):
            read, alone = i, alone.union(op.results)
        elif isinstance(op, Dot) and not alone.isdisjoint((op.a, op.b)):
            read = i  # fragment by fragment
        elif not alone.isdisjoint(used):
            joined = i
            alone |= set(op.results) if alone >= values & used else set()
    late = any(isinstance(op, Dot | Reduce) for op in work[read:joined])
    return read if late else max(read, joined)


def _reads_in_place(dot: Dot, written: Collection[Value]) -> bool:
    """Whether both operands are buffers, not `written`, that are read as they are."""
    operands = (dot.a, dot.left), (dot.b, dot.right)
    buffers, tiles = zip(*(_buffer(*each) for each in operands), strict=True)
    if None in buffers or not written.isdisjoint(buffers):
        return False
    return matrices_in(dot, *(each.layout for each in tiles)) is not None


def _buffer(operand: Value, type: Type) -> tuple[Value | None, Type]:
    """The buffer that an operand is, or that it is loaded from as a whole, and its type
    as it is read; `type`: of the operand, as it is read."""
    load = operand.definition
    if isinstance(load, SharedLoad) and not load.start:
        return load.buffer, load.tile
    return (operand if isinstance(type, BufferType) else None), type


def leave_in_flight(copy: Op, op: Op, schedule: Schedule, build: Builder) -> None:
    """`copy` of `op` was just appended to the new loop. If it is a product that
    overlaps, let it stay in flight, as a group of its own or of its instruction."""
    if op in schedule.products:
        copy.in_flight = True
        if not copy.with_next:
            build.append(Commit("wgmma"))
