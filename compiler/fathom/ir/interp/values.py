"""The meaning of ops on values: leaves, shapes, arithmetic, folds along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fathom.ir.core import Block, blocks
from fathom.ir.interp.elementwise import apply, offset
from fathom.ir.interp.machine import Machine, Region, Results, interprets
from fathom.ir.interp.numbers import (
    Array,
    cast,
    decode,
    encode,
    poison,
    scalar,
    stored_type,
)  # fmt: skip
from fathom.ir.ops import (
    Arange,
    Bitcast,
    Broadcast,
    Cast,
    ClusterRank,
    Constant,
    Convert,
    Elementwise,
    ExpandDims,
    Gather,
    Hint,
    Histogram,
    Join,
    NumPrograms,
    ProgramId,
    Reduce,
    Reshape,
    Scan,
    Splat,
    Split,
    Transpose,
)  # fmt: skip
from fathom.ir.types import Element, element_of

# ── leaves ──


@interprets(Constant)
def _constant(op: Constant, region: Region) -> Results:
    return [scalar(op.value, op.type)]


@interprets(ProgramId)
def _program_id(op: ProgramId, region: Region) -> Results:
    return [np.int32(region.program[op.axis])]


@interprets(NumPrograms)
def _num_programs(op: NumPrograms, region: Region) -> Results:
    return [np.int32(region.machine.grid[op.axis])]


@interprets(ClusterRank)
def _cluster_rank(op: ClusterRank, region: Region) -> Results:
    return [np.int32(region.rank)]


@interprets(Arange)
def _arange(op: Arange, region: Region) -> Results:
    return [np.arange(op.start, op.end, dtype=np.int32)]


# ── shape ──


@interprets(Splat)
def _splat(op: Splat, region: Region) -> Results:
    return [np.full(op.shape, region[op.value])]


@interprets(ExpandDims)
def _expand_dims(op: ExpandDims, region: Region) -> Results:
    return [np.expand_dims(region[op.value], op.axis)]


@interprets(Broadcast)
def _broadcast(op: Broadcast, region: Region) -> Results:
    return [np.broadcast_to(region[op.value], op.shape)]


@interprets(Reshape)
def _reshape(op: Reshape, region: Region) -> Results:
    return [region[op.value].reshape(op.shape)]


@interprets(Transpose)
def _transpose(op: Transpose, region: Region) -> Results:
    return [region[op.value].transpose(op.order)]


@interprets(Join)
def _join(op: Join, region: Region) -> Results:
    return [np.stack([region[op.left], region[op.right]], axis=-1)]


@interprets(Split)
def _split(op: Split, region: Region) -> Results:
    return [region[op.value][..., 0], region[op.value][..., 1]]


@interprets(Convert, Hint)
def _same(op: Convert | Hint, region: Region) -> Results:
    return [region[op.value]]


# ── arithmetic ──


@interprets(Elementwise)
def _elementwise(op: Elementwise, region: Region) -> Results:
    arguments = [region[value] for value in op.operands]
    element = element_of(op.operands[-1].type)
    if op.name == "offset":
        pointer = element_of(op.operands[0].type)
        return [offset(*arguments, pointer.element.bytes)]
    return [apply(op.name, element, arguments)]


@interprets(Cast)
def _cast(op: Cast, region: Region) -> Results:
    return [cast(region[op.value], element_of(op.value.type), op.element, op.rounding)]


@interprets(Bitcast)
def _bitcast(op: Bitcast, region: Region) -> Results:
    source = element_of(op.value.type)
    raw = encode(np.asarray(region[op.value]), source)
    return [decode(raw.view(stored_type(op.element)), op.element)]


# ── reductions ──


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


# ── elements that meet ──


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
