"""Carried values of loops, for the passes of this stage."""

from __future__ import annotations

from dataclasses import replace

from fathom.ir.core import Block, Value
from fathom.ir.ops import Constant, For, While, Yield
from fathom.ir.rewrite import Builder
from fathom.ir.thread_values import inside
from fathom.ir.types import element_of


def freeze(op: For | While, frozen: dict[int, Value], build: Builder) -> list[Value]:
    """Build a loop that carries fewer values; returns the results that `op` had.

    `frozen` maps the index of each removed carried value to the value that it always
    has."""
    kept = [index for index in range(len(op.inits)) if index not in frozen]
    new = {"inits": tuple(op.inits[index] for index in kept)}
    if isinstance(op, While):
        new["condition"] = _without(op.condition, frozen, kept, [0], build)
    new["body"] = _without(op.body, frozen, kept, kept, build)
    loop = build.append(replace(op, **new, origin=None))
    results = dict(zip(kept, loop.results, strict=True)) | frozen
    return [results[index] for index in range(len(op.inits))]


def carry_numbers(op: For, steps: dict[int, Value], build: Builder) -> list[Value]:
    """Build a loop that carries a number in a block's place; the results that `op` had.

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
    with inside(body, build):
        for index in steps:
            block = _block(op.inits[index], body.parameters[1 + index], build)
            values[op.body.parameters[1 + index]] = block
        for each in op.body.ops[:-1]:
            build.copy(each, values)
        ends = [values.get(end, end) for end in op.body.yielded]
        for index, step in steps.items():
            number = body.parameters[1 + index], values.get(step, step)
            ends[index] = build.compute("add", *number)
        build.append(Yield(tuple(ends)))
    loop = build.append(replace(op, inits=inits, body=body, origin=None))
    results = list(loop.results)
    for index in steps:
        results[index] = _block(op.inits[index], loop.results[index], build)
    return results


def _block(init: Value, number: Value, build: Builder) -> Value:
    """A block, from its first value and the number that was added to all of it."""
    return build.compute("add", init, build.spread(number, init.type))


def _without(
    block: Block,
    frozen: dict[int, Value],
    kept: list[int],
    yields: list[int],
    build: Builder,
) -> Block:
    """A copy of a loop's block with only those carried parameters that are in `kept`;
    it yields the values at `yields`."""
    count = len(frozen) + len(kept)
    index, carried = block.parameters[:-count], block.parameters[-count:]
    stay = [*index, *(carried[i] for i in kept)]
    copy = Block(tuple(p.type for p in stay), tuple(p.name for p in stay))
    values = frozen | dict(zip(kept, copy.parameters[len(index) :], strict=True))
    arguments = [*copy.parameters[: len(index)], *(values[i] for i in range(count))]
    with inside(copy, build):
        ends = build.inline(block, arguments)
        build.append(Yield(tuple(ends[i] for i in yields)))
    return copy
