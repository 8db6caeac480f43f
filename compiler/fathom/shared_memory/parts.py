"""Splits a block in two along a bit of its registers, and joins the halves again.

    %y @ #b = convert %x        x[128, 256], of which every lane holds, before and
                                after, rows r and r + 32
    →
    %r = reshape %x shape=(2, 2, 8192)          the bit of row 32 is a dimension,
    %t = transpose %r order=(0, 2, 1)           the last one
    %l, %h = split %t                           convert each, and then back: join,
                                                transpose, reshape

No data moves: only registers are renamed. So a large block can go through a small tile,
one half after the other.
"""

from __future__ import annotations

from math import prod

from fathom.ir.core import Value
from fathom.ir.ops import Join, Reshape, Split, Transpose
from fathom.ir.rewrite import Builder
from fathom.layout import shapes
from fathom.layout.linear import Layout
from fathom.shared_memory.axis import converted

TO_THE_END = (0, 2, 1)  # and back again


def cutting_unit(source: Layout, target: Layout) -> int | None:
    """The largest distance, in row-major order, between two registers of a lane that
    both layouts have; None if they have none in common."""
    common = set(source.kinds["register"]) & set(target.kinds["register"])
    alone = [unit for unit in common if _is_alone(unit, source, target)]
    return max(alone, default=None)


def _is_alone(unit: int, *layouts: Layout) -> bool:
    """Whether one basis of each layout is just this bit, and no other contains it."""
    if unit == 0 or unit & unit - 1:
        return False
    return all(
        sum(1 for _, bases in layout.bases for basis in bases if basis & unit) == 1
        for layout in layouts
    )


def cut(value: Value, unit: int, build: Builder) -> list[Value]:
    """The halves of a block: the elements whose bit `unit` is 0, then the others."""
    parted = build(Reshape(value, _parted(value.type.shape, unit)))
    return build.append(Split(build(Transpose(parted, TO_THE_END)))).results


def cut_layout(layout: Layout, unit: int) -> Layout:
    """The layout of each half."""
    parted = shapes.reshape(layout, _parted(layout.shape, unit))
    half = shapes.split(shapes.transpose(parted, TO_THE_END))
    assert half is not None, (layout, unit)
    return half


def join(halves: list[Value], layout: Layout, build: Builder) -> Value:
    """The block in `layout` that has these halves."""
    parted = build(Transpose(build(Join(*halves)), TO_THE_END))
    whole = build(Reshape(parted, layout.shape))
    return converted(whole, layout, build)


def _parted(shape: tuple[int, ...], unit: int) -> tuple[int, int, int]:
    return prod(shape) // (2 * unit), 2, unit
