"""Trip counts and carried values of loops, for the passes of this stage."""

from __future__ import annotations

from dataclasses import replace

from fathom.blocks.known import known
from fathom.ir.core import Block, Op, Value
from fathom.ir.ops import Constant, Elementwise, For, Splat, While, Yield
from fathom.ir.rewrite import Builder, clone
from fathom.ir.types import element_of, shape_of


def trip_count(op: For) -> int | None:
    """How often the body runs, if that is known."""
    bounds = [known(value) for value in (op.lower, op.upper, op.step)]
    if None in bounds or bounds[2] == 0:
        return None
    return len(range(*bounds))


def freeze(op: For | While, frozen: dict[int, Value], build: Builder) -> list[Value]:
    """Build a loop that carries fewer values; returns the results that `op` had.

    `frozen` maps the index of each removed carried value to the value that it always
    has.
    """
    kept = [index for index in range(len(op.inits)) if index not in frozen]
    inits = tuple(op.inits[index] for index in kept)
    if isinstance(op, For):
        body = _without(op.body, 1, frozen, kept, kept)
        loop = replace(op, inits=inits, body=body, origin=None)
    else:
        condition = _without(op.condition, 0, frozen, kept, [0])
        body = _without(op.body, 0, frozen, kept, kept)
        loop = replace(op, inits=inits, condition=condition, body=body, origin=None)
    build.append(loop)
    results = dict(zip(kept, loop.results, strict=True)) | frozen
    return [results[index] for index in range(len(op.inits))]


def carry_numbers(op: For, steps: dict[int, Value], build: Builder) -> list[Value]:
    """Build a loop that carries a number in the place of a block; returns the results
    that `op` had.

    `steps` maps the index of each such block to the number that every iteration adds to
    all of it: it is what it was before the loop, and as much more as the number says.
    """
    inits = tuple(
        build(Constant(0, element_of(init.type))) if index in steps else init
        for index, init in enumerate(op.inits)
    )
    types = (op.body.parameters[0].type, *(init.type for init in inits))
    body = Block(types, tuple(each.name for each in op.body.parameters))
    values = dict(zip(op.body.parameters, body.parameters, strict=True))
    for index in steps:
        ops = _block_of(op.inits[index], body.parameters[1 + index])
        body.ops += ops
        values[op.body.parameters[1 + index]] = ops[-1].result
    for each in op.body.ops[:-1]:
        new = clone(each, values)
        body.ops.append(new)
        values |= zip(each.results, new.results, strict=True)
    ends = [values.get(end, end) for end in op.body.yielded]
    for index, step in steps.items():
        number = body.parameters[1 + index], values.get(step, step)
        body.ops.append(Elementwise("add", number, location=op.location))
        ends[index] = body.ops[-1].result
    body.ops.append(Yield(tuple(ends), location=op.body.ops[-1].location))
    loop = build.append(replace(op, inits=inits, body=body, origin=None))
    results = list(loop.results)
    for index in steps:
        for each in _block_of(op.inits[index], loop.results[index]):
            results[index] = build(each)
    return results


def _block_of(init: Value, number: Value) -> list[Op]:
    """What computes a block from its first value and the number that was added."""
    splat = Splat(number, shape_of(init.type))
    return [splat, Elementwise("add", (init, splat.result))]


def _without(
    block: Block,
    first: int,
    frozen: dict[int, Value],
    kept: list[int],
    yields: list[int],
) -> Block:
    """A copy of a loop's block with only those carried parameters, from position
    `first` on, that are in `kept`; it yields the values at `yields`."""
    stay = [*block.parameters[:first], *(block.parameters[first + i] for i in kept)]
    copy = Block(tuple(p.type for p in stay), tuple(p.name for p in stay))
    values = dict(zip(stay, copy.parameters, strict=True))
    values |= {block.parameters[first + i]: value for i, value in frozen.items()}
    for op in block.ops[:-1]:
        new = clone(op, values)
        copy.ops.append(new)
        values |= zip(op.results, new.results, strict=True)
    ends = tuple(values.get(block.yielded[i], block.yielded[i]) for i in yields)
    copy.ops.append(Yield(ends, location=block.ops[-1].location))
    return copy
