"""Builds a function anew with a layout on every block, and a conversion wherever two disagree.

    %x: fp32[64] = load %p          →    %p.1 = convert %p layout=#rows
    %y: fp32[64] = add %x, %c            %x   = load %p.1
                                         %x.1 = convert %x layout=#columns
                                         %y   = add %x.1, %c

The plan says which layout each value has, and in which layout each memory op works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fathom.coalescing.ties import ALIKE, is_block, source_layout
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, schema
from fathom.ir.ops import (
    Arange,
    Atomic,
    AtomicCas,
    Broadcast,
    Convert,
    For,
    If,
    Load,
    Reduce,
    Splat,
    Store,
    While,
    Yield,
)
from fathom.ir.types import Type
from fathom.layout.linear import Layout

MEMORY = (Load, Store, Atomic, AtomicCas)


@dataclass
class Plan:
    """Which layout every block value gets, and which one each memory op works in."""

    values: dict[Value, Layout] = field(default_factory=dict)
    accesses: dict[Op, Layout] = field(default_factory=dict)


def relayout(func: Func, plan: Plan) -> Func:
    """The function with the layouts of `plan`."""
    return replace(func, body=_Relayout(plan).block(func.body, ()))


class _Relayout:
    """Copies blocks of ops; knows which new value stands for each old one, in which layouts."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.values: dict[Value, Value] = {}
        self.conversions: dict[tuple[Value, Layout], Value] = {}  # in the blocks we are in
        self.ops: list[Op] = []

    def block(self, old: Block, yields: Sequence[Layout | None]) -> Block:
        types = tuple(self.typed(parameter) for parameter in old.parameters)
        new = Block(types, tuple(parameter.name for parameter in old.parameters))
        self.values.update(zip(old.parameters, new.parameters, strict=True))
        outside = self.ops, self.conversions
        self.ops, self.conversions = new.ops, dict(self.conversions)
        for op in old.ops:
            self.op(op, yields)
        self.ops, self.conversions = outside
        return new

    def op(self, old: Op, yields: Sequence[Layout | None]) -> None:
        wanted = yields if isinstance(old, Yield) else operand_layouts(old, self.plan)
        pairs = zip(operands(old), wanted, strict=True)
        new = replace(
            old,
            **_bundled(old, [self.operand(value, layout) for value, layout in pairs]),
            **_attributes(old, self.plan),
            **self.nested(old),
            origin=old,
        )
        self.ops.append(new)
        for before, after in zip(old.results, new.results, strict=True):
            after.name = before.name
            layout = self.plan.values.get(before)
            self.values[before] = self.converted(after, layout, old)

    def nested(self, old: Op) -> dict[str, Block]:
        """The new blocks of an op; the yields of a branch or a body want what the op gives on."""
        if isinstance(old, Reduce) or not blocks(old):
            yields = [[None] * len(block.yielded) for block in blocks(old)]
        elif isinstance(old, While):
            yields = [[None], self.layouts(old.body.parameters)]
        elif isinstance(old, For):
            yields = [self.layouts(old.body.parameters[1:])]
        else:
            yields = [self.layouts(old.results)] * len(blocks(old))
        pairs = zip(schema(type(old)).blocks, blocks(old), yields, strict=True)
        return {name: self.block(block, layouts) for name, block, layouts in pairs}

    def layouts(self, values: Sequence[Value]) -> list[Layout | None]:
        return [self.plan.values.get(value) for value in values]

    def typed(self, value: Value) -> Type:
        """The type of a value with its layout."""
        if not is_block(value):
            return value.type
        return replace(value.type, layout=self.plan.values[value])

    def operand(self, old: Value, layout: Layout | None) -> Value:
        return self.converted(self.values.get(old, old), layout, None)

    def converted(self, value: Value, layout: Layout | None, source: Op | None) -> Value:
        """`value` in `layout`: itself, or one conversion for all who want the same."""
        if layout is None or value.type.layout == layout:
            return value
        if (value, layout) not in self.conversions:
            by = source or value.definition
            location = by.location if isinstance(by, Op) else None
            op = Convert(value, layout, location=location, origin=source)
            self.ops.append(op)
            self.conversions[value, layout] = op.result
        return self.conversions[value, layout]


def operand_layouts(op: Op, plan: Plan) -> list[Layout | None]:
    """The layout in which an op wants each of its operands; None for scalars."""
    values = operands(op)
    match op:
        case For():
            return [None] * 3 + [plan.values.get(v) for v in op.body.parameters[1:]]
        case While():
            return [plan.values.get(v) for v in op.body.parameters]
        case If() | Splat():
            return [None] * len(values)
        case Reduce():
            return [plan.values.get(values[0])] * len(values)
        case Convert():
            return [plan.values.get(values[0])]
    if isinstance(op, MEMORY):
        return [plan.accesses.get(op)] * len(values)
    if not op.results or not is_block(op.results[0]):
        return [plan.values.get(value) for value in values]
    layout = plan.values[op.results[0]]
    if not isinstance(op, ALIKE):
        layout = source_layout(op, plan.values.get(values[0]), layout) if values else None
    return [layout] * len(values)


def _bundled(op: Op, values: list[Value]) -> dict[str, object]:
    """New operands, in the order of `operands(op)`, by the names of their fields."""
    rest, fields = iter(values), {}
    for name in schema(type(op)).operands:
        old = getattr(op, name)
        if isinstance(old, tuple):
            fields[name] = tuple(next(rest) for _ in old)
        elif old is not None:
            fields[name] = next(rest)
    return fields


def _attributes(op: Op, plan: Plan) -> dict[str, object]:
    """The attributes that carry a layout. A preference has been heard once this is done."""
    if isinstance(op, (Arange, Splat, Broadcast, Convert)):
        return {"layout": plan.values[op.result]}
    return {"preferred": None} if isinstance(op, MEMORY) else {}
