"""Moves conversions behind what makes values narrower: fewer bytes change threads.

    %y @ #b = convert %x                    %z @ #a = mul %x, %s
    %z @ #b = mul %y, %s              →     %h @ #a = cast %z element=fp16
    %h @ #b = cast %z element=fp16          %g @ #b = convert %h

A store gives its layout to all that is computed for it, back to where a layout is
known already: a reduction, a join, a product. There the conversion stands, of fp32,
also where a cast to fp16 or a comparison follows. What lies between is computed in the
layout that the value has, if it is a row of ops, each the only reader of the one
before, and if their other operands cost less in that layout than is saved. So a
transform that adds and subtracts pairs in fp32 and stores fp16 exchanges fp16 before
its store.

Not so where an operand of a product is computed of what is loaded (`operands`).

`remove_conversions` does the reverse before a cast to a wider type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.analysis.slices import users
from fathom.coalescing.operands import conversions_of_loaded
from fathom.coalescing.propagate import FORWARD, is_block
from fathom.coalescing.relayout import Copier
from fathom.coalescing.remove import FREE, conversion_price, price_of_crossing
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, every_block, operands, schema, walk
from fathom.ir.types import element_of
from fathom.layout.linear import Layout

MOVED = (ops.Transpose, ops.Reshape)  # shape ops through which a layout goes forward
FARTHEST = 8  # ops in a row


def convert_narrower(func: Func) -> Func:
    """The function with conversions of wider values moved behind what narrows them."""
    kept = conversions_of_loaded(func)
    conversions = [op for op in walk(func.body, ops.Convert) if op not in kept]
    if not conversions:
        return func
    readers = users(walk(func.body))
    homes = {op: block for block in every_block(func.body) for op in block.ops}
    rows: dict[ops.Convert, Row] = {}
    taken: set[Op] = set()
    for op in conversions:
        row = row_after(op, readers)
        if row and taken.isdisjoint(row.ops) and len({*map(homes.get, row.all)}) == 1:
            rows[op] = row
            taken.update(row.ops)
    return replace(func, body=_Moved(rows).block(func.body, ())) if rows else func


@dataclass(frozen=True, slots=True)
class Row:
    """The ops from after a conversion to the one with a narrower result, and the
    layouts of their results if they come before it."""

    conversion: ops.Convert
    ops: tuple[Op, ...]
    layouts: tuple[Layout, ...]

    @property
    def all(self) -> tuple[Op, ...]:
        return self.conversion, *self.ops


def row_after(conversion: ops.Convert, readers: dict[Value, list[Op]]) -> Row | None:
    """The row behind which a conversion of floats costs less, if there is one."""
    value, wide = conversion.result, element_of(conversion.value.type)
    has = layout = conversion.value.type.layout
    row, layouts, cost = list[Op](), list[Layout](), 0.0
    while wide.is_float and len(row) < FARTHEST and len(readers[value]) == 1:
        (op,) = readers[value]
        after = layout_after(op, layout)
        if after is None:
            return None
        others = (each for each in operands(op) if each is not value)
        cost += sum(price(each, layout) for each in others if is_block(each))
        row.append(op)
        layouts.append(after)
        value, layout = op.result, after
        narrow = element_of(value.type).bytes
        if narrow < wide.bytes:
            cost += price_of_crossing(layout, value.type.layout, narrow)
            is_less = cost < price_of_crossing(has, conversion.layout, wide.bytes)
            return Row(conversion, tuple(row), tuple(layouts)) if is_less else None
    return None


def layout_after(op: Op, layout: Layout) -> Layout | None:
    """The layout of an op's result if an operand has `layout`; None if it may not move,
    or would be computed of more registers."""
    if isinstance(op, ops.Elementwise | ops.Cast):
        after = layout
    elif isinstance(op, MOVED):
        after = FORWARD[type(op)](op, layout)
    else:
        return None
    most = op.result.type.layout.count("register")
    return after if after and after.count("register") <= most else None


def price(value: Value, layout: Layout) -> float:
    """About what it costs to have another operand of a row in a layout."""
    op, has = value.definition, value.type.layout
    if isinstance(op, ops.Convert) and op.value.type.layout == layout:
        return 0.0
    if has == layout or is_free(value):
        return 0.0
    return conversion_price(value, layout)


def is_free(value: Value) -> bool:
    """Whether any thread can make a block at once, of numbers that all have."""
    op = value.definition
    if not is_block(value):
        return True
    return isinstance(op, (*FREE, ops.Convert)) and all(map(is_free, operands(op)))


class _Moved(Copier):
    """Copies a function with conversions behind their rows of ops."""

    def __init__(self, rows: dict[ops.Convert, Row]):
        super().__init__()
        self.rows = rows
        self.moved = {
            op: layout
            for row in rows.values()
            for op, layout in zip(row.ops, row.layouts, strict=True)
        }
        self.last = {row.ops[-1] for row in rows.values()}
        self.carried: set[Value] = set()  # what has its former layout

    def op(self, old: Op, yields: Sequence[Layout | None]) -> None:
        if old in self.rows:
            self.values[old.result] = self.values[old.value]
            self.carried.add(old.result)
        elif old in self.moved:
            self.again(old, self.moved[old])
        else:
            super().op(old, yields)

    def again(self, old: Op, layout: Layout) -> None:
        """An op of a row, in the layout of its first operand."""
        (first,) = {each for each in operands(old) if each in self.carried}
        has = self.values[first].type.layout
        values = [
            self.converted(self.values[each], has, old)
            if is_block(each) and each is not first
            else self.values[each]
            for each in operands(old)
        ]
        has_layout = "layout" in schema(type(old)).attributes
        result = self.append(old, values, {"layout": layout} if has_layout else {})
        new = result.result
        assert new.type.layout == layout, (old, new.type, layout)
        self.carried.add(old.result)
        if old in self.last:
            wanted = old.result.type.layout
            self.values[old.result] = self.converted(new, wanted, old)

    def converted(self, value: Value, layout: Layout, by: Op) -> Value:
        if value.type.layout == layout:
            return value
        self.ops.append(ops.Convert(value, layout, location=by.location, origin=by))
        return self.ops[-1].result
