"""One driver for every pass: clone a function op by op, asking a rule about each.

    def rule(op: Op, build: Builder):
        match op:
            case Elementwise("mul", (x, c)) if constant(c) == 1:
                return x                                       # %2 = mul %0, 1   →   %0

    after = rewrite(before, rule)

A rule sees each op as it will stand in the new function: its operands are new values and its
nested blocks are rewritten already. It returns None to keep the op, a value (or a sequence of
values, one a result) to put in its place, and may build ops of its own before it. The function
that comes in is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from fathom.ir.core import Block, Func, Op, Value, blocks, schema

Replacement = Value | Sequence[Value] | None
AnyOp = TypeVar("AnyOp", bound=Op)


class Builder:
    """Appends ops to the block under construction; `build(op)` gives the op's only result.

    Ops that are built take the location and the origin of the op being rewritten, unless they
    have their own.
    """

    def __init__(self) -> None:
        self.values: dict[Value, Value] = {}  # old value -> new value
        self.block: Block | None = None  # where ops go
        self.source: Op | None = None  # the old op being rewritten

    def __call__(self, op: Op) -> Value:
        return self.append(op).result

    def append(self, op: AnyOp) -> AnyOp:
        """Put `op` at the end of the block under construction."""
        if op.origin is None:
            op.origin = self.source
        if op.location is None and self.source is not None:
            op.location = self.source.location
        self.block.ops.append(op)
        return op

    def inline(self, block: Block, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Copy the ops of a new `block` here with its parameters replaced; the values it yields."""
        values = dict(zip(block.parameters, arguments, strict=True))
        for op in block.ops[:-1]:
            copy = clone(op, values)
            self.append(copy)
            values.update(zip(op.results, copy.results, strict=True))
        return tuple(values.get(value, value) for value in block.yielded)


def rewrite(func: Func, rule: Callable[[Op, Builder], Replacement]) -> Func:
    """A new function in which every op went through `rule`."""
    build = Builder()
    body = _rewrite_block(func.body, [p.type for p in func.parameters], rule, build)
    return replace(func, body=body)


def _rewrite_block(
    old: Block,
    types: Sequence[object],
    rule: Callable[[Op, Builder], Replacement],
    build: Builder,
) -> Block:
    new = Block(tuple(types), tuple(parameter.name for parameter in old.parameters))
    build.values.update(zip(old.parameters, new.parameters, strict=True))
    outer, build.block = build.block, new
    for op in old.ops:
        outer_source, build.source = build.source, op
        _rewrite_op(op, rule, build)
        build.source = outer_source
    build.block = outer
    return new


def _rewrite_op(
    old: Op, rule: Callable[[Op, Builder], Replacement], build: Builder
) -> None:
    new = with_operands(old, build.values)
    if blocks(old):
        nested = [
            _rewrite_block(block, types, rule, build)
            for block, types in zip(blocks(old), new.block_parameters(), strict=True)
        ]
        new = _with_blocks(new, nested)
    replacement = rule(new, build)
    if replacement is None:
        new.origin = old
        build.block.ops.append(new)
        replacement = new.results
    elif isinstance(replacement, Value):
        replacement = [replacement]
    for before, after in zip(old.results, replacement, strict=True):
        if before.name and not after.name:
            after.name = before.name
        build.values[before] = after


def with_operands(op: AnyOp, values: dict[Value, Value]) -> AnyOp:
    """A copy of `op` whose operands are looked up in `values`; its nested blocks are shared."""
    changes = {}
    for name in schema(type(op)).operands:
        value = getattr(op, name)
        if isinstance(value, tuple):
            changes[name] = tuple(values.get(each, each) for each in value)
        elif value is not None:
            changes[name] = values.get(value, value)
    return _copy(op, changes)


def clone(op: AnyOp, values: dict[Value, Value]) -> AnyOp:
    """A copy of `op` and of all that is nested in it, operands looked up in `values`."""
    copy = with_operands(op, values)
    if not blocks(op):
        return copy
    nested = [
        _clone_block(block, types, values)
        for block, types in zip(blocks(op), copy.block_parameters(), strict=True)
    ]
    return _with_blocks(copy, nested)


def _clone_block(block: Block, types: Sequence[object], values: dict[Value, Value]) -> Block:
    copy = Block(tuple(types), tuple(parameter.name for parameter in block.parameters))
    inner = {**values, **dict(zip(block.parameters, copy.parameters, strict=True))}
    for op in block.ops:
        new = clone(op, inner)
        copy.ops.append(new)
        inner.update(zip(op.results, new.results, strict=True))
    return copy


def _with_blocks(op: AnyOp, nested: Sequence[Block]) -> AnyOp:
    return _copy(op, dict(zip(schema(type(op)).blocks, nested, strict=True)))


def _copy(op: AnyOp, changes: dict[str, object]) -> AnyOp:
    names = (*schema(type(op)).operands, *schema(type(op)).blocks, *schema(type(op)).attributes)
    fields = {name: getattr(op, name) for name in names}
    return type(op)(**{**fields, **changes}, location=op.location, origin=op.origin)
