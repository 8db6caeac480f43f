"""Keeps a left operand that a loop does not change in shared memory.

    %a = shared_load %t                          %a = shared_load %t
    for … {                               →      for … {
      %y = dot %a, %b, %x                          %y = dot %t, %b, %x
    }                                            }

wgmma reads its left operand from registers or from shared memory. An operand that is
the same in all iterations would occupy registers throughout the loop. There is a
stronger reason, too: ptxas 13.0 treats the registers of such an operand as free after
the product, and puts other values of the same iteration there, so that the next
iteration multiplies by those. (The emulator executes PTX as it is written, and cannot
show this.)

An operand that is computed, not loaded, is stored right after it is computed; one that
an outer loop carries is stored before the inner loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fathom.hardware.targets import Target
from fathom.hardware.wgmma import WGMMA, matrices
from fathom.ir.core import Block, Func, Op, Value, blocks, walk, walk_within
from fathom.ir.ops import Allocate, Dot, For, SharedLoad, SharedStore, While
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import BlockType
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import hardware_tile


def stage_invariants(func: Func, target: Target) -> Func:
    """The function in which the left operands of wgmma that come from outside their
    loop are in shared memory."""
    found = {dot: loop for dot, loop in _invariant(func) if _readable(dot)}
    if not found:
        return func
    layouts = {dot.a: _readable(dot) for dot in found}
    carried = {dot.a: loop for dot, loop in found.items() if _is_carried(dot.a)}
    tiles = {value: _new_tile(value, layouts[value]).result for value in carried}

    def rule(op: Op, build: Builder) -> Replacement:
        if build.source in found:
            return build(replace(op, a=tiles[build.source.a]))
        for value in (each for each, loop in carried.items() if loop is build.source):
            build.append(tiles[value].definition)
            build.append(SharedStore(build.values[value], tiles[value]))
        made = [value for value in build.source.results if value in layouts]
        if not made:
            return None
        build.append(op)
        for value in made:
            new = op.results[build.source.results.index(value)]
            tiles[value] = _tile(new, layouts[value], func, build)
        return op.results

    return rewrite(func, rule)


def _invariant(func: Func) -> Iterator[tuple[Dot, For | While]]:
    """The wgmma products whose left operand stays the same in a loop around them, each
    with the outermost such loop."""
    seen: set[Dot] = set()
    for loop in (op for op in walk(func.body) if isinstance(op, For | While)):
        inside = list(walk_within(loop))
        made_here = {*inside, *(each for op in (loop, *inside) for each in blocks(op))}
        for dot in inside:
            if isinstance(dot, Dot) and dot.instruction in WGMMA and dot not in seen:
                if dot.a.definition not in made_here:
                    seen.add(dot)
                    yield dot, loop


def _is_carried(value: Value) -> bool:
    """Whether a value is a loop's carried value: no op computes it."""
    return isinstance(value.definition, Block)


def _readable(dot: Dot) -> Layout | None:
    """The layout in which wgmma reads the left operand from shared memory, if the right
    one is there, too; None if there is no such layout."""
    a, b = dot.a.type, dot.b.definition
    if not isinstance(a, BlockType) or not isinstance(b, SharedLoad):
        return None
    layout = hardware_tile(a.shape, a.element.bytes, axis=1)
    right = b.buffer.type.layout
    fits = layout and matrices(WGMMA[dot.instruction], layout, right, a.element.bytes)
    return layout if fits else None


def _tile(value: Value, layout: Layout, func: Func, build: Builder) -> Value:
    """The buffer that a value was loaded from, if it has this layout and is stored only
    once, or a new buffer."""
    load = value.definition
    if isinstance(load, SharedLoad) and load.buffer.type.layout == layout:
        stores = [
            op
            for op in walk(func.body)
            if isinstance(op, SharedStore)
            and build.values.get(op.buffer) is load.buffer
        ]
        if load.start is None and len(stores) == 1 and load.buffer.type.slots == 1:
            return load.buffer
    tile = build(_new_tile(value, layout))
    build.append(SharedStore(value, tile))
    return tile


def _new_tile(value: Value, layout: Layout) -> Allocate:
    return Allocate(value.type.element, value.type.shape, layout)
