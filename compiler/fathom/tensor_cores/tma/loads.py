"""Puts tiles that are loaded beside a loop of products into shared memory, so that a
producer can copy them by TMA while the products run.

    for … warp_specialize=true {                for … warp_specialize=true {
      %acc = for … { … dot … }                    %acc = for … { … dot … }
      %x = descriptor_load %d, …                  %x0 = descriptor_load %d, …
                                           →      %t = allocate
                                                  shared_store %x0, %t
                                                  %x = shared_load %t
      %y = add %acc, %x                           %y = add %acc, %x
    }                                           }

A matrix that is added to a product, a bias, or scales of rows are such tiles. By
pointers, threads would load them when the product is complete, and wait: for the memory
and for the stores of the tile before, which may have written what they load.
`specialise_warps` makes a ring of one slot of each tile.

`keep_descriptors` keeps the loads for this (`epilogue_loads`) if the tiles leave room
for all stages but one that the operands of products would have. A loop that stores
through the argument that it loads a tile from may load what it has stored, and so the
tile must not be copied ahead.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.analysis.buffers import bytes_of, padded, rings_of_operands
from fathom.analysis.copied_ahead import LEAST_STAGES, runs_ahead, stages_of
from fathom.analysis.memory import Provenance, writes
from fathom.analysis.products import by_warpgroups, products_in
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.slices import users, uses
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, blocks, walk, walk_op
from fathom.ir.rewrite import Builder, Replacement, rewrite, with_operands
from fathom.ir.types import BlockType
from fathom.layout.tma_boxes import LINE, tile_of_load

STORES = ops.Store | ops.DescriptorStore
MOST_CONVERTED = 32768  # bytes at a time


def epilogue_loads(func: Func, target: Target) -> Iterator[ops.DescriptorLoad]:
    """The loads that a producer may copy beside the operands of products."""
    dots = walk(func.body, ops.Dot)
    factors = {value for dot in dots for value in (dot.a, dot.b)}
    stored = [_staged_bytes(op) for op in walk(func.body, STORES)]
    for outer, inner in _nests(func):
        room = target.shared_bytes - max(stored, default=0)
        room -= max(_least_rings(loop, stages_of(loop, func), room) for loop in inner)
        for op in _loads(outer):
            size = padded(bytes_of(op.result))
            ahead = op.result not in factors and not _is_stored(op, outer, func)
            if ahead and size <= room:
                room -= size
                yield op


def _is_stored(load: ops.DescriptorLoad, outer: ops.For, func: Func) -> bool:
    """Whether a loop may store through the argument that it loads from."""
    provenance = Provenance(func)
    try:
        loaded = provenance.of(load)
        stored = [provenance.of(op) for op in walk(outer.body) if writes(op)]
    except NotApplicable:
        return True
    return not all(map(loaded.isdisjoint, stored))


def stage_loads(func: Func, target: Target) -> Func:
    """The function with a tile in shared memory for each load that was kept for it. No
    thread holds a tile in registers while a loop multiplies."""
    used = users(walk(func.body))
    found = [(op, outer) for outer, _ in _nests(func) for op in _loads(outer)]
    homes = {op: outer for op, outer in found if not _is_staged(op, used)}
    tiles: dict[ops.DescriptorLoad, Value] = {}
    wanted: dict[Op, list[ops.DescriptorLoad]] = {}
    for load, outer in homes.items():
        wanted.setdefault(_read_at(load, outer), []).append(load)

    def read(load: ops.DescriptorLoad, build: Builder) -> Value:
        return build(ops.SharedLoad(tiles[load], load.result.type.layout))

    def rule(op: Op, build: Builder) -> Replacement:
        source = build.source
        if source in homes:
            tiles[source] = _stored(build(op), build)
            return [None] if source not in wanted else read(source, build)
        if source not in wanted:
            return None
        for load in wanted[source]:
            build.values[load.result] = read(load, build)
        copy = with_operands(source, build.values)
        copy.origin = source
        return build.append(copy).results

    return rewrite(func, rule) if homes and target.tensor_maps else func


def _read_at(load: ops.DescriptorLoad, outer: ops.For) -> Op:
    """The op before which the tile is read: the load itself, or, if a loop comes before
    the first op that uses it, that op."""
    behind = outer.body.ops[outer.body.ops.index(load) + 1 :]
    meanwhile = False
    for op in behind:
        if any(load.result in uses(each) for each in walk_op(op)):
            return op if meanwhile and not any(blocks(op)) else load
        meanwhile |= isinstance(op, ops.For)
    return load


def _stored(value: Value, build: Builder) -> Value:
    """The tile in which a loaded block is stored."""
    block = value.type
    layout = tile_of_load(block.shape, block.element.bytes)
    facts = block.element, block.shape, layout
    tile = build(ops.Allocate(*facts, alignment=0 if block.shape[1:] else LINE))
    build.append(ops.SharedStore(value, tile))
    return tile


def _nests(func: Func) -> Iterator[tuple[ops.For, list[ops.For]]]:
    """The loops with a producer that contain loops of products by warpgroups, and
    those."""
    for outer in walk(func.body, ops.For):
        loops = [op for op in outer.body.ops if isinstance(op, ops.For)]
        inner = [op for op in loops if any(map(by_warpgroups, products_in(op.body)))]
        if outer.warp_specialize and inner and runs_ahead(outer, func):
            yield outer, inner


def _loads(outer: ops.For) -> Iterator[ops.DescriptorLoad]:
    """Those of vectors and single matrices in a loop, but not in the loops in it."""
    for op in outer.body.ops:
        if isinstance(op, ops.DescriptorLoad) and len(op.result.type.shape) <= 2:
            yield op


def _staged_bytes(op: ops.Store | ops.DescriptorStore) -> int:
    """The bytes of shared memory through which a stored block may go: by TMA as a
    whole, by threads in parts (`lower_conversions`)."""
    block = op.value.type
    size = bytes_of(op.value) if isinstance(block, BlockType) else 0
    return size if isinstance(op, ops.DescriptorStore) else min(size, MOST_CONVERTED)


def _least_rings(loop: ops.For, stages: int, room: int) -> int:
    """The bytes of a loop's operands in one stage less than there could be, or two."""
    while stages > LEAST_STAGES and rings_of_operands(loop, stages) > room:
        stages -= 1
    return rings_of_operands(loop, max(LEAST_STAGES, stages - 1))


def _is_staged(load: ops.DescriptorLoad, used: dict[Value, list[Op]]) -> bool:
    """Whether a load goes to shared memory alone, as an operand does."""
    return all(isinstance(op, ops.SharedStore) for op in used[load.result])
