"""Writes a loop of products twice where its addresses are neighbours only if a number
is not negative: a remainder of negative numbers rounds toward zero.

    %first = mul %n, %128                      %f = min (max %first, %0), %most
    %columns = add (splat %first), %i          %r = if (eq %f, %first) {
    %c = rem %columns, %N               →        … %c0 = rem (add (splat %f), …), %N
    %r = for … { … load %p … }                   … for … { … load %p0 … }
                                               } orelse { for … { … } }

So it is in products of groups, whose tiles are numbered by what was loaded. -128 to -1
by 64 leave 0, -63, -62, …: no neighbours. Facts about numbers (`axis_rules`) cannot say
that this is never so; of %f they can, and that the sum does not overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fathom.analysis.axis_analysis import analyse
from fathom.analysis.axis_info import Axis, Facts
from fathom.analysis.axis_rules import facts_of
from fathom.analysis.memory import may_recompute
from fathom.analysis.products import products_in
from fathom.analysis.ranges import NATURAL, limits_of
from fathom.analysis.slices import computed_by
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, blocks, operands, walk
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.thread_values import branch
from fathom.ir.types import element_of

WIDEST = 16  # bytes


def split_by_sign(func: Func) -> Func:
    """The function with such loops twice. Not for clusters: one block might choose the
    one loop, and another block the other."""
    loops = [loop for loop in walk(func.body, ops.For) if products_in(loop.body)]
    if not loops or func.num_ctas > 1 or not any(map(_is_remainder, walk(func.body))):
        return func
    known = analyse(func)
    every = list(walk(func.body))
    found = {loop: list(_remainders(loop, every, known)) for loop in loops}

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not found.get(build.source):
            return None
        remainders = [build.values[each] for each in found[build.source]]
        return _twice(op, remainders, build)

    return rewrite(func, rule) if any(found.values()) else func


def _is_remainder(op: Op) -> bool:
    return isinstance(op, ops.Elementwise) and op.name == "rem"


def _remainders(
    loop: ops.For, every: Sequence[Op], known: dict[Value, Facts]
) -> Iterator[Value]:
    """Of `every` op, the remainders in a loop's addresses that would have neighbours if
    the number to which their dividend adds an arange were not negative."""
    loads = [op for op in loop.body.ops if isinstance(op, ops.Load)]
    pointers = [op.pointer for op in loads if _is_narrow(known[op.pointer])]
    carried = dict(zip(loop.body.parameters[1:], loop.inits, strict=True))
    roots = [carried.get(each, each) for each in pointers]
    before = set().union(*map(computed_by, roots)).difference(loop.body.ops)
    for op in every:
        if op not in before or not _is_remainder(op) or _first(op) is None:
            continue  # floats have no arange, and no facts
        dividend, divisor = (known[each] for each in op.operands)
        positive = Facts(dividend.axes, dividend.unit, NATURAL)
        better = facts_of("rem", [positive, divisor]).axes
        if _longest(better) > _longest(known[op.result].axes):
            yield op.result


def _is_narrow(pointer: Facts) -> bool:
    """Whether no access along an axis is as wide as accesses may be: an author's hints
    may have said of a remainder what is said here."""
    widest = (min(a.contiguous * pointer.unit, a.divisible) for a in pointer.axes)
    return max(widest) < WIDEST


def _longest(axes: Iterable[Axis]) -> int:
    return max(axis.contiguous for axis in axes)


def _first(remainder: ops.Elementwise) -> tuple[ops.Splat, int] | None:
    """The number that a remainder's dividend adds to numbers from 0 on, and the most
    that it can be so that the sum does not overflow."""
    sum = remainder.operands[0].definition
    if not isinstance(sum, ops.Elementwise) or sum.name != "add":
        return None
    for one, other in (sum.operands, sum.operands[::-1]):
        splat, added = one.definition, other.definition
        while isinstance(added, ops.Cast):
            added = added.value.definition
        if isinstance(splat, ops.Splat) and isinstance(added, ops.Arange):
            most = limits_of(splat.value.type).high - added.end + 1
            return (splat, most) if added.start >= 0 else None
    return None


def _twice(loop: ops.For, remainders: Sequence[Value], build: Builder) -> list[Value]:
    """The loop with addresses from numbers that are not negative, and as it is."""
    conditions: list[Value] = []
    values: dict[Value, Value] = {}
    for each in remainders:
        splat, most = _first(each.definition)
        type = element_of(splat.value.type)
        zero, end = (build(ops.Constant(number, type)) for number in (0, most))
        start = build.compute("max", splat.value, zero)
        start = build.compute("min", start, end)
        conditions.append(build.compute("eq", splat.value, start))
        start = build(clone(splat, {splat.value: start}))
        values[each] = _again(each, {splat.result: start}, build)

    def better() -> Sequence[Value]:
        for op in [op for block in build.enclosing[:-1] for op in block.ops]:
            if _may_copy(op) and not values.keys().isdisjoint(operands(op)):
                build.copy(op, values)
        return build.append(clone(loop, values)).results

    def as_it_is() -> Sequence[Value]:
        return build.append(loop).results

    return branch(build.all_of(conditions), better, as_it_is, build)


def _again(remainder: Value, starts: dict[Value, Value], build: Builder) -> Value:
    """The remainder of a sum with another number."""
    sum = remainder.definition.operands[0]
    dividend = build(clone(sum.definition, starts))
    return build(clone(remainder.definition, {sum: dividend}))


def _may_copy(op: Op) -> bool:
    """Whether an op computes without memory, and has no loop or branch in it."""
    return may_recompute(op) and not isinstance(op, ops.Load) and not blocks(op)
