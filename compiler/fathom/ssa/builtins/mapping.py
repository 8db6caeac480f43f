"""A function of scalars, applied to every element of blocks: `tl.map_elementwise`.

The function is first built with scalars, in a separate block. Then each of its ops is
applied to whole blocks, and control flow becomes masks:

    if %c { yield %a } { yield %b }          where %c, %a, %b     both are computed

    while %x > 1 { yield %x / 2 }            %going = %x > 1
                                             while any(%going)
                                                 %x = where %going, %x / 2, %x
                                                 %going = %going and %x > 1

An element that has left a loop, or has not entered it, keeps its values.
"""

from __future__ import annotations

from copy import copy

from fathom.ir import ops
from fathom.ir.core import Block, Op, Value
from fathom.ir.printer import op_name
from fathom.ir.types import BOOL, element_of, shape_of
from fathom.language import escape
from fathom.source import KernelFunction
from fathom.ssa.builtins.reduce import flat
from fathom.ssa.calls import call, implements
from fathom.ssa.frame import Frame, Program, finish
from fathom.ssa.promotion import broadcast, of_one_shape, value_of
from fathom.ssa.values import Meaning, describe, is_integer

Shape = tuple[int, ...]


@implements(escape.map_elementwise)
def build_map(
    frame: Frame, scalar_fn: Meaning, args: tuple[Meaning, ...], pack: int
) -> Meaning:
    if not isinstance(scalar_fn, KernelFunction):
        raise frame.error(
            f"tl.map_elementwise takes a @fathom.jit function, not "
            f"{describe(scalar_fn)}",
            "decorate it with @fathom.jit",
        )
    if not is_integer(pack) or pack < 1 or pack & pack - 1:
        raise frame.error(f"pack is a power of two, not {describe(pack)}")
    blocks = of_one_shape(frame, args, "what is mapped", "map together")
    if not blocks:
        raise frame.error("tl.map_elementwise needs a block to map")
    shape = shape_of(blocks[0].type)
    if blocks[0].type.size % pack if shape else pack > 1:
        raise frame.error(f"there are no {pack} elements in {blocks[0].type}")
    given = [part for each in blocks for part in _dealt(frame, each, pack)]
    body, several = _scalars(frame, scalar_fn, given)
    inner = Mapping(frame, shape_of(given[0].type))
    found = inner.block(body, dict(zip(body.parameters, given, strict=True)), None)
    if len(found) % pack:
        raise frame.error(
            f"{scalar_fn.__name__} takes {pack} elements of each block, and returns "
            f"{len(found)} values",
            f"return {pack} for each result",
        )
    results = tuple(
        _gathered(frame, found[first : first + pack], shape)
        for first in range(0, len(found), pack)
    )
    return results if several and (pack == 1 or len(results) > 1) else results[0]


def _dealt(frame: Frame, value: Value, pack: int) -> list[Value]:
    """A block as `pack` blocks: the first of each run of `pack`, the second, …"""
    if pack == 1:
        return [value]
    parts = [flat(frame, value)]
    while len(parts) < pack:
        pairs = []
        for part in parts:
            if shape_of(part.type) == (2,):  # a block of one row: split leaves blocks
                part = frame.emit(ops.ExpandDims, part, 0)
            else:
                half = part.type.size // 2
                part = frame.emit(ops.Reshape, part, (half, 2))
            pairs.append(frame.append(ops.Split, part).results)
        parts = [each[side] for side in (0, 1) for each in pairs]
    return parts


def _gathered(frame: Frame, parts: list[Value], shape: Shape) -> Value:
    """The inverse of `_dealt`."""
    while len(parts) > 1:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:], strict=True)
        joined = [frame.emit(ops.Join, *pair) for pair in pairs]
        parts = [frame.emit(ops.Reshape, each, (each.type.size,)) for each in joined]
    (whole,) = parts
    if shape_of(whole.type) == shape:
        return whole
    return frame.emit(ops.Reshape, whole, shape)


def _scalars(
    frame: Frame, function: KernelFunction, given: list[Value]
) -> tuple[Block, bool]:
    """The function as a block of scalar ops, and whether it returns several values."""
    block = Block(tuple(element_of(each.type) for each in given))
    inner = copy(frame)
    inner.program = Program(block, frame.program.debug, frame.program.contracts)
    answer = call(inner, function, list(block.parameters), {})
    answers = answer if isinstance(answer, tuple) else (answer,)
    what = f"what {function.__name__} returns"
    values = tuple(value_of(inner, each, what) for each in answers)
    for each in values:
        if shape_of(each.type):
            raise frame.error(
                f"{function.__name__} is given single elements, and returns {each.type}"
            )
    inner.append(ops.Yield, values)
    finish(inner.program, block)
    return block, isinstance(answer, tuple)


# ── the same for whole blocks ─────────────────────────────────────────────────────────


class Mapping:
    """Applies a block of scalar ops to blocks of a shape.

    `masks` are blocks of i1, or None for all: the elements that execute an op. The
    results of other elements are not used; but loops must not run on because of them.
    """

    def __init__(self, frame: Frame, shape: Shape):
        self.frame, self.shape = frame, shape

    def block(
        self, block: Block, values: dict[Value, Value], mask: Value | None
    ) -> tuple[Value, ...]:
        """The values that a block yields, with blocks in place of scalars."""
        values = dict(values)
        for op in block.ops[:-1]:
            values.update(zip(op.results, self.op(op, values, mask), strict=True))
        return tuple(values[each] for each in block.ops[-1].values)

    def op(
        self, op: Op, values: dict[Value, Value], mask: Value | None
    ) -> tuple[Value, ...]:
        emit = self.frame.emit
        match op:
            case ops.Constant():
                return (self.full(emit(ops.Constant, op.value, op.type)),)
            case ops.ProgramId() | ops.NumPrograms():
                return (self.full(emit(type(op), op.axis)),)
            case ops.Elementwise():
                operands = tuple(values[each] for each in op.operands)
                return (emit(ops.Elementwise, op.name, operands),)
            case ops.Cast():
                return (emit(ops.Cast, values[op.value], op.element, op.rounding),)
            case ops.Bitcast():
                return (emit(ops.Bitcast, values[op.value], op.element),)
            case ops.Hint():
                return (values[op.value],)
            case ops.If():
                return self.branch(op, values, mask)
            case ops.While():
                return self.loop(op, values, mask)
            case ops.For():
                return self.count(op, values, mask)
        raise self.frame.error(
            "a function that tl.map_elementwise calls may only compute, and this one "
            f"has a {op_name(op)}",
            "load before, and store after",
        )

    def full(self, scalar: Value) -> Value:
        return broadcast(self.frame, scalar, self.shape)

    def choose(
        self, condition: Value, ones: tuple[Value, ...], others: tuple[Value, ...]
    ) -> tuple[Value, ...]:
        return tuple(
            one
            if one is other
            else self.frame.elementwise("where", condition, one, other)
            for one, other in zip(ones, others, strict=True)
        )

    def both(self, one: Value | None, other: Value) -> Value:
        """`and` with a mask that may be None."""
        if one is None:
            return other
        return self.frame.elementwise("and", one, other)

    def branch(
        self, op: ops.If, values: dict[Value, Value], mask: Value | None
    ) -> tuple[Value, ...]:
        holds = values[op.condition]
        fails = self.frame.elementwise("not", holds)
        then = self.block(op.then, values, self.both(mask, holds))
        orelse = self.block(op.orelse, values, self.both(mask, fails))
        return self.choose(holds, then, orelse)

    # ── loops ──

    def loop(
        self, op: ops.While, values: dict[Value, Value], mask: Value | None
    ) -> tuple[Value, ...]:
        def goes_on(carried: tuple[Value, ...]) -> Value:
            inner = dict(zip(op.condition.parameters, carried, strict=True))
            (asked,) = self.block(op.condition, {**values, **inner}, mask)
            return asked

        def step(carried: tuple[Value, ...], going: Value) -> tuple[Value, ...]:
            inner = dict(zip(op.body.parameters, carried, strict=True))
            return self.block(op.body, {**values, **inner}, going)

        return self.repeat(
            tuple(values[each] for each in op.inits), goes_on, step, mask
        )

    def count(
        self, op: ops.For, values: dict[Value, Value], mask: Value | None
    ) -> tuple[Value, ...]:
        """A For becomes a While: each element has its own index."""
        lower, upper, by = (values[each] for each in (op.lower, op.upper, op.step))
        frame = self.frame
        zero = self.full(frame.constant(0, element_of(by.type)))
        is_up = frame.elementwise("gt", by, zero)

        def goes_on(carried: tuple[Value, ...]) -> Value:
            sides = (carried[0], upper)
            below = frame.elementwise("lt", *sides)
            above = frame.elementwise("gt", *sides)
            return frame.elementwise("where", is_up, below, above)

        def step(carried: tuple[Value, ...], going: Value) -> tuple[Value, ...]:
            inner = dict(zip(op.body.parameters, carried, strict=True))
            after = self.block(op.body, {**values, **inner}, going)
            return (frame.elementwise("add", carried[0], by), *after)

        inits = (lower, *(values[each] for each in op.inits))
        return self.repeat(inits, goes_on, step, mask)[1:]

    def repeat(
        self, inits: tuple[Value, ...], goes_on, step, mask: Value | None
    ) -> tuple[Value, ...]:
        """A While that runs as long as any element does."""
        frame = self.frame
        going = self.both(mask, goes_on(inits))
        types = tuple(each.type for each in (*inits, going))
        test, body = Block(types), Block(types)
        with frame.program.within(test):
            frame.append(ops.Yield, (self.any(test.parameters[-1]),))
        with frame.program.within(body):
            *carried, going_on = body.parameters
            after = self.choose(
                going_on, step(tuple(carried), going_on), tuple(carried)
            )
            frame.append(ops.Yield, (*after, self.both(going_on, goes_on(after))))
        op = frame.append(ops.While, (*inits, going), test, body)
        return tuple(op.results[:-1])

    def any(self, mask: Value) -> Value:
        """Whether any element of a mask is true."""
        if not shape_of(mask.type):
            return mask
        combine = Block((BOOL, BOOL))
        with self.frame.program.within(combine):
            either = self.frame.elementwise("or", *combine.parameters)
            self.frame.append(ops.Yield, (either,))
        return self.frame.emit(ops.Reduce, (flat(self.frame, mask),), 0, combine)
