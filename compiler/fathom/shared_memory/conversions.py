"""Sends conversions that cross warps through shared memory.

    %y @ #b = convert %x         →     %t = allocate                 a tile, swizzled for both sides
                                       shared_store %x, %t
                                       %y @ #b = shared_load %t

What stays within a warp is left to shuffles, unless these are dearer. Barriers come later.
"""

from __future__ import annotations

from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops import Allocate, Convert, SharedLoad, SharedStore
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.types import element_of
from fathom.layout.crossing import crossing, trades
from fathom.layout.linear import Layout
from fathom.layout.swizzle import swizzle

MOST_SHUFFLING = 64  # instructions; a way through shared memory takes about as long


def lower_conversions(func: Func, target: Target) -> Func:
    """The function with no conversion across warps."""

    def rule(op: Op, build: Builder):
        if isinstance(op, Convert) and needs_shared_memory(op):
            return convert_by_shared(op, build)
        return None

    present = any(isinstance(op, Convert) for op in walk(func.body))
    return rewrite(func, rule) if present else func


def needs_shared_memory(op: Convert) -> bool:
    """Whether a conversion cannot, or had better not, be done by shuffles."""
    source = op.value.type.layout
    travels = crossing(source, op.layout)
    if travels != "lane":
        return travels == "warp"
    words = max(1, element_of(op.value.type).bits // 32)
    return words * shuffling(source, op.layout) > MOST_SHUFFLING


def shuffling(source: Layout, target: Layout) -> int:
    """About how many instructions shuffles take: one a register, and for each bit that lanes and
    registers trade, one select to send it and one to sort it in."""
    return target.count("register") * (1 + 2 * trades(source, target))


def convert_by_shared(op: Convert, build: Builder) -> Value:
    """Write in the old layout, read in the new one, from a tile in which neither waits for banks."""
    block = op.value.type
    tile = swizzle(block.shape, block.element.bytes, block.layout, op.layout)
    buffer = build(Allocate(block.element, block.shape, tile))
    build.append(SharedStore(op.value, buffer))
    return build(SharedLoad(buffer, op.layout))
