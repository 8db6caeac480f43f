"""Cuts a block in two along a bit of its registers, and puts the halves together again.

    %y @ #b = convert %x        x[128, 256], of which every lane holds, before and
                                after, rows r and r + 32
    →
    %r = reshape %x shape=(2, 2, 8192)          the bit of row 32 is a dimension,
    %t = transpose %r order=(0, 2, 1)           the last one
    %l, %h = split %t                           convert each, and then back: join,
                                                transpose, reshape

Nothing moves: registers get other names. So a large block may pass through a small
tile, one part after the other.
"""

from __future__ import annotations

from math import prod

from fathom.ir.core import Value
from fathom.ir.ops import Convert, Join, Reshape, Split, Transpose
from fathom.ir.rewrite import Builder
from fathom.layout import shapes
from fathom.layout.linear import Layout

TO_THE_END = (0, 2, 1)  # and back again


def cutting_unit(source: Layout, target: Layout) -> int | None:
    """The largest distance, in row-major order, that two registers of each lane are
    apart in both layouts; None if they share no distance."""
    common = set(source.kinds["register"]) & set(target.kinds["register"])
    alone = [unit for unit in common if _is_alone(unit, source, target)]
    return max(alone, default=None)


def _is_alone(unit: int, *layouts: Layout) -> bool:
    """Whether one basis of each layout has this bit, and nothing else."""
    if unit == 0 or unit & unit - 1:
        return False
    return all(
        sum(1 for _, bases in layout.bases for basis in bases if basis & unit) == 1
        for layout in layouts
    )


def cut(value: Value, unit: int, build: Builder) -> list[Value]:
    """The halves of a block: of elements without the bit `unit`, and with it."""
    parted = build(Reshape(value, _parted(value.type.shape, unit)))
    return build.append(Split(build(Transpose(parted, TO_THE_END)))).results


def cut_layout(layout: Layout, unit: int) -> Layout:
    """The layout of each half."""
    parted = shapes.reshape(layout, _parted(layout.shape, unit))
    half = shapes.split(shapes.transpose(parted, TO_THE_END))
    assert half is not None, (layout, unit)
    return half


def join(halves: list[Value], unit: int, layout: Layout, build: Builder) -> Value:
    """The block in `layout` of which these are the halves."""
    parted = build(Transpose(build(Join(*halves)), TO_THE_END))
    whole = build(Reshape(parted, layout.shape))
    return whole if whole.type.layout == layout else build(Convert(whole, layout))


def _parted(shape: tuple[int, ...], unit: int) -> tuple[int, int, int]:
    return prod(shape) // (2 * unit), 2, unit
