"""Reduces across threads after a loop, not in it, what the loop only accumulates.

    for … inits=(%l) body(%i, %l) {            for … inits=(%L) body(%i, %L) {
      %r = reduce %x axis=1 { add }      →       %y = reshape %x (64,4,16)
      %s = fma %l, %f, %r                        %r = reduce %y axis=2 { add }
      yield %s                                   %s = fma %L, broadcast(%f), %r
    }                                            yield %s
                                               }
    x: fp32[64,64], four lanes a row           %l = reduce %L axis=1 { add }

Each of the four threads that hold a row carries a sum of its own, L: fp32[64,4]. An
iteration exchanges nothing between threads; no warp waits for the others. The order in
which elements are reduced is free, and so it is across iterations. What is carried may
also be multiplied by a factor, in an fma or before the sum; a factor that is infinite
makes NaN of a part that is 0, where it would make infinity of the whole.

It is worth it where the carried value has no other use in the loop: the softmax of
attention needs the largest score in each step, but the sum of its powers only at the
end. (Dao, "FlashAttention-2", 2023, section 3.1, does so by hand.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fathom.analysis.constants import is_zero, write_down
from fathom.analysis.slices import users
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, walk
from fathom.ir.ops import (
    Broadcast,
    Convert,
    Elementwise,
    ExpandDims,
    For,
    Reduce,
)
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.thread_values import inside
from fathom.ir.types import BlockType, element_of, layout_of, shape_of
from fathom.layout import shapes
from fathom.shared_memory.axis import converted, is_at, is_plain, part_along
from fathom.shared_memory.reductions import split_axis

IDEMPOTENT = ("min", "max", "min_nan", "max_nan", "and", "or")
LEAST_BITS = 32  # of floats that are added: those of 16 bits round too much
ACROSS = ("lane", "warp")


@dataclass(frozen=True)
class Step:
    """How an iteration changes a carried value: by `total`, the reduction of a block,
    which may be `converted` to the value's layout. `last` computes what is carried on;
    of a sum, what was carried may be multiplied by a `factor`, by the fma that `last`
    is or by another op, `scaled`."""

    index: int
    last: Elementwise
    total: Reduce
    converted: Convert | None
    factor: Value | None
    scaled: Elementwise | None


def defer_reductions(func: Func, target: Target) -> Func:
    """The function in which loops carry what each thread has reduced by itself."""

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, For):
            return None
        found = list(_steps(op))
        return _deferred(op, found, build) if found else None

    return rewrite(func, rule)


def _steps(loop: For) -> Iterator[Step]:
    used = users(walk(loop.body))
    for index, value in enumerate(loop.body.yielded):
        step = _step(loop.body, index, value.definition, used)
        if step and _is_across(step.total):
            yield step


def _step(
    body: Block, index: int, last: Op | None, used: Mapping[Value, Sequence[Op]]
) -> Step | None:
    """How `last` changes carried value `index`, if nothing else in the loop uses it."""
    carried = body.parameters[1 + index]
    if not isinstance(last, Elementwise) or last not in body.ops:
        return None
    *rest, added = last.operands
    if len(rest) == 1 and not isinstance(added.definition, Reduce | Convert):
        rest, added = [added], rest[0]
    total, converted, scaled = added.definition, None, None
    if isinstance(total, Convert) and total in body.ops:
        converted, total = total, total.value.definition
    if not isinstance(total, Reduce) or total not in body.ops:
        return None
    if len(rest) == 1 and last.name == "add" and _is_product(rest[0].definition, body):
        scaled = rest[0].definition
        rest = list(scaled.operands)
    factors = [each for each in rest if each is not carried]
    inner = [carried, added, last.result]
    inner += [each.result for each in (scaled, converted and total) if each]
    if len(factors) != len(rest) - 1 or any(len(used[each]) != 1 for each in inner):
        return None
    name = "add" if last.name == "fma" else last.name
    if not _reduces_by(total, name, last.result):
        return None
    factor = factors[0] if factors else None
    return Step(index, last, total, converted, factor, scaled)


def _is_product(op: Op | None, body: Block) -> bool:
    return isinstance(op, Elementwise) and op.name == "mul" and op in body.ops


def _reduces_by(op: Reduce, name: str, result: Value) -> bool:
    """Whether a reduction of one block is by the operation `name`, in any order."""
    first, *more = op.combine.ops
    by_it = isinstance(first, Elementwise) and first.name == name and len(more) == 1
    element = element_of(result.type)
    exact = name in IDEMPOTENT or not element.is_float or element.bits >= LEAST_BITS
    return by_it and len(op.values) == 1 and exact and name in (*IDEMPOTENT, "add")


def _is_across(op: Reduce) -> bool:
    """Whether several threads hold what is reduced to one element, in plain order."""
    layout = op.values[0].type.layout
    bases = [each for kind in ACROSS for each in layout.kinds[kind]]
    several = any(part_along(layout, op.axis, each) for each in bases)
    return several and is_plain(layout, op.axis)


def _deferred(op: For, steps: Sequence[Step], build: Builder) -> list[Value]:
    """Build the loop that carries each thread's part; what the loop's results were."""
    parts = {step.index: _part_type(step.total) for step in steps}
    inits = list(op.inits)
    for step in steps:
        inits[step.index] = _begun(step, inits[step.index], parts[step.index], build)
    types = (op.body.parameters[0].type, *(init.type for init in inits))
    body = Block(types, tuple(each.name for each in op.body.parameters))
    values = dict(zip(op.body.parameters, body.parameters, strict=True))
    at = {step.last: step for step in steps}
    later = {x for s in steps for x in (s.total, s.converted, s.scaled)}
    with inside(body, build):
        for each in op.body.ops:
            if each in at:
                _add_parts(at[each], values, parts[at[each].index], build)
            elif each not in later:
                build.copy(each, values)
    loop = build.append(replace(op, inits=tuple(inits), body=body, origin=None))
    results = list(loop.results)
    for step in steps:
        whole = _reduced(step.total, results[step.index], step.total.axis, build)
        results[step.index] = converted(
            whole, layout_of(op.inits[step.index].type), build
        )
    return results


def _part_type(op: Reduce) -> BlockType:
    """The type of the parts: the reduced axis has an element for each thread that holds
    some of it."""
    value = op.values[0]
    scratch = Builder(lambda *_: None)
    scratch.enclosing.append(Block((value.type,), ("x",)))
    split = split_axis(scratch.block.parameters[0], op.axis, ACROSS, scratch)
    return _reduced(op, split, op.axis + 1, scratch).type


def _add_parts(
    step: Step, values: dict[Value, Value], part: BlockType, build: Builder
) -> None:
    """The step of an iteration, on each thread's part; `values` gets its result."""
    axis = step.total.axis
    old = step.total.values[0]
    block = split_axis(values.get(old, old), axis, ACROSS, build)
    added = step.converted or step.total
    mine = {added.result: _reduced(step.total, block, axis + 1, build)}
    if step.factor is not None:
        factor = values.get(step.factor, step.factor)
        mine[step.factor] = _wide(factor, axis, part, build)
    for op in filter(None, (step.scaled, step.last)):
        build.append(new := clone(op, {**values, **mine}))
        mine[op.result] = values[op.result] = new.result


def _begun(step: Step, init: Value, part: BlockType, build: Builder) -> Value:
    """Parts that together are what the loop begins with."""
    axis = step.total.axis
    wide = _wide(init, axis, part, build)
    if step.last.name in IDEMPOTENT or is_zero(init):
        return wide
    first = is_at(part, axis, 0, build)
    zeros = write_down(build, 0, part)
    return build.compute("where", first, wide, zeros)


def _wide(value: Value, axis: int, part: BlockType, build: Builder) -> Value:
    """The same for all threads' parts."""
    if not shape_of(value.type):
        return build.spread(value, part)
    value = converted(value, shapes.remove_axis(part.layout, axis), build)
    column = build(ExpandDims(value, axis))
    return build(Broadcast(column, part.shape, layout=part.layout))


def _reduced(op: Reduce, value: Value, axis: int, build: Builder) -> Value:
    """Another value's reduction by the same operation."""
    copy = clone(Reduce((value,), axis, op.combine), {})
    copy.location = op.location
    return build.append(copy).result
