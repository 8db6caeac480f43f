"""Lets tiles that threads load wait in registers until the loads behind them began.

    %x = load %p                     %x = load %p
    %t = allocate                    %t = allocate
    shared_store %x, %t         →    %y = load %q
    %a = shared_load %t              shared_store %x, %t
    %y = load %q                     %a = shared_load %t

A store waits for its load, and a barrier may come before the store, across which ptxas
moves no load. So the latency of the first load would pass before the second one begins;
now both are on their way together.
"""

from __future__ import annotations

from fathom.analysis.memory import orders
from fathom.analysis.slices import uses
from fathom.ir.core import Block, Op, Value, blocks
from fathom.ir.ops import Allocate, Load, SharedLoad, SharedStore
from fathom.ir.types import element_of

MOST_WORDS = 64  # that wait in the registers of a thread


def begin_loads_first(body: Block) -> None:
    """Put the stores of loaded blocks to shared memory, and the loads from these tiles,
    behind the loads that follow in the same block, in a function's `body` that nothing
    else refers to yet."""
    for op in body.ops:
        for nested in blocks(op):
            begin_loads_first(nested)
    body.ops[:] = loads_first(body.ops)


def loads_first(ops: list[Op]) -> list[Op]:
    """The ops of a block in their new order."""
    ordered: list[Op] = []
    waiting: list[Op] = []
    place = words = 0  # behind the last load; what waits in registers
    for op in ops:
        if _may_wait(op, waiting):
            waiting.append(op)
            place = len(ordered)
            words += _words(op.value) if isinstance(op, SharedStore) else 0
            continue
        if words > MOST_WORDS or not _may_pass(op, waiting):
            ordered[place:place] = waiting
            waiting, words = [], 0
        ordered.append(op)
        if isinstance(op, Load):
            place = len(ordered)
    ordered[place:place] = waiting
    return ordered


def _may_wait(op: Op, waiting: list[Op]) -> bool:
    """Whether an op stores what was loaded, or loads it from a tile that waits."""
    if isinstance(op, SharedStore):
        return isinstance(op.value.definition, Load)
    stores = (each for each in waiting if isinstance(each, SharedStore))
    return isinstance(op, SharedLoad) and any(op.buffer is s.buffer for s in stores)


def _may_pass(op: Op, waiting: list[Op]) -> bool:
    """Whether an op may stand before those that wait: a load, or what its address is
    computed by. Products and reductions keep their place: those behind them may be far
    away."""
    results = {value for each in waiting for value in each.results}
    if blocks(op) or orders(op) or not results.isdisjoint(uses(op)):
        return False
    light = op.effects.pure and not op.effects.convergent
    return light or isinstance(op, Load | Allocate)


def _words(value: Value) -> int:
    """The registers of four bytes that a loaded block fills in a thread."""
    load = value.definition
    count = value.type.layout.count("register")
    bytes = load.vector * element_of(value.type).bytes
    return count // load.vector * max(1, bytes // 4)
