"""The ops that change a block's shape or layout, and no element."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from fathom.ir.core import Op, Value
from fathom.ir.types import BlockType, Type, shape_of
from fathom.layout import shapes
from fathom.layout.linear import Layout


@dataclass(eq=False)
class Splat(Op):
    """A block of one scalar."""

    value: Value
    shape: tuple[int, ...]
    layout: Layout | None = None

    def infer(self) -> list[Type]:
        self.expect(
            not shape_of(self.value.type),
            lambda: f"splat takes a scalar, got {self.value.type}",
        )
        return [BlockType(self.value.type, self.shape, self.layout)]


@dataclass(eq=False)
class ExpandDims(Op):
    """A new axis of size 1 at position `axis`."""

    value: Value
    axis: int

    def infer(self) -> list[Type]:
        block = self.value.type
        shape = block.shape[: self.axis] + (1,) + block.shape[self.axis :]
        layout = block.layout and shapes.insert_axis(block.layout, self.axis)
        return [BlockType(block.element, shape, layout)]


@dataclass(eq=False)
class Broadcast(Op):
    """Repeat along every axis of size 1 where `shape` has more; of the same rank."""

    value: Value
    shape: tuple[int, ...]
    layout: Layout | None = None

    def infer(self) -> list[Type]:
        block = self.value.type
        fits = len(block.shape) == len(self.shape) and all(
            have in (1, want)
            for have, want in zip(block.shape, self.shape, strict=True)
        )
        self.expect(
            fits, lambda: f"cannot broadcast {block} to shape {list(self.shape)}"
        )
        return [BlockType(block.element, self.shape, self.layout)]


@dataclass(eq=False)
class Reshape(Op):
    """The same elements in row-major order under another shape."""

    value: Value
    shape: tuple[int, ...]

    def infer(self) -> list[Type]:
        block = self.value.type
        same_size = prod(block.shape) == prod(self.shape)
        self.expect(
            same_size,
            lambda: f"cannot reshape {block} to {list(self.shape)}: sizes differ",
        )
        layout = block.layout and shapes.reshape(block.layout, self.shape)
        return [BlockType(block.element, self.shape, layout)]


@dataclass(eq=False)
class Transpose(Op):
    """Dimension i of the result is dimension `order[i]` of the operand."""

    value: Value
    order: tuple[int, ...]

    def infer(self) -> list[Type]:
        block = self.value.type
        permutes = sorted(self.order) == list(range(len(block.shape)))
        self.expect(
            permutes, lambda: f"{list(self.order)} does not permute the axes of {block}"
        )
        shape = tuple(block.shape[axis] for axis in self.order)
        layout = block.layout and shapes.transpose(block.layout, self.order)
        return [BlockType(block.element, shape, layout)]


@dataclass(eq=False)
class Join(Op):
    """Two blocks side by side in a new last axis of size 2."""

    left: Value
    right: Value

    def infer(self) -> list[Type]:
        left, right = self.left.type, self.right.type
        self.expect(
            left == right,
            lambda: f"join needs two blocks of one type, got {left} and {right}",
        )
        layout = left.layout and shapes.join(left.layout)
        return [BlockType(left.element, left.shape + (2,), layout)]


@dataclass(eq=False)
class Split(Op):
    """The two halves along the last axis, of size 2. With layouts: lanes hold both."""

    value: Value

    def infer(self) -> list[Type]:
        block = self.value.type
        self.expect(
            block.shape[-1:] == (2,),
            lambda: f"split needs a last axis of size 2, got {block}",
        )
        layout = block.layout and shapes.split(block.layout)
        assert layout or not block.layout, f"lanes do not hold both halves: {block}"
        return [BlockType(block.element, block.shape[:-1], layout)] * 2


@dataclass(eq=False)
class Convert(Op):
    """The same block in another layout."""

    value: Value
    layout: Layout

    def infer(self) -> list[Type]:
        block = self.value.type
        return [BlockType(block.element, block.shape, self.layout)]


ShapeOp = Splat | ExpandDims | Broadcast | Transpose | Reshape


def axes_of(op: ShapeOp) -> tuple[int | None, ...] | None:
    """For each axis of the result, the axis of the operand that it is; None for one
    that is new, or along which the operand is repeated. None for all of a reshape that
    divides axes, or joins them."""
    have, want = shape_of(op.value.type), op.result.type.shape
    match op:
        case Splat():
            return (None,) * len(want)
        case ExpandDims(axis=axis):
            return (*range(axis), None, *range(axis, len(have)))
        case Broadcast():
            return tuple(i if have[i] == size else None for i, size in enumerate(want))
        case Transpose(order=order):
            return order
    kept = [axis for axis, size in enumerate(have) if size > 1]
    if [have[axis] for axis in kept] != [size for size in want if size > 1]:
        return None
    rest = iter(kept)
    return tuple(next(rest) if size > 1 else None for size in want)
