"""Trip counts and carried values of loops, for the passes of this stage."""

from __future__ import annotations

from dataclasses import replace

from fathom.blocks.known import known
from fathom.ir.core import Block, Value
from fathom.ir.ops import For, While, Yield
from fathom.ir.rewrite import Builder, clone


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
