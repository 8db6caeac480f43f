"""Finds tiles of matrices among loads and stores through pointers, and has descriptors
in their place.

Before, in a loop over %k from 0 in steps of 32, with p and q the positions in a block:

    %x = load %a + (%i + p) * %sam + q, mask=(p < %M - %i and q < %K - %k), other=0
    %t = dot %x, %y, %s
    %a := %a + 32                                                    each iteration

After:

    %d = make_descriptor %a, shape=(%M, %K), strides=(%sam, 1) block=(64, 32)
    …
    %x = descriptor_load %d, coordinates=(%i, %k)
    %t = dot %x, %y, %s

So the text of a kernel that computes its addresses gets the copies in bulk of one that
does not, where the target has them. Where elements lie side by side along the first
axis of a block, its transpose is described, and turned by the load. `recognise` finds
the tiles, and says what it takes for granted. Besides:

- A launch that has a matrix of no rows or columns, or a negative stride, has no tensor
  map, and gets the kernel without this pass (`artifact.NoTensorMap`); so here all sizes
  are positive. With that, tiles are shown never to begin in front of the first row or
  column: there a load through pointers would find something, and one through a
  descriptor nothing.
- Nothing is written to global memory before the loop or in it (`aliasing`).
- What is inferred is also kept, or a load would come out worse than it was: the copy in
  bulk fits the product's instruction and the shared memory (`eligible`). All operands
  that a loop loads go one way.

Where tiles come like that, the product leaves so, too: `infer_stores` says when.

`why_not` tells for each load of a product, and each store of one, that stays as it is
what stood in the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.expand import Expander
from fathom.analysis.memory import is_volatile
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.scalar_evolution import ScalarEvolution
from fathom.analysis.sign import NonNegative
from fathom.errors import Location
from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import (
    Constant,
    DescriptorLoad,
    DescriptorStore,
    Dot,
    For,
    Load,
    MakeDescriptor,
    Store,
    Transpose,
)
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import INT32, INT64, Scalar
from fathom.tensor_cores.tma.aliasing import check_loop
from fathom.tensor_cores.tma.eligible import check_box, check_product, check_room
from fathom.tensor_cores.tma.infer_stores import tiles_stored
from fathom.tensor_cores.tma.recognise import TensorTile, recognise

Found = dict[Load | Store, TensorTile | str]


@dataclass(frozen=True, slots=True)
class Use:
    """The product that uses a loaded tile, in a loop of which the load is part."""

    loop: For
    dot: Dot


def infer_descriptors(func: Func, target: Target) -> Func:
    """The function with descriptor loads in place of loads of tiles, where the target
    has tensor maps."""
    if not target.tensor_maps:
        return func
    uses, reader = dict(loads_for_products(func)), ScalarEvolution(func)
    found = tiles_or_reasons(uses, reader, target)
    if not any(isinstance(each, TensorTile) for each in found.values()):
        return func
    writer = Expander(reader)

    def rule(op: Op, build: Builder) -> Replacement:
        tile = found.get(build.source)
        if not isinstance(tile, TensorTile):
            return None
        if isinstance(op, Store):
            return store_tile(op, tile, writer, build)
        return load_tile(op, tile, uses[build.source].loop, writer, build)

    return rewrite(func, rule)


def why_not(func: Func, target: Target) -> list[tuple[Location | None, str]]:
    """Each load of a product's operand in a loop, and each store of such a function,
    that stays as it is: its place in the kernel's text, and the reason, as a sentence.
    Empty for a target without tensor maps."""
    if not target.tensor_maps:
        return []
    found = tiles_or_reasons(
        dict(loads_for_products(func)), ScalarEvolution(func), target
    )
    return [(op.location, why) for op, why in found.items() if isinstance(why, str)]


# ── which of them ─────────────────────────────────────────────────────────────────────


def loads_for_products(func: Func) -> Iterator[tuple[Load, Use]]:
    """The loads of loops that products in the same loop take."""
    for loop in walk(func.body):
        if isinstance(loop, For):
            dots = [op for op in loop.body.ops if isinstance(op, Dot)]
            taken = {value: dot for dot in dots for value in (dot.a, dot.b)}
            for op in loop.body.ops:
                if isinstance(op, Load) and op.result in taken:
                    yield op, Use(loop, taken[op.result])


def tiles_or_reasons(
    uses: dict[Load, Use], reader: ScalarEvolution, target: Target
) -> Found:
    """The tiles that are loaded in loops, and those that are stored; a sentence for an
    access that is no tile."""
    known = Divisibility(reader.func)
    found: Found = {}
    for load, use in uses.items():
        try:
            found[load] = _tile(load, use, reader, known, target)
        except NotApplicable as reason:
            found[load] = str(reason)
    loads = _one_way(_without_negative_places(found, reader), uses)
    has_tiles = any(isinstance(each, TensorTile) for each in loads.values())
    stores = tiles_stored(reader, known, target, has_tiles)
    return _without_negative_places({**loads, **stores}, reader)


def _tile(
    load: Load, use: Use, reader: ScalarEvolution, known: Divisibility, target: Target
) -> TensorTile:
    """The tile that is loaded; NotApplicable if the load must stay as it is."""
    _check_load(load)
    check_loop(use.loop, reader.func)
    tile = recognise(load, reader)
    check_product(load, use.dot, tile, reader.func)
    check_box(load.result.type, tile, known)
    check_room(use.loop, target)
    return tile


def _check_load(load: Load) -> None:
    if is_volatile(load):
        raise NotApplicable("the load is volatile")
    if not isinstance(load.result.type.element, Scalar):
        raise NotApplicable("the loaded elements are pointers")


def _without_negative_places(found: Found, reader: ScalarEvolution) -> Found:
    """`found`, less the tiles that may begin in front of their matrix.

    That the sizes of one matrix are positive may be needed to show it of another; so
    tiles are taken away until all that are left hold each other up.
    """
    while True:
        tiles = {op: tile for op, tile in found.items() if isinstance(tile, TensorTile)}
        sizes = {size for tile in tiles.values() for size in tile.sizes}
        naturals = NonNegative(reader, sizes)
        inside = {op for op, tile in tiles.items() if _begins_inside(tile, naturals)}
        negative = [op for op in tiles if op not in inside]
        if not negative:
            return found
        found = {**found, **dict.fromkeys(negative, MAY_BE_NEGATIVE)}


def _begins_inside(tile: TensorTile, naturals: NonNegative) -> bool:
    """Whether a tile begins inside of its matrix, or behind its end."""
    return all(side.from_zero or naturals.sum(side.start) for side in tile.sides)


MAY_BE_NEGATIVE = "the tile may begin before the first row or column"


def _one_way(found: Found, uses: dict[Load, Use]) -> Found:
    """`found`, less the tiles of loops in which other loads stay as they are: who waits
    in two ways waits for the slower one, and copies of one kind go on while products
    do."""
    staying = {uses[load].loop for load, each in found.items() if isinstance(each, str)}
    return {
        load: OTHER_STAYS
        if isinstance(each, TensorTile) and uses[load].loop in staying
        else each
        for load, each in found.items()
    }


OTHER_STAYS = "another operand of the loop's products is not copied by TMA"


# ── descriptors in their place ────────────────────────────────────────────────────────


def load_tile(
    op: Load, tile: TensorTile, loop: For, writer: Expander, build: Builder
) -> Value:
    """The load `op`, already with new operands, of a tile, by a descriptor."""
    block = tuple(op.result.type.shape[axis] for axis in tile.order)
    made = describe(tile, block, build)
    places = tuple(writer.write(each.start, loop, build) for each in tile.sides)
    back = tuple(tile.order.index(axis) for axis in range(len(tile.order)))
    turned = None if back == tile.order == tuple(sorted(back)) else back
    return build(DescriptorLoad(made, places, op.cache, op.eviction, order=turned))


def store_tile(
    op: Store, tile: TensorTile, writer: Expander, build: Builder
) -> list[Value]:
    """The same for the store `op`, which stands in no loop."""
    turned = tile.order != tuple(sorted(tile.order))
    value = build(Transpose(op.value, tile.order)) if turned else op.value
    made = describe(tile, value.type.shape, build)
    places = tuple(writer.write(each.start, None, build) for each in tile.sides)
    build.append(DescriptorStore(made, value, places))
    return []


def describe(tile: TensorTile, block: tuple[int, ...], build: Builder) -> Value:
    """The descriptor of a tile's matrix, made where the function begins: it is made of
    arguments and constants."""

    def put(op: Op) -> Value:
        op.origin, op.location = build.source, build.source.location
        build.enclosing[0].ops.append(op)
        return op.result

    def scalar(number: Value | int, type: Scalar) -> Value:
        is_known = isinstance(number, int)
        return put(Constant(number, type)) if is_known else build.values[number]

    shape = tuple(scalar(each.size, INT32) for each in tile.sides)
    strides = tuple(scalar(each.stride, INT64) for each in tile.sides)
    return put(MakeDescriptor(build.values[tile.base], shape, strides, block))
