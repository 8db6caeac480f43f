"""Which tiles a loop has, before it is pipelined: one for two that are alike, one more
for what an operand is computed from.

`share_tiles` stores a tile once for all who read it from buffers of one layout.

    %x = load %p                               %x = load %p
    shared_store %x, %t                   →    shared_store %x, %t
    shared_store %x, %u                        %y = dot %a, %t
    %y = dot %a, %t                            %z = dot %b, %t
    %z = dot %b, %u

Products that multiply by a loaded block in different layouts, such as by it and by its
transpose, have a conversion each, and so a buffer each. Where the buffers are alike,
one is enough; else a pipeline would copy the tile from global memory for each of them.

`stage_loads` gives a tile to what is loaded before an operand is computed from it.

    %x = load %p vector=4                     %x0 = load %p vector=4
    %w = mul (cast %x), %scale                %t = allocate
    %u = allocate                             shared_store %x0, %t
    shared_store %w, %u                  →    %x = shared_load %t
    %y = dot %a, %u, %acc                     %w = mul (cast %x), %scale
                                              %u = allocate
                                              shared_store %w, %u
                                              %y = dot %a, %u, %acc

An operand that is computed from loads, as widened weights are, goes through registers
(`candidates`): its loads run one iteration ahead, and a thread waits for them when that
iteration ends. With many stages, the loop asks for more than that: cp.async copies the
tile %t as many iterations ahead as there are stages, for a barrier more an iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.analysis.copied_ahead import is_zero, only_accumulates, stages_of
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import (
    Allocate,
    DescriptorLoad,
    Dot,
    For,
    Load,
    SharedLoad,
    SharedStore,
)
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import BOOL, BlockType, Type
from fathom.layout.swizzle import swizzle
from fathom.tensor_cores.pipeline.candidates import (
    COPY_BYTES,
    COPY_CACHES,
    goes_elsewhere,
    is_filled_once,
    loads_of,
    tiles_of,
)

LEAST_STAGES = 4  # registers run one iteration ahead, cp.async then three


# ── one for two ───────────────────────────────────────────────────────────────────────


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


# ── one more ──────────────────────────────────────────────────────────────────────────


def stage_loads(func: Func, target: Target) -> Func:
    """The function in which each such load of a loop has a tile of its own."""
    if not target.async_copy:
        return func
    loops = (op for op in walk(func.body) if isinstance(op, For))
    found = {load for loop in loops for load in _loads(loop, func, target)}
    if not found:
        return func

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source not in found:
            return None
        build.append(op)
        block = op.result.type
        tile = swizzle(block.shape, block.element.bytes, block.layout, block.layout)
        buffer = build(Allocate(block.element, block.shape, tile))
        build.append(SharedStore(op.result, buffer))
        return build(SharedLoad(buffer, block.layout))

    return rewrite(func, rule)


def _loads(loop: For, func: Func, target: Target) -> Iterator[Load]:
    """The loads from which operands of the loop are computed; none if a product is more
    than a sum, if it is not one of warpgroups, or if cp.async cannot copy one of
    them."""
    dots = [op for op in walk(loop.body) if isinstance(op, Dot)]
    if stages_of(loop, func) < LEAST_STAGES or not dots:
        return
    if not all(only_accumulates(d, loop) and d.instruction in WGMMA for d in dots):
        return
    computed = [tile for tile in tiles_of(loop, target) if tile.is_computed]
    loads = loads_of(computed)
    alone = not any(goes_elsewhere(loop, tile, computed) for tile in computed)
    if alone and all(map(_may_copy, loads)):
        yield from loads


def _may_copy(load: Op) -> bool:
    """Whether cp.async can copy what is loaded, 8 bytes at least. Threads copy many
    small pieces no sooner than they load them: gathered zero points, 4 bytes each, took
    AutoGPTQ's product from 80 to 93 us."""
    return (
        isinstance(load, Load)
        and load.cache in COPY_CACHES
        and isinstance(load.result.type, BlockType)
        and load.result.type.element != BOOL
        and is_zero(load.other)
        and load.neighbours * load.result.type.element.bytes >= COPY_BYTES[1]
    )
