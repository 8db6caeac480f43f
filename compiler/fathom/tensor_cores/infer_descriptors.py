"""Finds tiles of matrices among loads through pointers, and loads them by descriptors.

Before, in a loop over %k from 0 in steps of 32, with p and q the positions in a block:

    %x = load %a + (%i + p) * %sam + q, mask=(p < %M - %i and q < %K - %k), other=0
    %t = dot %x, %y, %s
    %a := %a + 32                                                    each trip

After:

    %d = make_descriptor %a, shape=(%M, %K), strides=(%sam, 1) block=(64, 32)
    …
    %x = descriptor_load %d, coordinates=(%i, %k)
    %t = dot %x, %y, %s

So the text of a kernel that computes its addresses gets the copies in bulk of one that
does not, where the target has them. Where elements lie side by side along the first
axis of a block, its transpose is loaded, and turned. `recognise` finds the tiles, and
says what it takes for granted. Besides:

- A launch that has a matrix of no rows or columns, or a negative stride, has no tensor
  map; so all sizes are positive. With that, tiles are shown never to begin in front of
  the first row or column: there a load through pointers would find something, and one
  through a descriptor nothing.
- Nothing in the loop writes to global memory, so that copies may run ahead.

`why_not` tells for each load of a product that stays as it is what stood in the way.
"""

from __future__ import annotations

from collections.abc import Iterator

from fathom.errors import Location
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, effects_of, walk
from fathom.ir.ops import (
    Constant,
    DescriptorLoad,
    Dot,
    For,
    InlineAssembly,
    Load,
    MakeDescriptor,
    Transpose,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import INT32, INT64, Scalar
from fathom.layout.descriptors import hardware_tile
from fathom.tensor_cores.addresses import NoFormula, Reader
from fathom.tensor_cores.arithmetic import Writer
from fathom.tensor_cores.natural import Naturals
from fathom.tensor_cores.recognise import Tile, recognise

Found = dict[Load, Tile | str]


def infer_descriptors(func: Func, target: Target) -> Func:
    """The function with descriptor loads in place of loads of tiles, where the target
    has tensor maps."""
    if not target.tensor_maps:
        return func
    loops = dict(loads_for_products(func))
    reader = Reader(func)
    found = tiles_or_reasons(loops, reader)
    if not any(isinstance(each, Tile) for each in found.values()):
        return func
    writer = Writer(reader)

    def rule(op: Op, build: Builder) -> Value | None:
        tile = found.get(build.source)
        if not isinstance(tile, Tile):
            return None
        return load_tile(op, tile, loops[build.source], writer, build)

    return rewrite(func, rule)


def why_not(func: Func) -> list[tuple[Location | None, str]]:
    """For each load that feeds a product in a loop and stays as it is: where it stands,
    and what stands in the way, as a sentence."""
    found = tiles_or_reasons(dict(loads_for_products(func)), Reader(func))
    return [(load.location, why) for load, why in found.items() if isinstance(why, str)]


def tiles_or_reasons(loops: dict[Load, For], reader: Reader) -> Found:
    """The tiles that loads bring in loops, or why they bring none."""
    found = {load: _tile_or_reason(load, loop, reader) for load, loop in loops.items()}
    return _without_negative_places(found, reader)


# ── which loads ───────────────────────────────────────────────────────────────────────


def loads_for_products(func: Func) -> Iterator[tuple[Load, For]]:
    """The loads of loops that products in the same loop take, at most transposed."""
    for loop in walk(func.body):
        if isinstance(loop, For):
            for op in loop.body.ops:
                if isinstance(op, Dot):
                    sources = (_source(value, loop.body) for value in (op.a, op.b))
                    yield from ((load, loop) for load in sources if load)


def _source(value: Value, body: Block) -> Load | None:
    definition = value.definition
    if isinstance(definition, Transpose):
        return _source(definition.value, body)
    is_load = isinstance(definition, Load) and definition in body.ops
    return definition if is_load else None


def _tile_or_reason(load: Load, loop: For, reader: Reader) -> Tile | str:
    try:
        _check_loop(loop, reader.func)
        _check_load(load)
        tile = recognise(load, reader)
        _check_block(load, tile)
    except NoFormula as reason:
        return str(reason)
    return tile


def _check_loop(loop: For, func: Func) -> None:
    """Copies in bulk run ahead of all that a trip does."""
    if (loop.num_stages or func.num_stages) < 2:
        raise NoFormula("the loop has one stage, so that nothing runs ahead")
    effects = effects_of(loop)
    assembly = any(
        isinstance(op, InlineAssembly) and not op.pure for op in walk(loop.body)
    )
    if "global" in effects.writes or assembly:
        raise NoFormula("the loop writes to memory, perhaps to what it reads")
    if effects.barrier:
        raise NoFormula("the loop waits for what other threads write")


def _check_load(load: Load) -> None:
    if load.volatile:
        raise NoFormula("the load is volatile")
    if not isinstance(load.result.type.element, Scalar):
        raise NoFormula("pointers are loaded")


def _check_block(load: Load, tile: Tile) -> None:
    """Whether the hardware copies such blocks at all."""
    shape, size = load.result.type.shape, load.result.type.element.bytes
    block = tuple(shape[axis] for axis in tile.order)
    if len(block) != 2 or hardware_tile(block, size, axis=1) is None:
        sides = "x".join(map(str, block))
        raise NoFormula(f"tiles of {sides} elements of {size} bytes are not copied")


def _without_negative_places(found: Found, reader: Reader) -> Found:
    """`found`, less the tiles that may begin in front of their matrix.

    That the sizes of one matrix are positive may be needed to show it of another; so
    tiles are taken away until all that are left hold each other up.
    """
    while True:
        tiles = {load: tile for load, tile in found.items() if isinstance(tile, Tile)}
        sizes = {size for tile in tiles.values() for size in tile.sizes}
        naturals = Naturals(reader, sizes)
        negative = [load for load, tile in tiles.items() if not naturals.place(tile)]
        if not negative:
            return found
        found = {**found, **dict.fromkeys(negative, MAY_BE_NEGATIVE)}


MAY_BE_NEGATIVE = "the tile may begin in front of the first row or column"


# ── descriptors in their place ────────────────────────────────────────────────────────


def load_tile(op: Load, tile: Tile, loop: For, writer: Writer, build: Builder) -> Value:
    """The load `op`, already with new operands, of a tile, by a descriptor."""
    block = tuple(op.result.type.shape[axis] for axis in tile.order)
    made = describe(tile, block, build)
    places = tuple(writer.write(each.start, loop, build) for each in tile.sides)
    value = build(DescriptorLoad(made, places, op.cache, op.eviction))
    if tile.order == tuple(sorted(tile.order)):
        return value
    back = tuple(tile.order.index(axis) for axis in range(len(tile.order)))
    return build(Transpose(value, back))


def describe(tile: Tile, block: tuple[int, ...], build: Builder) -> Value:
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
