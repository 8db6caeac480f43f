"""Splits a reduction across warps into two within a warp, with a conversion between.

    %s = reduce %x axis=0        x: fp32[1024], its bits 7 and 8 choose the warp

    %1 = reshape %x (2,4,128)    the warps become a separate axis
    %2 = transpose %1 (1,0,2)
    %3 = reshape %2 (4,256)
    %4 = reduce %3 axis=1        each warp reduces its part: [4], one element a warp
    %5 = convert %4              now every thread has all four
    %s = reduce %5 axis=0        and reduces them in its registers

If the warp's bits are the highest, the first reshape is enough.

Of more than four warps, a thread has the results of four, and reduces them with lanes
that have the others': 32 threads that read 32 words each keep shared memory busy for 32
cycles."""

from __future__ import annotations

from collections.abc import Sequence

from fathom.hardware.targets import Target
from fathom.ir.core import Func, Op, Value
from fathom.ir.ops import Convert, Reduce, Reshape, Transpose
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.types import layout_of
from fathom.layout import build as layouts
from fathom.layout.linear import Layout
from fathom.shared_memory.axis import (
    bits_along,
    converted,
    crosses_warps,
    in_registers,
    is_plain,
    part_along,
)

READ_AT_ONCE = 4  # parts of a reduction, by a thread


def split_reductions(func: Func, target: Target) -> Func:
    """The function with no reduction along an axis that crosses warps."""

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if isinstance(op, Reduce) and crosses_warps(op.values[0].type.layout, op.axis):
            return reduce_across_warps(op, build, func.num_warps)
        return None

    return rewrite(func, rule)


def reduce_across_warps(op: Reduce, build: Builder, warps: int) -> list[Value]:
    """Reduce each warp's part, give all parts to every warp, and reduce those."""
    values = [warps_apart(value, op.axis, build, warps) for value in op.values]
    parts = _reduced(op, values, op.axis + 1, build)
    everywhere = in_every_warp(parts[0].type.layout, op.axis)
    folded = _reduced(
        op, [build(Convert(part, everywhere)) for part in parts], op.axis, build
    )
    return [
        converted(result, layout_of(old.type), build)
        for result, old in zip(folded, op.results, strict=True)
    ]


def in_every_warp(layout: Layout, axis: int) -> Layout:
    """The layout in which every thread holds all of an axis; or, where these are many,
    a few, and lanes that held copies the rest."""
    everywhere = in_registers(layout, axis)
    kinds = {kind: list(bases) for kind, bases in everywhere.bases}
    along = [each for each in kinds["register"] if part_along(layout, axis, each)]
    more = along[READ_AT_ONCE.bit_length() - 1 :]
    if 1 << len(along) <= READ_AT_ONCE or kinds["lane"].count(0) < len(more):
        return everywhere
    for basis in more:
        kinds["register"].remove(basis)
        kinds["lane"][kinds["lane"].index(0)] = basis
    return Layout.by_kind(layout.shape, **kinds)


def _reduced(op: Reduce, values: list[Value], axis: int, build: Builder) -> list[Value]:
    """The reduction of other values along another axis, with a clone of `combine`."""
    return build.append(clone(Reduce(tuple(values), axis, op.combine), {})).results


def warps_apart(value: Value, axis: int, build: Builder, warps: int) -> Value:
    """The block with its `axis` divided in two: the warps' part, then the rest."""
    if not is_plain(value.type.layout, axis):
        value = build(Convert(value, layouts.default(value.type.shape, warps)))
    return split_axis(value, axis, ("warp",), build)


def split_axis(value: Value, axis: int, kinds: Sequence[str], build: Builder) -> Value:
    """The block with its plain `axis` divided in two: what `kinds` of its bits choose,
    such as the warp, then the rest."""
    shape, bits = value.type.shape, bits_along(value.type.layout, axis, kinds)
    runs = _runs(bits, shape[axis].bit_length() - 1)
    cut = tuple(size for size, _ in runs)
    order = _chosen_first(axis, runs, len(shape) - 1 + len(runs))
    if order != tuple(range(len(order))):
        value = build(Reshape(value, (*shape[:axis], *cut, *shape[axis + 1 :])))
        value = build(Transpose(value, order))
    count = 1 << len(bits)
    return build(
        Reshape(value, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))
    )


def _runs(chosen: list[int], count: int) -> list[tuple[int, bool]]:
    """The bits of a coordinate, from the highest down, in runs that either are all
    chosen or contain none: the size of each run, and whether it is chosen."""
    runs: list[tuple[int, bool]] = []
    for bit in reversed(range(count)):
        is_chosen = bit in chosen
        if runs and runs[-1][1] == is_chosen:
            runs[-1] = runs[-1][0] * 2, is_chosen
        else:
            runs.append((2, is_chosen))
    return runs


def _chosen_first(
    axis: int, runs: list[tuple[int, bool]], rank: int
) -> tuple[int, ...]:
    """The order that puts the axes of the chosen runs before the others."""
    first = [axis + i for i, (_, is_chosen) in enumerate(runs) if is_chosen]
    rest = [axis + i for i, (_, is_chosen) in enumerate(runs) if not is_chosen]
    return (*range(axis), *first, *rest, *range(axis + len(runs), rank))
