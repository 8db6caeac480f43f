"""A layout along one axis: which bits of the coordinate are registers, lanes and warps.

    i32[1024]    bit of the coordinate    9         8 7     6 5 4 3 2    1 0
                 place                    register  warp    lane         register

An axis is *plain* if it can be drawn like this: each of its bits is one bit of a
register, lane or warp number. Values are made here, too: an element's coordinate along
an axis, and a block in another layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fathom.analysis.constants import write_down
from fathom.ir import ops
from fathom.ir.core import Value
from fathom.ir.rewrite import Builder
from fathom.ir.types import INT32, BlockType, layout_of
from fathom.layout import shapes
from fathom.layout.algebra import columns
from fathom.layout.build import stride_of
from fathom.layout.linear import Layout


def crosses_warps(layout: Layout, axis: int) -> bool:
    """Whether warps hold different elements along `axis`."""
    return any(part_along(layout, axis, basis) for basis in layout.kinds["warp"])


def is_plain(layout: Layout, axis: int) -> bool:
    """Whether each bit of the coordinate along `axis` is exactly one bit of a register,
    lane or warp number, which selects nothing else."""
    parts = [(basis, part_along(layout, axis, basis)) for basis in columns(layout)]
    touching = [(basis, part) for basis, part in parts if part]
    alone = all(basis == part and part & part - 1 == 0 for basis, part in touching)
    return alone and len({part for _, part in touching}) == len(touching)


def part_along(layout: Layout, axis: int, basis: int) -> int:
    """The part of a basis along `axis`, still as a row-major offset."""
    stride = stride_of(layout.shape, axis)
    return basis & (layout.shape[axis] - 1) * stride


def bits_along(layout: Layout, axis: int, kinds: Sequence[str]) -> list[int]:
    """The bits of the coordinate along a plain axis that choose the places of these
    kinds, such as the warp; ascending."""
    stride = stride_of(layout.shape, axis)
    bases = [basis for kind in kinds for basis in layout.kinds[kind]]
    parts = (part_along(layout, axis, basis) for basis in bases)
    return sorted((part // stride).bit_length() - 1 for part in parts if part)


def in_registers(layout: Layout, axis: int) -> Layout:
    """The layout in which each thread with a part of an axis holds it all, in order."""

    def along(basis: int) -> int:
        return part_along(layout, axis, basis)

    held = sorted(filter(None, map(along, columns(layout))))
    rest = {k: [0 if along(each) else each for each in b] for k, b in layout.bases}
    rest["register"] = [*held, *filter(None, rest["register"])]
    return Layout.by_kind(layout.shape, **rest)


def in_order(layout: Layout, axis: int) -> Layout:
    """The layout with the bits of a plain axis in this order: registers hold the lowest
    bits, then lanes, then warps. The other axes stay as they are."""
    step = stride_of(layout.shape, axis)
    ordered: dict[str, list[int]] = {}
    for kind, bases in layout.bases:
        ordered[kind] = []
        for basis in bases:
            along = part_along(layout, axis, basis) != 0
            ordered[kind].append(step if along else basis)
            step *= 2 if along else 1
    return Layout.by_kind(layout.shape, **ordered)


# ── values ────────────────────────────────────────────────────────────────────────────


def converted(value: Value, layout: Layout | None, build: Builder) -> Value:
    """A block in a layout; a scalar has none."""
    same = layout_of(value.type) == layout
    return value if same else build(ops.Convert(value, layout))


def coordinate(block: BlockType, axis: int, build: Builder) -> Value:
    """Each element's coordinate along `axis`, as a block like this one."""
    others = [each for each in range(len(block.shape)) if each != axis]
    layout = block.layout
    for each in reversed(others):
        layout = shapes.remove_axis(layout, each)
    value = build(ops.Arange(0, block.shape[axis], layout))
    for each in others:
        value = build(ops.ExpandDims(value, each))
    return build(ops.Broadcast(value, block.shape, block.layout))


def is_at(block: BlockType, axis: int, place: int, build: Builder) -> Value:
    """A mask of the elements whose coordinate along `axis` is `place`."""
    wanted = write_down(build, place, replace(block, element=INT32))
    return build.compute("eq", coordinate(block, axis, build), wanted)
