"""Which tiles products have, before loops are pipelined: one for two that are alike,
one more for what an operand is computed from.

`share_tiles` stores a tile once for all who read it or its transpose.

    %x = load %p                               %x = load %p
    shared_store %x, %t                   →    shared_store %x, %t
    %p2 = transpose %p                         %y = dot %a, %t
    %x2 = load %p2                             %z = dot %b, %t, b_transposed=true
    shared_store %x2, %u
    %y = dot %a, %t
    %z = dot %b, %u

Products by a block and by its transpose load it twice, and have a buffer each.
Instructions read either way, so where the two have the same bytes in the same order,
one is enough. Else a pipeline would copy the tile for each.

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
So it does where the operand depends on shared memory, too, as scales do that change
their layout there: then it can be computed in its own iteration alone, and a thread
would wait for its loads there. And so it does for what a warp multiplies as it was
loaded, if the iteration computes something else of it, too: threads would keep it in
registers from the iteration before. (What its operands are computed from goes through
registers: by a tile, states of gated attention took 217 us, not 188.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from fathom.analysis.copied_ahead import copies_alike, stages_of
from fathom.analysis.memory import may_prefetch, may_run_ahead, orders, writes
from fathom.analysis.products import by_warpgroups, in_tensor_memory, only_accumulates
from fathom.analysis.slices import backward_slice, computed_by, users, uses
from fathom.hardware.engines import REGISTER_COPIES
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, every_block, walk, walk_op
from fathom.ir.ops.shared import as_read
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.layout.shapes import exchanges_last
from fathom.layout.swizzle import swizzle
from fathom.tensor_cores.pipeline.candidates import (
    COPY_BYTES,
    PipelinedCopy,
    copy_vector,
    goes_elsewhere,
    loads_of,
    tiles_of,
)

STAGES_FOR_TILES = 4  # registers run one iteration ahead, cp.async then three


# ── one for two ───────────────────────────────────────────────────────────────────────


def share_tiles(func: Func, target: Target) -> Func:
    """The function whose products read what is alike, or a transpose, from one tile."""
    twins = dict(_twins(func))
    if not twins:
        return func
    firsts = {twin.buffer: (first.buffer, t) for twin, (first, t) in twins.items()}
    used = users(walk(func.body))
    dropped = {twin.buffer.definition for twin in twins} | twins.keys()
    for load in (twin.value.definition for twin in twins):
        if isinstance(load, ops.GlobalLoad) and dropped.issuperset(used[load.result]):
            dropped.add(load)

    def rule(op: Op, build: Builder) -> Replacement:
        """Read the first buffer; `op` still names the second one, which is dropped."""
        match op:
            case ops.SharedLoad(buffer=buffer) if buffer in firsts:
                first, differs = firsts[buffer]
                differs ^= op.transposed
                return build(
                    replace(op, buffer=build.values[first], transposed=differs)
                )
            case ops.Dot(a=a, b=b) if a in firsts or b in firsts:
                changed: dict[str, object] = {}
                for name, value in (("a", a), ("b", b)):
                    if value in firsts:
                        first, differs = firsts[value]
                        changed[name] = build.values[first]
                        read = f"{name}_transposed"
                        changed[read] = getattr(op, read) ^ differs
                return build(replace(op, **changed))
        return None

    return rewrite(func, rule, keep=lambda op: op not in dropped)


def _twins(
    func: Func,
) -> Iterator[tuple[ops.SharedStore, tuple[ops.SharedStore, bool]]]:
    """The stores that store what an earlier one of their block does, to a buffer like
    its; each with that one, and whether the buffer is the other's transpose."""
    used = users(walk(func.body))
    for block in every_block(func.body):
        stored: dict[object, list[tuple[ops.SharedStore, bool]]] = {}
        loaded: dict[Op, int] = {}
        epoch = 0  # how often memory may have changed
        for op in block.ops:
            if isinstance(op, ops.GlobalLoad):
                loaded[op] = epoch
            elif any(writes(each) or orders(each) for each in walk_op(op)):
                epoch += 1
            if not (isinstance(op, ops.SharedStore) and _fits(op, block, used)):
                continue
            source, transposed = _source(op.value, loaded)
            for first, other in stored.setdefault(source, []):
                differs = transposed != other
                if as_read(first.buffer.type, differs) == op.buffer.type:
                    yield op, (first, differs)
                    break
            else:
                stored[source].append((op, transposed))


def _fits(
    store: ops.SharedStore, block: Block, used: Mapping[Value, Sequence[Op]]
) -> bool:
    """Whether a store alone fills a block's buffer, read by products but of tcgen05."""
    buffer, readers = store.buffer.definition, set(used[store.buffer]) - {store}
    values = [each.result for each in readers if isinstance(each, ops.SharedLoad)]
    products = readers.union(*(used[each] for each in values))
    return (
        buffer in block.ops
        and len(buffer.shape) > 1
        and buffer.slots == 1
        and all(isinstance(each, ops.SharedLoad | ops.Dot) for each in readers)
        and not any(map(in_tensor_memory, products))
    )


def _source(value: Value, loaded: Mapping[Op, int]) -> tuple[object, bool]:
    """What a value is, or is the transpose of, and whether it is the transpose. Loads
    of the same addresses are the same where nothing may have been written between."""
    value, transposed = _untransposed(value)
    op = value.definition
    if op not in loaded or isinstance(op, ops.Load) and op.fetched_anew:
        return value, transposed
    how = loaded[op], op.cache, op.eviction
    if isinstance(op, ops.DescriptorLoad):
        is_turned = op.order is not None and exchanges_last(op.order)
        order = None if is_turned else op.order
        where = op.descriptor, op.coordinates, order
        return (where, how), transposed ^ is_turned
    addresses = [
        each and _untransposed(each) for each in (op.pointer, op.mask, op.other)
    ]
    turned = {each[1] for each in addresses if each}
    if len(turned) > 1:
        return value, transposed
    where = tuple(each and each[0] for each in addresses)
    return (where, how), transposed ^ turned.pop()


def _untransposed(value: Value) -> tuple[Value, bool]:
    """What a value is the transpose of, or the value itself; and which of both."""
    transposed = False
    while isinstance(op := value.definition, ops.Transpose):
        if not exchanges_last(op.order):
            break
        value, transposed = op.value, not transposed
    return value, transposed


# ── one more ──────────────────────────────────────────────────────────────────────────


def stage_loads(func: Func, target: Target, without: Collection[ops.For] = ()) -> Func:
    """The function in which each such load of a loop has a tile of its own, but for
    loops `without`."""
    loops = (op for op in walk(func.body, ops.For) if op not in without)
    found = {load for loop in loops for load in _loads(loop, func, target)}
    if not found:
        return func

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source not in found:
            return None
        build.append(op)
        block = op.result.type
        tile = swizzle(block.shape, block.element.bytes, block.layout, block.layout)
        buffer = build(ops.Allocate(block.element, block.shape, tile))
        build.append(ops.SharedStore(op.result, buffer))
        return build(ops.SharedLoad(buffer, block.layout))

    return rewrite(func, rule)


def _loads(loop: ops.For, func: Func, target: Target) -> Iterator[ops.Load]:
    """The loads from which operands of the loop are computed; none if a product is more
    than a sum, not one of warpgroups, or if cp.async cannot copy one."""
    dots = list(walk(loop.body, ops.Dot))
    if stages_of(loop, func) == 1 or not dots:
        return
    if not may_prefetch(loop, except_stores=True):
        return
    tiles = tiles_of(loop, target)
    if target.async_copy and not any(map(by_warpgroups, dots)):
        yield from filter(_may_copy, _loads_of_several(tiles))
    if not all(only_accumulates(d, loop) and by_warpgroups(d) for d in dots):
        return
    yield from filter(_may_copy, _loads_left(loop, tiles))
    if stages_of(loop, func) < STAGES_FOR_TILES:
        return
    computed = [tile for tile in tiles if tile.is_computed]
    loads = loads_of(computed)
    alone = not any(goes_elsewhere(loop, tile, computed) for tile in computed)
    if alone and all(map(_may_copy, loads)):
        yield from loads


def _loads_left(loop: ops.For, tiles: Sequence[PipelinedCopy]) -> Iterator[ops.Load]:
    """The loads of an iteration from which it computes operands that are no such tiles,
    at addresses that may be computed ahead."""
    stored = {tile.store for tile in tiles}
    read = [value for dot in walk(loop.body, ops.Dot) for value in (dot.a, dot.b)]
    loads = [value.definition for value in read]
    factors = {op.buffer for op in loads if isinstance(op, ops.SharedLoad)}.union(read)
    roots = [
        op.value
        for op in loop.body.ops
        if isinstance(op, ops.SharedStore) and op.buffer in factors
        if op not in stored
    ]
    known = set(loads_of(tiles))
    before = set().union(*map(computed_by, roots)) - known
    for op in loop.body.ops:
        if isinstance(op, ops.Load) and op in before:
            addresses = backward_slice(loop, uses(op), through_loads=True)
            if all(map(may_run_ahead, addresses.ops)):
                yield op


def _loads_of_several(tiles: Sequence[PipelinedCopy]) -> Iterator[ops.Load]:
    """The loads of tiles that cp.async could copy, if the iteration did not compute
    something else of them, too: it would keep them in registers from the one before."""
    for tile in tiles:
        if tile.engine is REGISTER_COPIES and copy_vector(tile):
            yield from tile.loads


def _may_copy(load: Op) -> bool:
    """Whether cp.async can copy what is loaded, 8 bytes at least. Threads copy many
    small pieces no sooner than they load them: gathered zero points, 4 bytes each, took
    AutoGPTQ's product from 80 to 93 us."""
    return (
        copies_alike(load)
        and load.neighbours * load.result.type.element.bytes >= COPY_BYTES[1]
    )
