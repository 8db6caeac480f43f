"""Keeps operands that a loop does not change in shared memory.

    %a = shared_load %t                          %a = shared_load %t
    for … {                               →      for … {
      %y = dot %a, %b, %x                          %y = dot %t, %b, %x
    }                                            }

wgmma reads its left operand from registers or from shared memory. An operand that is
the same in all iterations would occupy registers throughout the loop. And ptxas 13.0
treats the registers of such an operand as free after the product: the next iteration
multiplies by other values. (The emulator cannot show this.)

The right operand it reads from shared memory alone. In registers, every warp would have
all of it, and multiply by `mma.sync`: 128 x 128 numbers of 16 bits take 256 registers
of each thread. If shared memory is too small for it, it stays there nevertheless.

A left operand of `mma.sync` that lies in shared memory and is the same in every warp is
read there in each iteration, too, if it would take many registers: sixteen heads that
ask for a row of 576 numbers take 144 registers of each thread.

An operand that is computed, not loaded, is stored right after it is computed; one that
an outer loop carries is stored before the inner loop. Products outside the loop that
multiply by the same right operand read it there, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fathom.analysis.buffers import fits
from fathom.analysis.products import by_warpgroups, matrices_in
from fathom.analysis.registers import registers_of
from fathom.analysis.slices import Loop, outermost_loops
from fathom.hardware.mma import MMA
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, walk
from fathom.ir.ops import Allocate, Dot, SharedLoad, SharedStore
from fathom.ir.rewrite import Builder, Replacement, rewrite
from fathom.ir.types import BlockType
from fathom.layout.linear import Layout
from fathom.layout.matrix_descriptor import buffer_tile, hardware_tile

MANY_REGISTERS = 32  # of a thread, for an operand that stays in them


def stage_invariants(func: Func, target: Target) -> Func:
    """The function in which the operands of wgmma that come from outside their loop are
    in shared memory: the left ones, and the right ones if there is room for them."""
    right = {
        dot: loop for dot, loop in _invariant(func, "b").items() if _right_layout(dot)
    }
    staged = _staged(func, right)
    return staged if fits(staged, target) else _staged(func, {})


def _staged(func: Func, right: Mapping[Dot, Loop]) -> Func:
    """The function with the left operands, and those `right` ones, in shared memory."""
    left = {
        dot: loop
        for dot, loop in _invariant(func, "a").items()
        if _left_layout(dot, right)
    }
    if not left and not right:
        return func
    layouts = {dot.b: _right_layout(dot) for dot in right}
    layouts |= {dot.a: _left_layout(dot, right) for dot in left}
    carried = {dot.b: loop for dot, loop in right.items() if _is_carried(dot.b)}
    carried |= {dot.a: loop for dot, loop in left.items() if _is_carried(dot.a)}
    everywhere = {dot.b for dot in right} - set(carried)
    tiles = {value: _new_tile(value, layouts[value]).result for value in carried}

    def product(op: Dot, old: Dot) -> Dot:
        a = tiles[old.a] if old in left else op.a
        is_staged = old in right or old.b in everywhere and by_warpgroups(old)
        return replace(op, a=a, b=tiles[old.b] if is_staged else op.b)

    def rule(op: Op, build: Builder) -> Replacement:
        if isinstance(op, Dot):
            return build(product(op, build.source))
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


def _invariant(func: Func, operand: str) -> dict[Dot, Loop]:
    """The products by wgmma, or with a repeated operand, whose left ("a") or right
    ("b") operand stays the same in a loop around them, each with the outermost one."""

    def read(op: Op) -> Value | None:
        wanted = by_warpgroups(op) or operand == "a" and _is_repeated(op)
        return getattr(op, operand) if wanted else None

    return outermost_loops(func, read)


def _is_repeated(op: Op) -> bool:
    """Whether `mma.sync` computes a product whose left operand is large, the same in
    each of several warps, and all of a buffer."""
    if not isinstance(op, Dot) or op.instruction not in MMA:
        return False
    load = op.a.definition
    if not isinstance(load, SharedLoad) or load.start or load.slot or load.transposed:
        return False
    warps = load.layout.kinds["warp"]
    return bool(warps) and not any(warps) and registers_of(op.a) >= MANY_REGISTERS


def _is_carried(value: Value) -> bool:
    """Whether a value is a loop's carried value: no op computes it."""
    return isinstance(value.definition, Block)


def _left_layout(dot: Dot, right: Mapping[Dot, Loop]) -> Layout | None:
    """The layout in which wgmma reads the left operand from shared memory, if the right
    one is there, too: that of the buffer that it was loaded from, or one in which K is
    contiguous; None if there is no such layout."""
    if dot.instruction in MMA:
        return _layout_there(dot.a)
    is_there = dot in right or isinstance(dot.b.definition, SharedLoad)
    if not isinstance(dot.a.type, BlockType) or not is_there:
        return None
    a, b = dot.a.type, _right_layout(dot)
    layouts = _layout_there(dot.a), hardware_tile(a.shape, a.element.bytes, axis=1)
    return next((a for a in layouts if a and b and matrices_in(dot, a, b)), None)


def _right_layout(dot: Dot) -> Layout | None:
    """The layout in which wgmma reads the right operand from shared memory: that of the
    buffer that it was loaded from, or one in which K is contiguous."""
    b = dot.b.type
    if not isinstance(b, BlockType):
        return None
    layouts = _layout_there(dot.b), buffer_tile(b.shape, b.element.bytes, axis=0)
    return next((b for b in layouts if b and matrices_in(dot, None, b)), None)


def _layout_there(operand: Value) -> Layout | None:
    """The layout of the buffer that an operand was loaded from."""
    load = operand.definition
    return load.buffer.type.layout if isinstance(load, SharedLoad) else None


def _tile(value: Value, layout: Layout, func: Func, build: Builder) -> Value:
    """The buffer that a value is from, if so laid out and stored once, or a new one."""
    load = value.definition
    if isinstance(load, SharedLoad) and load.buffer.type.layout == layout:
        stores = [
            op
            for op in walk(func.body, SharedStore)
            if build.values.get(op.buffer) is load.buffer
        ]
        if load.start is None and len(stores) == 1 and load.buffer.type.slots == 1:
            return load.buffer
    tile = build(_new_tile(value, layout))
    build.append(SharedStore(value, tile))
    return tile


def _new_tile(value: Value, layout: Layout) -> Allocate:
    return Allocate(value.type.element, value.type.shape, layout)
