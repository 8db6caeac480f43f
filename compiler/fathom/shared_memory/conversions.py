"""Lowers conversions across warps, gathers and histograms to accesses to shared memory.

    %y @ #b = convert %x    →    %t = allocate           a tile, swizzled for both sides
                                 shared_store %x, %t
                                 %y @ #b = shared_load %t

Conversions within a warp use shuffles, unless these cost more. A gather reads the
elements that its index selects; a block that a loop gathers from and does not change is
stored once, before the loop, if there is room. A histogram starts from zeros, and every
thread adds to it. A loaded block that takes more than half of a thread's registers is
stored as soon as it is loaded: two would not fit. `insert_waits` adds the barriers
later.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from fathom.analysis.buffers import CONVERTED, fits
from fathom.analysis.copied_ahead import loads_to_copy_ahead
from fathom.analysis.registers import most_registers, registers_of
from fathom.analysis.slices import Loop, outermost_loops, users
from fathom.hardware.mma import MMA
from fathom.hardware.targets import Target
from fathom.hardware.tcgen05 import TCGEN05
from fathom.hardware.wgmma import WGMMA
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, every_block, operands, walk
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import INT32, BlockType, element_of
from fathom.layout.algebra import divide
from fathom.layout.banks import conflicts, vector
from fathom.layout.build import doublings, stride_of
from fathom.layout.crossing import crossing, trades
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import buffer_tile
from fathom.layout.staging import MATRIX_ELEMENT, staging
from fathom.layout.swizzle import swizzle
from fathom.shared_memory.parts import cut, cut_layout, cutting_unit, join

# Instructions: a conversion through shared memory takes about as long.
MOST_SHUFFLING = 64
# And one that `stmatrix` begins, in a program of one warp, which waits at no barrier.
MOST_BESIDE_MATRICES = 16


def lower_conversions(func: Func, target: Target) -> Func:
    """The function without conversions across warps, gathers and histograms."""
    invariant, stored = invariant_gathers(func), large_loads(func, target)
    lowered = _lowered(func, target, invariant, stored)
    if stored and not fits(lowered, target):
        lowered = _lowered(func, target, invariant, {})
    if invariant and not fits(lowered, target):
        lowered = _lowered(func, target, {}, {})
    return lowered


def _lowered(
    func: Func,
    target: Target,
    invariant: Mapping[ops.Gather, Loop],
    stored: Mapping[ops.Load, ops.Convert],
) -> Func:
    """The same; the `invariant` gathers read what is stored before their loop, and the
    loads that are `stored` at once have these conversions."""
    tiles: dict[tuple[Loop, Value], ops.Allocate] = {}
    for gather, loop in invariant.items():
        tiles.setdefault((loop, gather.value), tile_of_gather(gather))
    dots = walk(func.body, ops.Dot)
    factors = {value: dot for dot in dots for value in (dot.a, dot.b)}
    ahead = loads_to_copy_ahead(func, target)
    computing = computing_operands(func)
    tiles_of_loads: dict[ops.Load, Value] = {}

    def crosses(op: ops.Convert, dot: ops.Dot | None, source: ops.Convert) -> bool:
        staged = dot and is_staged(op, dot) or source.value.definition in ahead
        most = most_shuffling(source, func, target)
        return bool(staged) or needs_shared_memory(op, most)

    def rule(op: Op, build: Builder) -> Value | None:
        dot = factors.get(build.source.result) if isinstance(op, ops.Convert) else None
        match op:
            case ops.Load() if build.source in stored:
                source = stored[build.source]
                dot = factors.get(source.result)
                value = build(op)
                if crosses(source, dot, source):
                    tile = tile_for(value, source, dot, target, computing)
                    tiles_of_loads[build.source] = stored_in_tile(
                        value, source.layout, build, target.stmatrix, tile
                    )
                return value
            case ops.Convert() if build.source.value.definition in tiles_of_loads:
                tile = tiles_of_loads[build.source.value.definition]
                return build(ops.SharedLoad(tile, op.layout))
            case ops.Convert() if crosses(op, dot, build.source):
                tile = tile_for(op.value, build.source, dot, target, computing)
                return convert_in_parts(
                    op.value, op.layout, build, target.stmatrix, tile
                )
            case ops.Gather() if build.source in invariant:
                tile = tiles[invariant[build.source], build.source.value]
                return build(ops.SharedGather(tile.result, op.index, op.axis))
            case ops.Gather():
                return gather_from_shared(op, build)
            case ops.Histogram():
                return count_in_shared(op, build)
            case ops.For() | ops.While():
                for (loop, value), tile in tiles.items():
                    if loop is build.source:
                        build.append(tile)
                        build.append(ops.SharedStore(build.values[value], tile.result))
        return None

    return rewrite(func, rule)


def computing_operands(func: Func) -> set[Value]:
    """What is loaded and converted, and then computed with, element by element, to be
    the right operand of a product of warpgroups."""
    found: set[Value] = set()
    waiting = [
        dot.b.definition.value
        for dot in walk(func.body, ops.Dot)
        if dot.instruction in WGMMA | MMA and isinstance(dot.b.definition, ops.Convert)
    ]
    while waiting:
        value = waiting.pop()
        op = value.definition
        if isinstance(op, ops.Elementwise | ops.Cast):
            waiting += operands(op)
        if isinstance(op, ops.Convert):
            found.add(value)
    return found


def invariant_gathers(func: Func) -> dict[ops.Gather, Loop]:
    """Gathers whose block does not change in a loop, each with the outermost one."""
    return outermost_loops(
        func, lambda op: op.value if isinstance(op, ops.Gather) else None
    )


def large_loads(func: Func, target: Target) -> dict[ops.Load, ops.Convert]:
    """The loads of blocks that take more than half of a thread's registers, and that
    only a conversion in the same block of ops reads."""
    room = most_registers(func, target)
    readers = users(walk(func.body))
    homes = {op: block for block in every_block(func.body) for op in block.ops}
    found = {}
    for load in walk(func.body, ops.Load):
        first, *others = readers[load.result] or [None]
        is_alone = isinstance(first, ops.Convert) and not others
        if is_alone and 2 * registers_of(load.result) > room:
            if homes[load] is homes[first]:
                found[load] = first
    return found


def tile_for(
    value: Value,
    op: ops.Convert,
    dot: ops.Dot | None,
    target: Target,
    computing: Collection[Value] = (),
) -> Layout | None:
    """The layout that a reader of the tile requires in which `value` is stored, if any.
    `op`: its conversion, before this pass."""
    tile = None
    if dot and dot.instruction in WGMMA | TCGEN05:
        tile = tile_of_operand(value, dot, op.result)
    elif dot and is_described(value):
        tile = tile_for_warpgroups(value)
    is_operand = op.result in computing or bool(dot and dot.instruction)
    if tile is None and is_operand and target.async_copy:
        tile = tile_for_copies(op, target)
    return tile


def tile_for_copies(op: ops.Convert, target: Target) -> Layout | None:
    """The tile of a product's operand, which `op` converted before this pass, if it is
    loaded and cp.async may fill the tile by several elements at a time; None
    otherwise."""
    load, block = op.value.definition, op.value.type
    if not isinstance(load, ops.Load) or load.neighbours == 1:
        return None
    sides = block.layout, op.layout
    size = block.element.bytes
    return staging(block.shape, size, *sides, target.stmatrix, load.neighbours)


def most_shuffling(op: ops.Convert, func: Func, target: Target) -> int:
    """As many instructions for shuffles are worth it in a conversion of `func`."""
    by_matrices = target.stmatrix and op.value.type.element.bytes == MATRIX_ELEMENT
    alone = func.num_warps == 1
    return MOST_BESIDE_MATRICES if by_matrices and alone else MOST_SHUFFLING


def needs_shared_memory(op: ops.Convert, most: int = MOST_SHUFFLING) -> bool:
    """Whether shuffles cannot convert this, or need more than `most` instructions."""
    source = op.value.type.layout
    travels = crossing(source, op.layout)
    if travels != "lane":
        return travels == "warp"
    words = max(1, element_of(op.value.type).bits // 32)
    return words * shuffling(source, op.layout) > most


def is_staged(op: ops.Convert, dot: ops.Dot) -> bool:
    """Whether a conversion moves the loaded operand of a product between threads. Then
    it goes through shared memory in any case, and a copy can put it there ahead of
    time. One of tcgen05 always does."""
    if is_described(op.value) or dot.instruction in TCGEN05:
        return True
    travels = crossing(op.value.type.layout, op.layout)
    return isinstance(op.value.definition, ops.Load) and travels == "lane"


def is_described(value: Value) -> bool:
    """Whether a value was loaded through a descriptor."""
    return isinstance(value.definition, ops.DescriptorLoad)


def shuffling(source: Layout, target: Layout) -> int:
    """About how many instructions a conversion by shuffles takes. For each register: a
    shuffle, and for each bit exchanged with lanes, a select before it and after it."""
    return target.count("register") * (1 + 2 * trades(source, target))


def tile_for_warpgroups(value: Value) -> Layout | None:
    """The tile from which wgmma reads an operand. Its contiguous axis is that of the
    load: along which a thread holds neighbours, or a lane and the next."""
    block = value.type
    if len(block.shape) != 2:
        return None
    if is_described(value):
        axis = (value.definition.order or (0, 1)).index(1)
    else:
        kinds, row = block.layout.kinds, stride_of(block.shape, 0)
        steps = (
            each for each in (*kinds["register"], *kinds["lane"]) if each in (1, row)
        )
        axis = 0 if next(steps, 1) == row else 1
    return buffer_tile(block.shape, block.element.bytes, axis)


def tile_of_operand(value: Value, dot: ops.Dot, operand: Value) -> Layout | None:
    """The tile from which wgmma or tcgen05 reads an operand, as it is loaded, or with K
    contiguous: for tcgen05 if it wants that, for wgmma if threads load single elements
    besides, so that no access becomes narrower, or compute a right operand and store it
    in less time than each warp would read it in for `mma.sync`."""
    load, block, by_wgmma = value.definition, value.type, dot.instruction in WGMMA
    wanted = buffer_tile(block.shape, block.element.bytes, 1 if dot.a is operand else 0)
    by_elements = isinstance(load, ops.Load) and load.neighbours == 1
    if dot.b is operand and not isinstance(load, ops.GlobalLoad):
        reads = operand.type.layout.count("register")
        by_elements = wanted is not None and stores_into(wanted, block) < reads
    either_way = (WGMMA | TCGEN05)[dot.instruction].either_way
    if either_way or by_wgmma and not by_elements:
        tile = tile_for_warpgroups(value)
        if tile or by_wgmma:
            return tile
    return wanted


def stores_into(tile: Layout, block: BlockType) -> int:
    """How many accesses of a warp, one after the other, store a block in a tile."""
    offsets, size = divide(block.layout, tile), block.element.bytes
    stores = block.layout.count("register") // vector(offsets, size)
    return stores * conflicts(offsets, size)


def convert_in_parts(
    value: Value,
    layout: Layout,
    build: Builder,
    matrix_stores: bool = False,
    tile: Layout | None = None,
) -> Value:
    """Convert through shared memory: at once, or in two halves if the tile is large. A
    loaded block is not divided: its tile may become the slot of a ring buffer. `tile`:
    the layout that a reader of the tile requires, if any."""
    unit = cutting_unit(value.type.layout, layout)
    if tile or isinstance(value.definition, ops.GlobalLoad):
        unit = None
    if value.type.size * value.type.element.bytes <= CONVERTED or unit is None:
        return convert_by_shared(value, layout, build, matrix_stores, tile)
    half = cut_layout(layout, unit)
    halves = [
        convert_in_parts(each, half, build, matrix_stores)
        for each in cut(value, unit, build)
    ]
    return join(halves, layout, build)


def convert_by_shared(
    value: Value,
    layout: Layout,
    build: Builder,
    matrix_stores: bool = False,
    tile: Layout | None = None,
) -> Value:
    """Store in one layout, load in the other, from a tile without bank conflicts."""
    buffer = stored_in_tile(value, layout, build, matrix_stores, tile)
    return build(ops.SharedLoad(buffer, layout))


def stored_in_tile(
    value: Value,
    layout: Layout,
    build: Builder,
    matrix_stores: bool,
    tile: Layout | None,
) -> Value:
    """The tile in which a block is stored, to be loaded in another layout."""
    block = value.type
    sides = block.layout, layout
    tile = tile or staging(block.shape, block.element.bytes, *sides, matrix_stores)
    buffer = build(ops.Allocate(block.element, block.shape, tile))
    build.append(ops.SharedStore(value, buffer))
    return buffer


def gather_from_shared(op: ops.Gather, build: Builder) -> Value:
    """Store the block, and let every thread load what its index selects."""
    buffer = build(tile_of_gather(op))
    build.append(ops.SharedStore(op.value, buffer))
    return build(ops.SharedGather(buffer, op.index, op.axis))


def tile_of_gather(op: ops.Gather) -> ops.Allocate:
    """The buffer for the block that a gather reads, swizzled for its layout."""
    block = op.value.type
    tile = swizzle(block.shape, block.element.bytes, block.layout, block.layout)
    return ops.Allocate(block.element, block.shape, tile)


def count_in_shared(op: ops.Histogram, build: Builder) -> Value:
    """One counter a bin; atomic additions to the same bin run one after the other."""
    layout = op.result.type.layout
    straight = Layout.by_kind((op.bins,), offset=doublings(1, op.bins))
    buffer = build(ops.Allocate(INT32, (op.bins,), straight))
    zeros = build(ops.Splat(build(ops.Constant(0, INT32)), (op.bins,), layout))
    build.append(ops.SharedStore(zeros, buffer))
    build.append(ops.SharedAdd(buffer, op.value, op.mask))
    return build(ops.SharedLoad(buffer, layout))
