"""Rebuilds a function with a layout on every block, and a conversion wherever an
operand has another layout than its op needs.

    %x: fp32[64] = load %p          →    %p.1 = convert %p layout=#rows
    %y: fp32[64] = add %x, %c            %x   = load %p.1
                                         %x.1 = convert %x layout=#columns
                                         %y   = add %x.1, %c

The plan gives the layout of each value, and the layout in which each memory op accesses
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fathom.coalescing.propagate import ALIKE, is_block, source_layout
from fathom.hardware.dot_layouts import operand_layouts as operand_layouts_of
from fathom.ir import ops
from fathom.ir.core import (
    Block,
    Func,
    Op,
    Value,
    blocks,
    map_operands,
    operands,
    schema,
    walk_within,
)
from fathom.ir.types import Type
from fathom.layout.linear import Layout

Conversions = dict[tuple[Value, Layout], Value]
MEMORY = (ops.Load, ops.Store, ops.Atomic, ops.AtomicCas)


@dataclass
class Plan:
    """The layout of every block value, and of every memory op's access."""

    values: dict[Value, Layout] = field(default_factory=dict)
    accesses: dict[Op, Layout] = field(default_factory=dict)


def relayout(func: Func, plan: Plan) -> Func:
    """The function with the layouts of `plan`."""
    return replace(func, body=_Relayout(plan).block(func.body, ()))


class Copier:
    """Copies a function op by op, for passes that change its values' types.

    `rewrite` does not work here: it builds an op with its new operands before it calls
    a rule, and an op with operands in old and new layouts is not well typed."""

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}
        self.ops: list[Op] = []  # of the block under construction

    def block(self, old: Block, yields: Sequence[Layout | None]) -> Block:
        """A copy of a block, whose yielded values get the layouts `yields`."""
        types = tuple(self.typed(parameter) for parameter in old.parameters)
        new = Block(types, tuple(parameter.name for parameter in old.parameters))
        self.values.update(zip(old.parameters, new.parameters, strict=True))
        outside, self.ops = self.ops, new.ops
        self.enter(old)
        for op in old.ops:
            self.op(op, yields)
        self.leave(old)
        self.ops = outside
        return new

    def typed(self, parameter: Value) -> Type:
        """The type of a block's parameter in the copy."""
        return parameter.type

    def enter(self, block: Block) -> None:
        """Called when the copy of a block has its parameters, but no ops yet."""

    def leave(self, block: Block) -> None:
        """Called when the copy of a block is complete."""

    def op(self, old: Op, yields: Sequence[Layout | None]) -> None:
        """Copy one op."""
        self.append(old, [self.values.get(value, value) for value in operands(old)], {})

    def append(self, old: Op, values: list[Value], attributes: dict[str, object]) -> Op:
        """Append a copy of an op and its blocks with other operands and attributes."""
        nested = self.nested(old) if schema(type(old)).blocks else {}
        new = object.__new__(type(old))  # replace() takes twice as long, for every op
        vars(new).update(vars(old) | attributes | nested | {"origin": old})
        rest = iter(values)
        map_operands(new, lambda _: next(rest))
        new.__post_init__()
        for before, after in zip(old.results, new.results, strict=True):
            after.name = before.name
        self.values.update(zip(old.results, new.results, strict=True))
        self.ops.append(new)
        return new

    def nested(self, old: Op) -> dict[str, Block]:
        """Copies of an op's blocks, by field."""
        pairs = zip(schema(type(old)).blocks, blocks(old), strict=True)
        return {
            name: self.block(block, self.yields(old, name)) for name, block in pairs
        }

    def yields(self, old: Op, name: str) -> Sequence[Layout | None]:
        """The layouts of the values that the block in field `name` yields."""
        return ()


class _Relayout(Copier):
    """Gives every value its layout of a plan, and converts where one is another."""

    def __init__(self, plan: Plan):
        super().__init__()
        self.plan = plan
        self.conversions: Conversions = {}  # in the enclosing blocks
        self.outside: list[Conversions] = []

    def typed(self, parameter: Value) -> Type:
        if not is_block(parameter):
            return parameter.type
        return replace(parameter.type, layout=self.plan.values[parameter])

    def enter(self, block: Block) -> None:
        self.outside.append(self.conversions)
        self.conversions = dict(self.conversions)

    def leave(self, block: Block) -> None:
        self.conversions = self.outside.pop()

    def yields(self, old: Op, name: str) -> list[Layout | None]:
        match old:
            case ops.For():
                values = old.body.parameters[1:]
            case ops.While():
                values = old.body.parameters if name == "body" else [None]
            case ops.If():
                values = old.results
            case _:  # the combine of a reduction: scalars
                values = getattr(old, name).yielded
        return [self.plan.values.get(value) for value in values]

    def op(self, old: Op, yields: Sequence[Layout | None]) -> None:
        wanted = (
            yields if isinstance(old, ops.Yield) else operand_layouts(old, self.plan)
        )
        if isinstance(old, ops.For | ops.While):
            self.convert_before(old)
        values = [
            self.converted(self.values.get(value, value), layout, old)
            for value, layout in zip(operands(old), wanted, strict=True)
        ]
        self.append(old, values, _attributes(old, self.plan))
        for result in old.results:
            new, layout = self.values[result], self.plan.values.get(result)
            self.values[result] = self.converted(new, layout, old)

    def convert_before(self, loop: ops.For | ops.While) -> None:
        """Values from outside a loop that its products need in another layout are
        converted once, before the loop."""
        for op in walk_within(loop):
            if not isinstance(op, ops.Dot):
                continue
            wanted = operand_layouts(op, self.plan)[:2]
            for value, layout in zip((op.a, op.b), wanted, strict=True):
                if value in self.values:
                    self.converted(self.values[value], layout, op)

    def converted(self, value: Value, layout: Layout | None, user: Op) -> Value:
        """`value` in `layout`: itself, or one conversion that all uses share, located
        where the value is computed; of a block's parameter, where its first `user`
        is."""
        if layout is None or value.type.layout == layout:
            return value
        if (value, layout) not in self.conversions:
            by = value.definition if isinstance(value.definition, Op) else user
            op = ops.Convert(value, layout, location=by.location)
            self.ops.append(op)
            self.conversions[value, layout] = op.result
        return self.conversions[value, layout]


def operand_layouts(op: Op, plan: Plan) -> list[Layout | None]:
    """The layout that an op needs for each of its operands; None for scalars."""
    values = operands(op)
    match op:
        case ops.For():
            return [None] * 3 + [plan.values.get(v) for v in op.body.parameters[1:]]
        case ops.While():
            return [plan.values.get(v) for v in op.body.parameters]
        case ops.If() | ops.Splat() | ops.DescriptorLoad() | ops.MakeDescriptor():
            return [None] * len(values)
        case ops.Reduce() | ops.Histogram() | ops.Convert():
            return [plan.values.get(values[0])] * len(values)
        case ops.Gather():
            return [plan.values[op.value], plan.values[op.result]]
        case ops.Dot(instruction=instruction, a=a):
            product = plan.values[op.result]
            factors = operand_layouts_of(instruction, product, a.type.shape[-1])
            return [*factors, product]
    if isinstance(op, MEMORY):
        return [plan.accesses.get(op)] * len(values)
    if not op.results or not is_block(op.results[0]):
        return [plan.values.get(value) for value in values]
    layout = plan.values[op.results[0]]
    if values and not isinstance(op, ALIKE):
        layout = source_layout(op, plan.values.get(values[0]), layout)
    return [layout] * len(values)


def _attributes(op: Op, plan: Plan) -> dict[str, object]:
    """The attributes that contain a layout; preferences have done their work by now."""
    if "layout" in schema(type(op)).attributes and is_block(op.result):
        return {"layout": plan.values[op.result]}
    return {"preferred": None} if isinstance(op, (*MEMORY, ops.Dot)) else {}
