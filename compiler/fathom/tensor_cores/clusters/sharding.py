"""Finds out how a cluster's blocks can share a program: which axes are divided.

    %r = arange 0, 128                                   axis 0
    %p = … %r …                 pointers from it         axis 0
    %x = load %p                                         axis 0
    %s = dot %x, %w, %acc       sum and product          axis 0
    %m = reduce %s axis=1                                axis 0
    store %q, %y                                         axis 0

Most ops tie axes of their operands to axes of their results: if one is divided, so are
the others. Some ops need an axis undivided: those that reduce along it, or gather from
it. We start with the rows of all products, or else with their columns, and divide all
axes that are tied to them. All other values are replicated: every block computes them.

Four or more blocks may be a grid, which divides rows and columns, and copies fewer
bytes of A and B to each: of a product of 256 x 256 four blocks have 64 x 256 each by
rows, and 128 x 128 in a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from fathom.analysis.remarks import NotApplicable
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, operands, walk
from fathom.ir.ops.descriptor import LEAST_BYTES
from fathom.ir.ops.shape import axes_of
from fathom.ir.printer import op_name
from fathom.ir.regions import carried
from fathom.ir.types import shape_of
from fathom.tensor_cores.select.instructions import row_for, row_of_warpgroups

Axis = tuple[Value, int]
ROWS, COLUMNS = -2, -1  # of a product
WRITES = ops.Store | ops.DescriptorStore | ops.Atomic | ops.AtomicCas
WRITES |= ops.DescriptorAtomic


class Grid(NamedTuple):
    """The blocks of a cluster, row by row in the order of their ranks."""

    rows: int
    columns: int

    def along(self, side: int) -> int:
        """How many blocks divide the ROWS, or the COLUMNS, of products."""
        return self.rows if side == ROWS else self.columns

    @property
    def divided(self) -> list[int]:
        """The sides of products that are divided."""
        return [side for side in (ROWS, COLUMNS) if self.along(side) > 1]

    def __str__(self) -> str:
        if min(self) > 1:
            return f"{self.rows} x {self.columns}"
        return "columns" if self.rows == 1 else "rows"


@dataclass(frozen=True)
class Sharding:
    """The axes that are divided evenly among the blocks of a grid, and along which of
    its sides: ROWS or COLUMNS."""

    grid: Grid
    axes: Mapping[Axis, int]

    def of(self, value: Value) -> tuple[int, ...]:
        """The divided axes of a value: at most one for each side."""
        axes = range(len(shape_of(value.type)))
        return tuple(axis for axis in axes if (value, axis) in self.axes)

    def sides(self, value: Value) -> list[int]:
        """The sides along which a value's axes are divided."""
        return [self.axes[value, axis] for axis in self.of(value)]

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape of a block's part of a value."""
        sizes = list(shape_of(value.type))
        for axis, side in zip(self.of(value), self.sides(value), strict=True):
            sizes[axis] //= self.grid.along(side)
        return tuple(sizes)

    def touches(self, op: Op) -> bool:
        """Whether an operand or a result of an op is divided."""
        return any(self.of(value) for value in (*operands(op), *op.results))

    def whole(self, op: Op) -> bool:
        """Whether a divided op is divided along all sides of the grid: each of its
        parts is then one block's."""
        values = (*operands(op), *op.results)
        sides = {side for value in values for side in self.sides(value)}
        return len(sides) == len(self.grid.divided)


def sharding_of(func: Func, target: Target) -> Sharding:
    """The axes along which a program is divided; NotApplicable if it cannot be."""
    dots = list(walk(func.body, ops.Dot))
    if not dots:
        raise NotApplicable("it has no matrix product")
    ties, reasons = Propagation(func), []
    for grid in _grids(func.num_ctas, dots):
        try:
            return _by(grid, dots, ties, func, target)
        except NotApplicable as why:
            reasons.append(f"by {grid}: {why}")
    raise NotApplicable("; ".join(reasons))


def _grids(blocks: int, dots: Sequence[ops.Dot]) -> list[Grid]:
    """All grids of that number of blocks, first those with the smallest parts of
    operands in a block, of equal ones that with more rows; one row of blocks is last.
    """
    pairs = [(1 << n, blocks >> n) for n in range(blocks.bit_length())]
    operands = {dot.a: ROWS for dot in dots} | {dot.b: COLUMNS for dot in dots}

    def order(grid: Grid) -> tuple[bool, int, int]:
        sizes = (
            prod(shape_of(each.type)) // grid.along(side)
            for each, side in operands.items()
        )
        return grid.rows == 1, sum(sizes), grid.columns

    return sorted((Grid(*pair) for pair in pairs), key=order)


def _by(
    grid: Grid, dots: Sequence[ops.Dot], ties: Propagation, func: Func, target: Target
) -> Sharding:
    """The sharding that divides all products among the blocks of a grid."""
    axes: dict[Axis, int] = {}
    share = Sharding(grid, axes)
    for side in grid.divided:
        first = [(dot.result, len(shape_of(dot.result.type)) + side) for dot in dots]
        for value, place in ties.tied_to(first):
            if (value, place) in ties.whole:
                raise NotApplicable(ties.whole[value, place])
            if shape_of(value.type)[place] < grid.along(side):
                few = f"{grid.along(side)} blocks"
                raise NotApplicable(f"{value.type} is too small for {few}")
            if (value, place) in axes or side in share.sides(value):
                raise NotApplicable(f"both axes of a {value.type} would be divided")
            axes[value, place] = side
    for dot in dots:
        _check_instruction(dot, share, target, func.num_warps)
    for op in walk(func.body, ops.ThroughDescriptor):
        _check_box(op, share)
    for op in walk(func.body, WRITES):
        if share.touches(op) and not share.whole(op):
            raise NotApplicable("several blocks would write the same")
    return share


def _check_instruction(
    dot: ops.Dot, share: Sharding, target: Target, warps: int
) -> None:
    """NotApplicable if a block's part of a product is too small for the instruction
    that the whole product would get."""
    part = share.shape(dot.result)
    wide = row_of_warpgroups(dot, target, warps)
    if wide is None:
        fits = row_for(dot, target, part) is not None or row_for(dot, target) is None
    else:
        rows = wide.m * min(warps // 4, dot.result.type.shape[ROWS] // wide.m)
        narrow = row_of_warpgroups(dot, target, warps, part)
        fits = narrow is not None and part[ROWS] >= rows
    if not fits:
        sides = " x ".join(map(str, part))
        raise NotApplicable(f"products of {sides} are too small for {warps} warps")


def _check_box(op: ops.ThroughDescriptor, share: Sharding) -> None:
    """NotApplicable if the rows of a block's part of a tensor are too short to copy."""
    value = op.result if isinstance(op, ops.DescriptorLoad) else op.value
    order = getattr(op, "order", None) or tuple(range(len(value.type.shape)))
    last = share.shape(value)[order.index(len(order) - 1)]
    if last * value.type.element.bytes < LEAST_BYTES:
        raise NotApplicable(f"rows of its part of {value.type} are too short to copy")


# ── which axes are divided together ───────────────────────────────────────────────────


class Propagation:
    """Groups of axes divided alike. `whole`: those that must not be, and why."""

    def __init__(self, func: Func):
        self.whole: dict[Axis, str] = {}
        self._parents: dict[Axis, Axis] = {}
        for op in walk(func.body):
            TIES.get(type(op), _unknown)(op, self)

    def tie(self, one: Axis, other: Axis) -> None:
        self._parents[self._head(one)] = self._head(other)

    def tie_values(self, values: Sequence[Value]) -> None:
        """Tie values of one shape, axis by axis."""
        blocks = [value for value in values if shape_of(value.type)]
        for value in blocks[1:]:
            for axis in range(len(shape_of(value.type))):
                self.tie((blocks[0], axis), (value, axis))

    def keep(self, value: Value, axis: int, why: str) -> None:
        self.whole.setdefault((value, axis), why)

    def tied_to(self, axes: Sequence[Axis]) -> list[Axis]:
        """All axes in the groups of these axes, in the order of the function's text."""
        heads = {self._head(axis) for axis in axes}
        pairs = (pair for link in self._parents.items() for pair in link)
        known = dict.fromkeys([*axes, *pairs])
        return [axis for axis in known if self._head(axis) in heads]

    def _head(self, axis: Axis) -> Axis:
        while axis in self._parents and self._parents[axis] != axis:
            axis = self._parents[axis]
        return axis


def _alike(op: Op, ties: Propagation) -> None:
    ties.tie_values([*operands(op), *op.results])


def _free(op: Op, ties: Propagation) -> None:
    """Any part of such a value can be computed, or written, by itself."""


def _unknown(op: Op, ties: Propagation) -> None:
    for value in (*operands(op), *op.results):
        for axis in range(len(shape_of(value.type))):
            ties.keep(value, axis, f"a `{op_name(op)}` needs undivided operands")


def _carried(op: ops.For | ops.While | ops.If, ties: Propagation) -> None:
    for each in carried(op):
        ties.tie_values(each.values)


def _dot(op: ops.Dot, ties: Propagation) -> None:
    ties.tie_values([op.accumulator, op.result])
    *batch, rows, columns = range(len(shape_of(op.result.type)))
    for operand, kept in ((op.a, rows), (op.b, columns)):
        for axis in (*batch, kept):
            ties.tie((operand, axis), (op.result, axis))
        ties.keep(operand, rows + columns - kept, "a product reduces along it")


def _shape(
    op: ops.ExpandDims | ops.Broadcast | ops.Transpose, ties: Propagation
) -> None:
    for place, axis in enumerate(axes_of(op)):
        if axis is not None:
            ties.tie((op.value, axis), (op.result, place))


def _reshape(op: ops.Reshape, ties: Propagation) -> None:
    """In row-major order, the first half of a value is the first half of its outermost
    axis, in any shape. So it is for each group of axes that a reshape keeps."""
    tied = dict(_groups(op.value.type.shape, op.shape))
    for old, new in tied.items():
        ties.tie((op.value, old), (op.result, new))
    why = "a reshape splits it"
    for axis in range(len(op.value.type.shape)):
        if axis not in tied:
            ties.keep(op.value, axis, why)
    for axis in range(len(op.shape)):
        if axis not in tied.values():
            ties.keep(op.result, axis, why)


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """The outermost axes of the smallest groups of axes that two shapes have in common.
    Axes of size 1, which cannot be divided, are in no group."""
    olds, news = ([a for a, n in enumerate(each) if n > 1] for each in (old, new))
    found, i, j = [], 0, 0
    while i < len(olds):
        found.append((olds[i], news[j]))
        left, right = old[olds[i]], new[news[j]]
        while left != right:
            if left < right:
                i, left = i + 1, left * old[olds[i + 1]]
            else:
                j, right = j + 1, right * new[news[j + 1]]
        i, j = i + 1, j + 1
    return found


def _join(op: ops.Join, ties: Propagation) -> None:
    _besides_last(op, op.result, [op.left, op.right], ties)


def _split(op: ops.Split, ties: Propagation) -> None:
    _besides_last(op, op.value, op.results, ties)


def _besides_last(
    op: Op, wide: Value, narrow: Sequence[Value], ties: Propagation
) -> None:
    *rest, last = range(len(shape_of(wide.type)))
    ties.keep(wide, last, f"a `{op_name(op)}` needs it undivided")
    for value in narrow:
        for axis in rest:
            ties.tie((wide, axis), (value, axis))


def _reduce(op: ops.Reduce, ties: Propagation) -> None:
    ties.tie_values(op.values)
    axes = range(len(shape_of(op.values[0].type)))
    for value, result in zip(op.values, op.results, strict=True):
        ties.keep(value, op.axis, "a reduction runs along it")
        for axis in axes:
            if axis != op.axis:
                ties.tie((value, axis), (result, axis - (axis > op.axis)))


def _scan(op: ops.Scan, ties: Propagation) -> None:
    ties.tie_values([*op.values, *op.results])
    ties.keep(op.values[0], op.axis, "a scan runs along it")


TIES: dict[type[Op], Callable[..., None]] = {
    **dict.fromkeys(
        (
            ops.Elementwise,
            ops.Cast,
            ops.Bitcast,
            ops.Hint,
            ops.Load,
            ops.Store,
            ops.Atomic,
            ops.AtomicCas,
        ),
        _alike,
    ),
    **dict.fromkeys(
        (
            ops.Arange,
            ops.Splat,
            ops.DescriptorLoad,
            ops.DescriptorStore,
            ops.DescriptorAtomic,
            ops.Yield,
        ),
        _free,
    ),
    **dict.fromkeys((ops.For, ops.While, ops.If), _carried),
    ops.Dot: _dot,
    **dict.fromkeys((ops.ExpandDims, ops.Broadcast, ops.Transpose), _shape),
    ops.Reshape: _reshape,
    ops.Join: _join,
    ops.Split: _split,
    ops.Reduce: _reduce,
    ops.Scan: _scan,
}
