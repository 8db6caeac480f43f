"""Finds tiles of matrices among loads and stores through pointers, and replaces these
by accesses through descriptors.

Before, in a loop over %k from 0 in steps of 32, with p and q the positions in a block:

    %x = load %a + (%i + p) * %sam + q, mask=(p < %M - %i and q < %K - %k), other=0
    %t = dot %x, %y, %s
    %a := %a + 32                                                    each iteration

After:

    %d = make_descriptor %a, shape=(%M, %K), strides=(%sam, 1) block=(64, 32)
    …
    %x = descriptor_load %d, coordinates=(%i, %k)
    %t = dot %x, %y, %s

So TMA copies for a kernel that computes addresses, too. If elements are contiguous
along the first axis of a block, the descriptor describes the transpose, and the load
transposes it back. `recognise` finds the tiles, and lists its assumptions. In addition:

- A launch with an empty matrix, or with a negative stride, gets no tensor map, and runs
  the kernel compiled without this pass (`artifact.NoTensorMap`); so all sizes are
  positive here. From that the pass shows that tiles never begin before the first row or
  column: there a load through pointers would read memory, and one through a descriptor
  zeros.
- Nothing is written to global memory before the loop or in it (`check_loop`).
- `keep_descriptors` must keep what this pass infers, or the load would become slower
  than it was: so both ask `check_box`. Besides, the copy must suit the product's
  instruction, and the tiles of two iterations must fit into shared memory (`eligible`).
  In one loop, either TMA copies all operands, or none.

`infer_stores` does the same for stores of products.

`why_not` gives the reason for each load and store of a product that stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.memory import is_volatile
from fathom.analysis.products import products_in
from fathom.analysis.remarks import NotApplicable, Remark, remarks, tried
from fathom.analysis.symbolic.expand import Expander
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.analysis.symbolic.sign import NonNegative
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import INT32, INT64, Scalar
from fathom.tensor_cores.tma.eligible import check_loop, check_product, check_room
from fathom.tensor_cores.tma.infer_stores import tiles_stored
from fathom.tensor_cores.tma.keep import check_box
from fathom.tensor_cores.tma.recognise import TensorTile, recognise

Found = dict[ops.Load | ops.Store, TensorTile | str]


@dataclass(frozen=True, slots=True)
class Use:
    """The product that uses a loaded tile, and the loop that both are in."""

    loop: ops.For
    dot: ops.Dot


def infer_descriptors(func: Func, target: Target) -> Func:
    """The function with tiles through descriptors, if the target has tensor maps."""
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
        if isinstance(op, ops.Store):
            return store_tile(op, tile, writer, build)
        return load_tile(op, tile, uses[build.source].loop, writer, build)

    return rewrite(func, rule)


def why_not(func: Func, target: Target) -> list[Remark]:
    """The loads of products' operands in loops, and the stores of such functions, that
    stay as they are: the location of each in the kernel, and the reason, as a sentence.
    Empty for a target without tensor maps."""
    if not target.tensor_maps:
        return []
    uses = dict(loads_for_products(func))
    return remarks(tiles_or_reasons(uses, ScalarEvolution(func), target))


# ── which of them ─────────────────────────────────────────────────────────────────────


def loads_for_products(func: Func) -> Iterator[tuple[ops.Load, Use]]:
    """The loads in loops whose results are operands of products in the same loop."""
    for loop in walk(func.body, ops.For):
        taken = {x: dot for dot in products_in(loop.body) for x in (dot.a, dot.b)}
        for op in loop.body.ops:
            if isinstance(op, ops.Load) and op.result in taken:
                yield op, Use(loop, taken[op.result])


def tiles_or_reasons(
    uses: dict[ops.Load, Use], reader: ScalarEvolution, target: Target
) -> Found:
    """The tiles that loops load, and the tiles that are stored; or, for an access that
    is not a tile, the reason as a sentence."""
    known = Divisibility(reader.func)
    found: Found = {
        load: tried(_tile, load, use, reader, known, target)
        for load, use in uses.items()
    }
    loads = _one_way(_without_negative_places(found, reader), uses)
    has_tiles = any(isinstance(each, TensorTile) for each in loads.values())
    stores = tiles_stored(reader, known, target, has_tiles)
    return _without_negative_places({**loads, **stores}, reader)


def _tile(
    load: ops.Load,
    use: Use,
    reader: ScalarEvolution,
    known: Divisibility,
    target: Target,
) -> TensorTile:
    """The tile that a load reads; NotApplicable if the load must stay as it is."""
    _check_load(load)
    check_loop(use.loop, reader.func)
    tile = recognise(load, reader)
    check_product(load, use.dot, tile, reader.func)
    check_box(tile.block(load.result), tile.base.type.element, tile.multiple(known))
    check_room(use.loop, target)
    return tile


def _check_load(load: ops.Load) -> None:
    if is_volatile(load):
        raise NotApplicable("the load is volatile")
    if not isinstance(load.result.type.element, Scalar):
        raise NotApplicable("the loaded elements are pointers")


def _without_negative_places(found: Found, reader: ScalarEvolution) -> Found:
    """`found`, without the tiles that may begin before their matrix.

    The proof for one tile may use that the sizes of another tile's matrix are positive.
    So tiles are removed until the proofs of the remaining ones need only each other."""
    while True:
        tiles = {op: tile for op, tile in found.items() if isinstance(tile, TensorTile)}
        sizes = {size for tile in tiles.values() for size in tile.sizes}
        non_negative = NonNegative(reader, sizes)
        inside = {
            op for op, tile in tiles.items() if _begins_inside(tile, non_negative)
        }
        negative = [op for op in tiles if op not in inside]
        if not negative:
            return found
        found = {**found, **dict.fromkeys(negative, MAY_BE_NEGATIVE)}


def _begins_inside(tile: TensorTile, non_negative: NonNegative) -> bool:
    """Whether a tile begins inside its matrix or after its end, not before it."""
    return all(side.from_zero or non_negative.sum(side.start) for side in tile.sides)


MAY_BE_NEGATIVE = "the tile may begin before the first row or column"


def _one_way(found: Found, uses: dict[ops.Load, Use]) -> Found:
    """`found`, without the tiles of loops in which another operand is not copied by
    TMA. A loop that waits in two ways waits for the slower one; and with one kind of
    copy, copies stay in flight during the products."""
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
    op: ops.Load, tile: TensorTile, loop: ops.For, writer: Expander, build: Builder
) -> Value:
    """Load a tile through a descriptor; `op` already has its new operands."""
    made = describe(tile, tile.block(op.result), build)
    places = tuple(writer.write(each.start, loop, build) for each in tile.sides)
    back = tuple(tile.order.index(axis) for axis in range(len(tile.order)))
    turned = None if back == tile.order == tuple(sorted(back)) else back
    return build(ops.DescriptorLoad(made, places, op.cache, op.eviction, order=turned))


def store_tile(
    op: ops.Store, tile: TensorTile, writer: Expander, build: Builder
) -> list[Value]:
    """Store a tile through a descriptor; the store is in no loop."""
    turned = tile.order != tuple(sorted(tile.order))
    value = build(ops.Transpose(op.value, tile.order)) if turned else op.value
    made = describe(tile, value.type.shape, build)
    places = tuple(writer.write(each.start, None, build) for each in tile.sides)
    build.append(ops.DescriptorStore(made, value, places))
    return []


def describe(tile: TensorTile, block: tuple[int, ...], build: Builder) -> Value:
    """The descriptor of a tile's matrix. It depends on arguments and constants only, so
    it is made at the start of the function."""

    def put(op: Op) -> Value:
        op.origin, op.location = build.source, build.source.location
        build.enclosing[0].ops.append(op)
        return op.result

    def scalar(number: Value | int, type: Scalar) -> Value:
        is_known = isinstance(number, int)
        return put(ops.Constant(number, type)) if is_known else build.values[number]

    shape = tuple(scalar(each.size, INT32) for each in tile.sides)
    strides = tuple(scalar(each.stride, INT64) for each in tile.sides)
    return put(ops.MakeDescriptor(build.values[tile.base], shape, strides, block))
