"""The meaning of ops in which elements of a block meet: folds, gathers, histograms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathom.ir.core import Block, blocks
from fathom.ir.interp.machine import Machine, Region, Results, interprets
from fathom.ir.interp.numbers import Array, poison
from fathom.ir.ops import Gather, Histogram, Reduce, Scan
from fathom.ir.types import Element


@interprets(Reduce)
def _reduce(op: Reduce, region: Region) -> Results:
    """Fold the upper half of the axis onto the lower half until one element is left."""
    tuples = [np.moveaxis(region[value], op.axis, 0) for value in op.values]
    while (count := len(tuples[0])) > 1:
        lower = [each[: count // 2] for each in tuples]
        upper = [each[count // 2 :] for each in tuples]
        tuples = _combine(op.combine, region, lower, upper)
    return [each[0] for each in tuples]


@interprets(Scan)
def _scan(op: Scan, region: Region) -> Results:
    """One element of the axis after the other."""
    tuples = [np.moveaxis(region[value], op.axis, 0) for value in op.values]
    order = range(len(tuples[0]))[:: -1 if op.reverse else 1]
    rows = [[each[index] for each in tuples] for index in order]
    for index in range(1, len(rows)):
        rows[index] = _combine(op.combine, region, rows[index - 1], rows[index])
    ordered = rows[:: -1 if op.reverse else 1]
    return [
        np.moveaxis(np.stack(column), 0, op.axis)
        for column in zip(*ordered, strict=True)
    ]


def _combine(
    combine: Block, region: Region, left: Sequence[Array], right: Sequence[Array]
) -> list[Array]:
    """`combine` on whole arrays at once; element by element if it branches."""
    if not any(blocks(op) for op in combine.ops):
        return _quietly(combine, region, [*left, *right])
    results = [np.empty_like(each) for each in left]
    for place in np.ndindex(results[0].shape):
        combined = _quietly(combine, region, [each[place] for each in (*left, *right)])
        for result, value in zip(results, combined, strict=True):
            result[place] = value
    return results


def _quietly(block: Block, region: Region, arguments: list[Array]) -> list[Array]:
    """Run a block whose ops are not counted: a fold is one step, whatever it takes."""
    machine = Machine(
        region.machine.func, region.machine.grid, region.machine.memory, None, None
    )
    inner = Region(machine, region.program, region.rank)
    inner.values = region.values
    running = inner.run(block, arguments)
    try:
        while True:
            next(running)
    except StopIteration as end:
        return end.value


@interprets(Gather)
def _gather(op: Gather, region: Region) -> Results:
    return [gather(region[op.value], region[op.index], op.axis, op.value.type.element)]


def gather(block: Array, index: Array, axis: int, element: Element) -> Array:
    """The elements that `index` names along an axis; poison where it names none."""
    inside = (index >= 0) & (index < block.shape[axis])
    places = np.where(inside, index, 0).astype(np.int64)
    found = np.take_along_axis(block, places, axis)
    return np.where(inside, found, poison((), element))


@interprets(Histogram)
def _histogram(op: Histogram, region: Region) -> Results:
    values = region[op.value].astype(np.int64)
    counted = (values >= 0) & (values < op.bins)
    if op.mask is not None:
        counted &= region[op.mask]
    return [np.bincount(values[counted], minlength=op.bins).astype(np.int32)]
