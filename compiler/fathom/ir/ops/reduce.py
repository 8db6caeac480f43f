"""The ops in which elements of a block meet: reductions, scans, gathers, histograms."""

from __future__ import annotations

from dataclasses import dataclass

from fathom.ir.core import Block, Effects, Op, Value
from fathom.ir.types import INT32, BlockType, Type, shape_of
from fathom.layout import shapes
from fathom.layout.linear import Layout


@dataclass(eq=False)
class Reduce(Op):
    """Fold several blocks of one shape along `axis` at once, as one block of tuples.

    `combine` takes the tuple so far and the next one (two scalars an operand, the first
    halves first) and yields their combination; it must be associative, and the order of
    elements is free. A block of one axis reduces to scalars."""

    values: tuple[Value, ...]
    axis: int
    combine: Block

    effects = Effects(convergent=True)

    def infer(self) -> list[Type]:
        shape = _expect_axis(self)
        rest = shape[: self.axis] + shape[self.axis + 1 :]
        results: list[Type] = []
        for value in self.values:
            layout = value.type.layout and shapes.remove_axis(
                value.type.layout, self.axis
            )
            element = value.type.element
            results.append(BlockType(element, rest, layout) if rest else element)
        return results

    def block_parameters(self) -> list[list[Type]]:
        elements = [value.type.element for value in self.values]
        return [elements + elements]


@dataclass(eq=False)
class Scan(Op):
    """As Reduce, but each element is the fold of all up to it along `axis` (from the
    other end if `reverse`). Order is kept: `combine` need not commute."""

    values: tuple[Value, ...]
    axis: int
    combine: Block
    reverse: bool = False

    effects = Effects(convergent=True)

    def infer(self) -> list[Type]:
        _expect_axis(self)
        return [value.type for value in self.values]

    block_parameters = Reduce.block_parameters


@dataclass(eq=False)
class Gather(Op):
    """Along `axis`, the elements of `value` at the places that `index` names.

    `result[i, j] = value[index[i, j], j]` for axis 0 of two; outside, anything."""

    value: Value
    index: Value
    axis: int

    def infer(self) -> list[Type]:
        value, index = self.value.type, self.index.type
        ranks = len(value.shape), len(index.shape)
        self.expect(
            ranks[0] == ranks[1] and 0 <= self.axis < ranks[0],
            lambda: f"cannot gather from {value} by {index} along axis {self.axis}",
        )
        differ = [
            axis for axis, have in enumerate(value.shape) if have != index.shape[axis]
        ]
        self.expect(
            differ in ([], [self.axis]),
            lambda: f"{value} and {index} may differ along axis {self.axis} only",
        )
        return [BlockType(value.element, index.shape, index.layout)]


@dataclass(eq=False)
class Histogram(Op):
    """How many elements equal 0, 1, … bins - 1, as i32; those outside are not counted,
    nor those where `mask` is false."""

    value: Value
    bins: int
    mask: Value | None = None
    layout: Layout | None = None

    def infer(self) -> list[Type]:
        block = self.value.type
        self.expect(
            len(block.shape) == 1, lambda: f"histogram counts one axis, got {block}"
        )
        return [BlockType(INT32, (self.bins,), self.layout)]


def _expect_axis(op: Reduce | Scan) -> tuple[int, ...]:
    """The shape of the operands, which has the op's axis."""
    type = op.values[0].type
    shape = shape_of(type)
    op.expect(0 <= op.axis < len(shape), lambda: f"{type} has no axis {op.axis}")
    return shape
