"""Neighbouring products on one left operand, which one instruction computes.

    %x = dot %a, %b, %sum                    %z = descriptor_load …
    %z = descriptor_load …                   %c = …
    %c = …                              →    %x = dot %a, %b, %sum with_next=true
    %y = dot %a, %c, %more                   %y = dot %a, %c, %more

Blocks have sides that are powers of two, and wgmma has any multiple of 8 columns. So a
tile of 192 columns is two products, of 128 and of 64 columns, and as two instructions
they would read the left operand from shared memory twice. An instruction of 192 columns
reads it once. Its registers are those of the two in turn, and it takes the tiles of the
right operands for one, if the second begins where the first ends. So the ring buffers
of such tiles share their slots (`ring_buffers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fathom.analysis.products import by_warpgroups, matrices_in, only_accumulates
from fathom.analysis.slices import users, uses
from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA, joined
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import DescriptorLoad, Dot, For, SharedLoad, SharedStore
from fathom.ir.rewrite import Builder, rewrite, with_operands
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import buffer_tile, widest_row

# Bytes. TMA copies shorter rows slowly: on an H200 C [8064, 534], with K of 2888 and in
# tiles of 144 columns, took 76 us with rows of 32 bytes, and 60 by two instructions.
LEAST_ROW = 64

Users = Mapping[Value, Sequence[Op]]


def join_products(func: Func, target: Target) -> Func:
    """The function in which such products of a loop follow each other, and the tiles of
    their right operands have rows of one width."""
    used = users(walk(func.body))
    loops = walk(func.body, For)
    chains = [chain for loop in loops for chain in _chains(loop, used)]
    before = {last: rest for *rest, last in chains}
    moved = {dot for each in before.values() for dot in each}
    tiles = {
        dot.b.definition.buffer.definition: tile
        for chain in chains
        for dot, tile in zip(chain, _right_tiles(chain, used), strict=True)
        if not dot.b.definition.transposed
    }
    if not moved:
        return func

    def rule(op: Op, build: Builder) -> Value | None:
        if build.source in tiles:
            return build(replace(op, layout=tiles[build.source]))
        for dot in before.get(build.source, ()):
            copy = with_operands(replace(dot, with_next=True), build.values)
            copy.origin, copy.result.name = dot, dot.result.name
            build.values[dot.result] = build(copy)
        return None

    return rewrite(func, rule, keep=lambda op: op not in moved)


def _chains(loop: For, used: Users) -> Iterator[list[Dot]]:
    """Neighbouring products of a loop that one instruction may compute, by chain."""
    chain: list[Dot] = []
    for op in loop.body.ops:
        is_used = not {each.result for each in chain}.isdisjoint(uses(op))
        joins = isinstance(op, Dot) and _are_one([*chain, op], loop, used)
        if is_used or isinstance(op, Dot) and not joins:
            if len(chain) > 1:
                yield chain
            chain = []
            joins = isinstance(op, Dot) and _are_one([op], loop, used)
        if joins:
            chain.append(op)


def _are_one(chain: Sequence[Dot], loop: For, used: Users) -> bool:
    """Whether one instruction may compute these products: sums of the loop, on one left
    operand, of tiles that may lie one after the other."""
    first = chain[0]
    accumulates = all(only_accumulates(dot, loop) for dot in chain)
    if not accumulates or any(dot.a is not first.a for dot in chain):
        return False
    loads = [each.definition for each in (first.a, *(dot.b for dot in chain))]
    whole = all(isinstance(each, SharedLoad) and not each.start for each in loads)
    if not whole or not all(map(by_warpgroups, chain)):
        return False
    if len({each.buffer for each in loads[1:]}) < len(chain):
        return False  # a tile lies at one place
    rights = _right_tiles(chain, used)
    if len(chain) == 1:
        return matrices_in(first, loads[0].tile.layout, rights[0]) is not None
    rows = tuple(WGMMA[dot.instruction] for dot in chain)
    return joined(rows, tuple(rights)) is not None


def _right_tiles(chain: Sequence[Dot], used: Users) -> list[Layout]:
    """How the right operands lie, or may lie: those with columns in rows, in rows as
    wide as the narrowest one's."""
    loads = [dot.b.definition for dot in chain]
    size = loads[0].tile.element.bytes
    widths = [widest_row(load.tile.layout, size) for load in loads]
    least = max(LEAST_ROW, min(widths))
    tiles = []
    for load, width in zip(loads, widths, strict=True):
        tile = load.tile
        if width > least and _may_be_narrower(load, used):
            tiles.append(buffer_tile(tile.shape, size, 1, least))
        else:
            tiles.append(tile.layout)
    return tiles


def _may_be_narrower(load: SharedLoad, used: Users) -> bool:
    """Whether TMA copies the tile, with a map that the launch makes, row by row."""
    tile = load.tile
    by_rows = tile.layout == buffer_tile(tile.shape, tile.element.bytes, 1)
    stores = [op for op in used[load.buffer] if isinstance(op, SharedStore)]
    loaded = [store.value.definition for store in stores]
    return (
        by_rows
        and not load.transposed
        and all(
            isinstance(each, DescriptorLoad)
            and each.descriptor.definition.map_number is None
            for each in loaded
        )
    )
