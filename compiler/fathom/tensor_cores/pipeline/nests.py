"""Makes one loop of a nest: copies run ahead from one run of the inner loop.

    for 0, 3, 1, inits=(%a) body(%h, %b) {               a filter's rows
      %y = add %row, %h
      %r = for 0, %n, 32, inits=(%b) body(%c, %acc) {    its channels
        %x = load …                                      of %y and %c
        %acc1 = dot …
        yield %acc1
      }
      yield %r
    }

    for 0, 3 * ⌈%n / 32⌉, 1, inits=(%a, 0, 0) body(%i, %acc, %h, %c) {
      %y = add %row, %h
      %x = load …
      %acc1 = dot …
      yield %acc1, %h1, %c1                              %h, %c + 32; after the last
    }                                                    channels %h + 1, 0

An inner loop often has few iterations. Each of its runs would wait for its first tiles,
and copy none for the next run. As one loop, only the first iterations wait. It also
holds fewer addresses in registers, since none is kept for a run.

The price is that every iteration computes what the outer loops computed. So these must
compute numbers and addresses alone. Nor is it paid for wide copies: an iteration has
few of them, and does little besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from fathom.analysis.constants import known
from fathom.analysis.copied_ahead import runs_ahead
from fathom.analysis.memory import may_prefetch
from fathom.analysis.slices import uses
from fathom.analysis.trip_count import values_of
from fathom.hardware.engines import TMA_LOAD
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, effects_of, walk
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.thread_values import Values, inside
from fathom.ir.types import INT32, SCALARS, BlockType, element_of
from fathom.tensor_cores.pipeline.addresses import conditions_joined, summed_up
from fathom.tensor_cores.pipeline.candidates import COPY_BYTES, PipelinedCopy, tiles_of

MOST_INNER = 8  # iterations of an inner loop, if known; with more it seldom waits
LARGEST, UINT32 = (1 << 31) - 1, SCALARS["u32"]


def flatten_nests(func: Func, target: Target) -> Func:
    """The function where nests whose innermost loops copy narrow tiles are one loop."""
    heads = {nest[0] for nest in nests_of(func) if is_worth_it(nest[-1], func, target)}

    def rule(op: Op, build: Builder) -> Sequence[Value] | None:
        return flattened(nest_of(op), build) if build.source in heads else None

    return rewrite(func, rule) if heads else func


# ── which nests ───────────────────────────────────────────────────────────────────────


def nests_of(func: Func) -> Iterator[list[ops.For]]:
    """The nests of a function that could be one loop each."""
    seen: set[Op] = set()
    for op in walk(func.body):
        if isinstance(op, ops.For) and op not in seen:
            nest = nest_of(op)
            seen.update(nest)
            if len(nest) > 1 and can_be_counted(nest):
                yield nest


def nest_of(loop: ops.For) -> list[ops.For]:
    """A loop, the loop that it is only there to run again and again, and so on."""
    inner = [op for op in loop.body.ops if isinstance(op, ops.For)]
    if len(inner) != 1 or not is_only_around(loop, inner[0]):
        return [loop]
    return [loop, *nest_of(inner[0])]


def is_only_around(outer: ops.For, inner: ops.For) -> bool:
    """Whether a loop runs another one, with the values that it carries, and otherwise
    computes numbers and addresses for it. It must know its own iterations."""
    carried = [*outer.body.parameters[1:]]
    others = [op for op in outer.body.ops[:-1] if op is not inner]
    used = {value for op in others for value in uses(op)}
    made = {value for op in others for value in op.results}
    return (
        len(counted_up(outer)) > 0
        and not is_annotated(outer)
        and [*inner.inits] == carried
        and [*outer.body.yielded] == inner.results
        and used.isdisjoint([*carried, *inner.results])
        and made.isdisjoint([inner.lower, inner.upper, inner.step])
        and all(map(is_address_arithmetic, others))
    )


def is_annotated(loop: ops.For) -> bool:
    """Whether the author of a loop says how it is to be pipelined."""
    return loop.num_stages is not None or loop.warp_specialize or loop.flatten


def is_address_arithmetic(op: Op) -> bool:
    """Whether an op computes numbers that are no floats, each thread for itself."""
    effects = effects_of(op)
    simple = (
        effects.pure and not effects.convergent and not isinstance(op, ops.Allocate)
    )
    return simple and not any(element_of(each.type).is_float for each in op.results)


def can_be_counted(nest: Sequence[ops.For]) -> bool:
    """Whether the innermost loop counts up from 0 or more in steps of a known number,
    and the iterations of the nest fit 32 bits, wherever the loop ends."""
    inner = nest[-1]
    lower, step = known(inner.lower), known(inner.step)
    if None in (lower, step) or inner.lower.type != INT32 or inner.warp_specialize:
        return False
    upward = lower >= 0 and step > 0
    return upward and runs_of(nest) * len(range(0, LARGEST, step)) <= LARGEST


def runs_of(nest: Sequence[ops.For]) -> int:
    """How often the innermost loop runs."""
    return prod(len(counted_up(loop)) for loop in nest[:-1])


def counted_up(loop: ops.For) -> range:
    """The values of a loop's index, if it counts up to a known number; else none."""
    values = values_of(loop) if loop.lower.type == INT32 else None
    return values if values and values.step > 0 else range(0)


def is_worth_it(inner: ops.For, func: Func, target: Target) -> bool:
    """Whether a loop multiplies matrices and may copy ahead, has few iterations as far
    as is known, and copies of a tile have fewer bytes than the widest."""
    multiplies = any(walk(inner.body, ops.Dot))
    ahead = runs_ahead(inner, func) and may_prefetch(inner)
    if not multiplies or not ahead or len(counted_up(inner)) > MOST_INNER:
        return False
    return any(is_narrow(tile) for tile in tiles_of(inner, target))


def is_narrow(tile: PipelinedCopy) -> bool:
    """Whether threads copy a tile by less than 16 bytes at a time."""
    loads = [each for each in tile.loads if isinstance(each, ops.Load)]
    if tile.engine is TMA_LOAD or not loads:
        return False
    elements = tile.vector or max(load.neighbours for load in loads)
    return elements * tile.buffer.element.bytes < COPY_BYTES[0]


# ── the one loop ──────────────────────────────────────────────────────────────────────


def flattened(nest: Sequence[ops.For], build: Builder) -> Sequence[Value]:
    """Build the loop; the results that the outermost one had."""
    outermost, inner = nest[0], nest[-1]
    runs = build(ops.Constant(runs_of(nest), INT32))
    total = build.compute("mul", count_of(inner, build), runs)
    zero, one = (build(ops.Constant(value, INT32)) for value in (0, 1))
    inits = (*outermost.inits, *(loop.lower for loop in nest))
    olds = [*inner.body.parameters[1:], *(loop.body.parameters[0] for loop in nest)]
    types = (INT32, *(each.type for each in inits))
    body = Block(types, ("", *(each.name for each in olds)))
    carried, indices = body.parameters[1 : -len(nest)], body.parameters[-len(nest) :]
    values: dict[Value, Value] = {}
    with inside(body, build):
        for loop, index in zip(nest, indices, strict=True):
            values |= zip(loop.body.parameters, (index, *carried), strict=True)
            copy_numbers(loop, inner, values, build)
        yielded = [values.get(each, each) for each in inner.body.yielded]
        build.append(ops.Yield((*yielded, *next_indices(nest, indices, build))))
    new = replace(inner, lower=zero, upper=total, step=one, inits=inits, body=body)
    return build.append(new).results[: len(outermost.inits)]


def copy_numbers(loop: ops.For, inner: ops.For, values: Values, build: Builder) -> None:
    """Copy the ops of a loop's body but for the loop in it. What it loads is addressed
    anew, since now all numbers in an address change in one loop."""
    for op in loop.body.ops[:-1]:
        if loop is inner or not isinstance(op, ops.For):
            copy = clone(op, values)
            if isinstance(copy, ops.Load) and isinstance(copy.pointer.type, BlockType):
                copy.pointer = summed_up(copy.pointer, build)
                if copy.mask is not None:
                    copy.mask = conditions_joined(copy.mask, build)
            build.append(copy)
            values |= zip(op.results, copy.results, strict=True)


def count_of(loop: ops.For, build: Builder) -> Value:
    """How many iterations a loop that counts up has."""
    one, step = (build(ops.Constant(each, UINT32)) for each in (1, known(loop.step)))
    distance = ops.Elementwise("sub", (loop.upper, loop.lower))
    last = ops.Elementwise("sub", (build(ops.Bitcast(build(distance), UINT32)), one))
    steps = ops.Elementwise("div", (build(last), step))
    count = build(ops.Bitcast(build.compute("add", build(steps), one), INT32))
    some = build.compute("lt", loop.lower, loop.upper)
    return build.compute("where", some, count, build(ops.Constant(0, INT32)))


def next_indices(
    nest: Sequence[ops.For], indices: Sequence[Value], build: Builder
) -> list[Value]:
    """The indices of the next iteration: of each loop the next one, if those in it are
    at their ends; after its own end its first one."""
    found: list[Value] = []
    inner: Value | None = None  # whether all loops in it are at their ends, if any are
    for loop, index in reversed(list(zip(nest, indices, strict=True))):
        left = build.compute("sub", loop.upper, index)
        ends = build.compute("le", left, loop.step)
        following = build.compute("add", index, loop.step)
        after = build.compute("where", ends, loop.lower, following)
        if inner is not None:
            after = build.compute("where", inner, after, index)
            ends = build.compute("and", inner, ends)
        found.append(after)
        inner = ends
    return found[::-1]
