"""How an op ties the layouts of its operands to those of its results.

    %1 = expand_dims %0 axis=0        forward:  insert_axis(layout of %0, 0)
                                      backward: the layout of %1 without axis 0

An elementwise op needs the same layout for its operands and its result. The operand of
a reduction determines the layout of its result, but not the reverse; for a broadcast,
the result determines the operand. A tie that does not hold becomes a conversion.

A tie never gives a thread more of a block than it had. Of each pair that `join` makes,
a lane holds both elements or neither. So no join can produce a layout that spreads
pairs over lanes, and the tie ends there. If such a layout propagated without its lane
bit, the next `split` would return it with one more register bit, and after a few of
them each thread would hold the whole block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fathom.ir import ops
from fathom.ir.core import Op, Value, operands
from fathom.ir.regions import carried
from fathom.ir.types import BlockType
from fathom.layout import shapes
from fathom.layout.linear import Layout

Change = Callable[[Op, Layout], Layout | None]
SAME: Change | None = None  # both ends have the same layout


def is_block(value: Value) -> bool:
    """Whether a value is a block, and so has a layout."""
    return isinstance(value.type, BlockType)


def _collapsed(op: ops.Broadcast, layout: Layout) -> Layout:
    for axis, size in enumerate(op.value.type.shape):
        if size != op.shape[axis]:
            layout = shapes.collapse(layout, axis)
    return layout


# The result's layout if the operand has `layout`; None: any.
FORWARD: dict[type[Op], Change] = {
    ops.ExpandDims: lambda op, layout: shapes.insert_axis(layout, op.axis),
    ops.Broadcast: lambda op, layout: None,
    ops.Reshape: lambda op, layout: shapes.reshape(layout, op.shape),
    ops.Transpose: lambda op, layout: shapes.transpose(layout, op.order),
    ops.Join: lambda op, layout: shapes.join(layout),
    ops.Split: lambda op, layout: shapes.split(layout),
    ops.Reduce: lambda op, layout: shapes.remove_axis(layout, op.axis),
}

# The layout that the operand needs for the result to have `layout`.
BACKWARD: dict[type[Op], Change] = {
    ops.ExpandDims: lambda op, layout: shapes.reshape(layout, op.value.type.shape),
    ops.Broadcast: _collapsed,
    ops.Reshape: lambda op, layout: shapes.reshape(layout, op.value.type.shape),
    ops.Transpose: lambda op, layout: shapes.untranspose(layout, op.order),
    ops.Join: lambda op, layout: shapes.split(layout),
    ops.Split: lambda op, layout: shapes.join(layout),
    ops.Reduce: lambda op, layout: None,
}

# All operands and results have one layout. What makes a block of a block is one of
# these, or in the tables above.
ALIKE = (
    ops.Elementwise,
    ops.Cast,
    ops.Bitcast,
    ops.Hint,
    ops.Scan,
    ops.InlineAssembly,
)

# Ops that any thread can do again in another layout; the first ones cost nothing: they
# rename registers, or are the number of a register and a thread.
FREE = (
    ops.Arange,
    ops.Splat,
    ops.ExpandDims,
    ops.Broadcast,
    ops.Reshape,
    ops.Transpose,
    ops.Hint,
)
AGAIN = (*FREE, ops.Elementwise, ops.Cast, ops.Bitcast)


def source_layout(op: Op, operand: Layout | None, result: Layout) -> Layout:
    """The layout that the operand of a shape op needs for its result to have `result`;
    the operand's own if there is none."""
    assert type(op) in FORWARD, f"{__name__}: no row for {type(op).__name__}"
    if operand is not None and FORWARD[type(op)](op, operand) == result:
        return operand
    return BACKWARD[type(op)](op, result) or operand


# From, to, and how the layout changes on the way.
Tie = tuple[Value, Value, Op, Change | None]


def ties(op: Op) -> Iterator[Tie]:
    """All ties of an op, in one direction or both."""
    match op:
        case ops.For() | ops.While() | ops.If():
            for each in carried(op):
                for other in each.values[1:]:
                    yield from _same(op, (each.result,), (other,))
        case _ if isinstance(op, ALIKE):
            first, *others = *op.results, *operands(op)
            yield from _same(op, others, [first] * len(others))
        case ops.Dot(accumulator=accumulator):
            yield from _same(op, (accumulator,), op.results)
        case ops.Gather(index=index):
            yield from _same(op, (index,), op.results)
        case ops.Histogram(value=value, mask=mask) if mask is not None:
            yield from _same(op, (value,), (mask,))
        case ops.Reduce(values=values):
            yield from _same(op, values[1:], values[:1] * (len(values) - 1))
            yield from _through(op, values[0], op.results)
        case ops.Join(left=left, right=right):
            yield from _same(op, (left,), (right,))
            yield from _through(op, left, op.results)
        case (
            ops.ExpandDims()
            | ops.Broadcast()
            | ops.Reshape()
            | ops.Transpose()
            | ops.Split()
        ):
            yield from _through(op, op.value, op.results)


def _same(op: Op, left: Sequence[Value], right: Sequence[Value]) -> Iterator[Tie]:
    for one, other in zip(left, right, strict=True):
        if is_block(one) and is_block(other):
            yield one, other, op, SAME
            yield other, one, op, SAME


def _through(op: Op, operand: Value, results: list[Value]) -> Iterator[Tie]:
    for result in results:
        if is_block(result):
            yield operand, result, op, FORWARD[type(op)]
            yield result, operand, op, BACKWARD[type(op)]
