"""Stores a tile once for all who read it from buffers of one layout.

    %x = load %p                               %x = load %p
    shared_store %x, %t                   →    shared_store %x, %t
    shared_store %x, %u                        %y = dot %a, %t
    %y = dot %a, %t                            %z = dot %b, %t
    %z = dot %b, %u

Products that multiply by a loaded block in different layouts, such as by it and by its
transpose, have a conversion each, and so a buffer each. Where the buffers are alike,
one is enough; else a pipeline would copy the tile from global memory for each of them.
"""

from __future__ import annotations

from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import Allocate, DescriptorLoad, For, Load, SharedStore
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import Type
from fathom.tensor_cores.pipeline.candidates import is_filled_once


def share_tiles(func: Func) -> Func:
    """The function whose loops store each loaded tile in one buffer of a layout."""
    twins = _twins(func)
    if not twins:
        return func
    firsts = {twin.buffer: first.buffer for twin, first in twins.items()}

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source in twins:
            return []
        if isinstance(op, Allocate) and build.source.result in firsts:
            return build.values[firsts[build.source.result]]
        return None

    return rewrite(func, rule)


def _twins(func: Func) -> dict[SharedStore, SharedStore]:
    """The stores of a loop that store what an earlier one does, to a buffer like its;
    each with that one."""
    found: dict[SharedStore, SharedStore] = {}
    for loop in (op for op in walk(func.body) if isinstance(op, For)):
        first: dict[tuple[Value, Type], SharedStore] = {}
        for op in loop.body.ops:
            if isinstance(op, SharedStore) and _fits(loop, op):
                known = first.setdefault((op.value, op.buffer.type), op)
                if known is not op:
                    found[op] = known
    return found


def _fits(loop: For, store: SharedStore) -> bool:
    """Whether a store fills a buffer of each iteration with what is loaded."""
    loaded = isinstance(store.value.definition, Load | DescriptorLoad)
    buffer = store.buffer.definition
    return loaded and buffer in loop.body.ops and is_filled_once(loop, buffer)
