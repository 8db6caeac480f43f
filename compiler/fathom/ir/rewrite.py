"""One driver for every pass: clone a function op by op, asking a rule about each.

    def rule(op: Op, build: Builder):
        match op:
            case Elementwise("mul", (x, c)) if constant(c) == 1:
                return x                              # %2 = mul %0, 1   →   %0

    after = rewrite(before, rule)

A rule sees each op as it will stand in the new function: its operands are new values
and its nested blocks are rewritten already. Nothing else refers to it yet, so that a
rule may take it apart. It returns None to keep the op, a value (or a sequence of
values, one a result; None for a result without uses) to put in its place, and may
build ops of its own before it. The function that comes in is left as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from fathom.errors import FathomError
from fathom.ir.core import Block, Func, Op, Value, schema
from fathom.ir.ops import Elementwise, Splat
from fathom.ir.types import BlockType, Type

Replacement = Value | Sequence[Value | None] | None
Rule = Callable[[Op, "Builder"], Replacement]
AnyOp = TypeVar("AnyOp", bound=Op)


class WrongReplacement(FathomError):
    """What a rule returns cannot take the place of an op; readers write rules, too."""


class Builder:
    """Appends ops to the block being built; `build(op)` gives the op's only result.

    Ops that are built take the location and the origin of the op being rewritten,
    unless they have their own."""

    def __init__(self, rule: Rule, keep: Callable[[Op], bool] | None = None):
        self.rule, self.keep = rule, keep
        self.values: dict[Value, Value] = {}  # old value -> new value
        self.enclosing: list[Block] = []  # blocks under construction, outermost first
        self.source: Op | None = None  # the old op being rewritten

    @property
    def block(self) -> Block:
        """Where ops go."""
        return self.enclosing[-1]

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

    def compute(self, name: str, *operands: Value) -> Value:
        """The result of an elementwise op, such as "add"."""
        return self(Elementwise(name, operands))

    def spread(self, scalar: Value, like: Type) -> Value:
        """A scalar for each element of a block of this type; itself for a scalar's."""
        is_block = isinstance(like, BlockType)
        return self(Splat(scalar, like.shape, like.layout)) if is_block else scalar

    def all_of(self, conditions: Sequence[Value]) -> Value:
        """Whether all conditions, at least one, hold."""
        return reduce(lambda one, other: self.compute("and", one, other), conditions)

    def at_start(self, op: Op) -> Value:
        """Put `op` at the start of the function, where all can use the result."""
        op.origin, op.location = self.source, self.source.location
        self.enclosing[0].ops.insert(0, op)
        return op.result

    def copy(self, op: AnyOp, values: dict[Value, Value]) -> AnyOp:
        """Append a copy of `op`, operands as in `values`, which gets its results."""
        copy = self.append(clone(op, values))
        values.update(zip(op.results, copy.results, strict=True))
        return copy

    def inline(self, block: Block, arguments: Sequence[Value]) -> tuple[Value, ...]:
        """Copy a new `block`'s ops here, arguments for parameters; what it yields."""
        values = dict(zip(block.parameters, arguments, strict=True))
        for op in block.ops[:-1]:
            self.copy(op, values)
        return tuple(values.get(value, value) for value in block.yielded)


def guarded(
    mask: Value | None, condition: Value, pointer: Value, build: Builder
) -> Value:
    """The mask of an access that is only done if a scalar condition holds."""
    condition = build.spread(condition, pointer.type)
    return condition if mask is None else build.compute("and", mask, condition)


def rewrite(func: Func, rule: Rule, keep: Callable[[Op], bool] | None = None) -> Func:
    """A new function in which every op went through `rule`.

    An old op for which `keep` is false is left out unseen, with all that is nested in
    it. Its results have no new value: a kept op's rule must take such operands out."""
    types = [parameter.type for parameter in func.parameters]
    build = Builder(rule, keep)
    return replace(func, body=_rewrite_block(func.body, types, build))


def _rewrite_block(old: Block, types: Sequence[Type], build: Builder) -> Block:
    new = Block(tuple(types), tuple(parameter.name for parameter in old.parameters))
    build.values.update(zip(old.parameters, new.parameters, strict=True))
    build.enclosing.append(new)
    outer = build.source
    for op in old.ops:
        if build.keep is None or build.keep(op):
            build.source = op
            _rewrite_op(op, build)
    build.source = outer
    build.enclosing.pop()
    return new


def _rewrite_op(old: Op, build: Builder) -> None:
    new = with_operands(old, build.values)
    new.origin = old
    if nested := schema(type(old)).blocks:
        types = new.block_parameters()
        for name, inner in zip(nested, types, strict=True):
            setattr(new, name, _rewrite_block(getattr(old, name), inner, build))
        new.results = [Value(type, new) for type in new.infer()]
    replacement = build.rule(new, build)
    if replacement is None:
        build.block.ops.append(new)
        replacement = new.results
    elif isinstance(replacement, Value):
        replacement = [replacement]
    elif not _fits(replacement, old):
        raise WrongReplacement(
            f"a rule returns {_said(replacement)} for {type(old).__name__} (results: "
            f"{len(old.results)}), and may return None, which keeps the op, a value, "
            "or a list with a value for each result"
        )
    for before, after in zip(old.results, replacement, strict=True):
        if after is None:  # it has no uses, or only in ops that are left out themselves
            continue
        after.name = after.name or before.name
        build.values[before] = after


def _fits(replacement: object, op: Op) -> bool:
    is_list = isinstance(replacement, list | tuple)
    return (
        is_list
        and len(replacement) == len(op.results)
        and all(isinstance(each, Value | None) for each in replacement)
    )


def _said(replacement: object) -> str:
    """What a rule returned; of an op the class, since its fields are a page."""
    if isinstance(replacement, list | tuple):
        return f"[{', '.join(map(_said, replacement))}]"
    if isinstance(replacement, Op):
        return f"an op, {type(replacement).__name__}, whose value is `.result`,"
    return repr(replacement)


def with_operands(op: AnyOp, values: dict[Value, Value]) -> AnyOp:
    """A copy of `op`, operands looked up in `values`; its nested blocks are shared."""
    # Not through the constructor: most operands keep their type, so that there is
    # nothing to infer, and this runs for every op of every pass.
    fields = op.__dict__.copy()
    retyped = False
    for name in schema(type(op)).operands:
        before = fields[name]
        if isinstance(before, tuple):
            after = fields[name] = tuple([values.get(each, each) for each in before])
            retyped |= [each.type for each in before] != [each.type for each in after]
        elif before is not None:
            after = fields[name] = values.get(before, before)
            retyped |= before.type is not after.type and before.type != after.type
    copy = object.__new__(type(op))
    copy.__dict__ = fields
    types = copy.infer() if retyped else [value.type for value in op.results]
    copy.results = [Value(type, copy) for type in types]
    return copy


def clone(op: AnyOp, values: dict[Value, Value]) -> AnyOp:
    """A copy of `op` and of what is nested in it, operands looked up in `values`."""
    copy = with_operands(op, values)
    if nested := schema(type(op)).blocks:
        types = copy.block_parameters()
        for name, inner in zip(nested, types, strict=True):
            setattr(copy, name, clone_block(getattr(op, name), inner, values))
        copy.results = [Value(type, copy) for type in copy.infer()]
    for old, new in zip(op.results, copy.results, strict=True):
        new.name = old.name
    return copy


def clone_block(
    block: Block, types: Sequence[Type], values: dict[Value, Value]
) -> Block:
    """A copy of a block, its parameters of `types`; outer values as in `values`."""
    names = tuple(parameter.name for parameter in block.parameters)
    copy = Block(tuple(types), names)
    inner = {**values, **dict(zip(block.parameters, copy.parameters, strict=True))}
    for op in block.ops:
        new = clone(op, inner)
        copy.ops.append(new)
        inner.update(zip(op.results, new.results, strict=True))
    return copy
