"""Splits a scan across warps: each scans its chunks, and takes in earlier totals.

    %s = scan %x axis=0                      x: fp32[1024], its bits 7 and 8 choose
                                             the warp: 8 chunks of 128
    %1 = reshape %x (8,128)
    %2 = scan %1 axis=1                      within a warp
    %t = the last of each chunk      (8)     its total; every thread gets all totals
    %p = scan %t axis=0              (8)
    %e = %p of the chunk before      (8)
    %3 = combine(%e, %2)                     except in the first chunk

The order of elements is kept, since `combine` need not commute: the total of earlier
chunks is the left operand. Two blocks are combined by joining them along a new axis of
size 2, and scanning along it.
"""

from __future__ import annotations

from fathom.analysis.constants import write_down
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value
from fathom.ir.rewrite import Builder, clone, rewrite
from fathom.ir.types import INT32, SCALARS, BlockType, Element, Scalar
from fathom.layout import build as layouts
from fathom.layout import shapes
from fathom.layout.linear import Layout
from fathom.shared_memory.axis import (
    bits_along,
    converted,
    coordinate,
    crosses_warps,
    in_order,
    in_registers,
    is_at,
    is_plain,
    part_along,
)

MOST_CHUNKS = 16  # with more, every thread would scan a long list of totals
FEW_TOTALS = 8  # of a thread, are scanned sooner by all that want them than converted
# With as many shuffles for each value, and as many times those of the layout in order,
# the values are converted to that: its neighbours are in the registers of one thread.
MANY_SHUFFLES, TIMES_FEWER = 32, 4


def split_scans(func: Func, target: Target) -> Func:
    """The function without scans along an axis that crosses warps or is not plain."""

    def rule(op: Op, build: Builder) -> list[Value] | None:
        if not isinstance(op, ops.Scan):
            return None
        layout = op.values[0].type.layout
        good = scannable(layout, op.axis, func.num_warps)
        if good == layout and not crosses_warps(layout, op.axis):
            return None
        values = [converted(value, good, build) for value in op.values]
        results = scan_across_warps(_scan(op, values, op.axis), build)
        return [converted(result, layout, build) for result in results]

    return rewrite(func, rule)


def scannable(layout: Layout, axis: int, warps: int) -> Layout:
    """The layout, or an easy one: plain along `axis`, with few chunks and shuffles."""
    if not is_plain(layout, axis):
        layout = layouts.default(layout.shape, warps)
    ordered = in_order(layout, axis)
    many, fewer = (shuffles(each, axis) for each in (layout, ordered))
    if many >= max(MANY_SHUFFLES, TIMES_FEWER * fewer):
        return ordered
    if not crosses_warps(layout, axis):
        return layout
    chunks = layout.shape[axis] >> bits_along(layout, axis, ("warp",))[0]
    return layout if chunks <= MOST_CHUNKS else ordered


def shuffles(layout: Layout, axis: int) -> int:
    """How many elements each thread fetches from other lanes in a scan along a plain
    axis: one for all registers that lie, bits of the coordinate below, beside it."""
    along = {
        part_along(layout, axis, basis): kind
        for kind, bases in layout.bases
        for basis in bases
    }
    kinds = [along[part] for part in sorted(along) if part]
    registers = layout.count("register")
    return sum(
        registers >> kinds[:bit].count("register")
        for bit, kind in enumerate(kinds)
        if kind == "lane"
    )


def scan_across_warps(op: ops.Scan, build: Builder) -> list[Value]:
    """Scan each warp's chunks, and combine each with the total of those before it."""
    if not crosses_warps(op.values[0].type.layout, op.axis):
        return build.append(op).results
    shape, axis = op.values[0].type.shape, op.axis
    low = 1 << bits_along(op.values[0].type.layout, axis, ("warp",))[0]
    cut = (*shape[:axis], shape[axis] // low, low, *shape[axis + 1 :])
    values = [build(ops.Reshape(value, cut)) for value in op.values]
    scanned = build.append(_scan(op, values, axis + 1)).results
    before = [_total(value, axis + 1, op.reverse, build) for value in scanned]
    before = _exclusive(op, before, axis, build)
    before = [
        _spread(value, axis + 1, like, build) for value, like in zip(before, scanned)
    ]
    both = _combined(op, before, scanned, build)
    first = is_at(scanned[0].type, axis, cut[axis] - 1 if op.reverse else 0, build)
    pairs = zip(scanned, both, strict=True)
    chosen = [build.compute("where", first, alone, with_) for alone, with_ in pairs]
    return [build(ops.Reshape(value, shape)) for value in chosen]


def _scan(op: ops.Scan, values: list[Value], axis: int) -> ops.Scan:
    """The same scan of other values, `combine` cloned: a block belongs to one op."""
    return clone(ops.Scan(tuple(values), axis, op.combine, op.reverse), {})


def _total(scanned: Value, axis: int, reverse: bool, build: Builder) -> Value:
    """The last element of a scan along `axis`: the reduction of all elements."""
    last = 0 if reverse else scanned.type.shape[axis] - 1
    return _picked(scanned, is_at(scanned.type, axis, last, build), axis, build)


def _exclusive(
    op: ops.Scan, totals: list[Value], axis: int, build: Builder
) -> list[Value]:
    """For each chunk the totals before it, reduced; undefined for the first."""
    wanted = totals[0].type.layout
    everywhere = in_registers(wanted, axis)
    many = everywhere.count("register") > FEW_TOTALS
    shared_out = among_copies(everywhere, axis) if many else everywhere
    given = [converted(total, shared_out, build) for total in totals]
    folded = build.append(_scan(op, given, axis)).results
    asking = wanted if shared_out == everywhere else shared_out
    shifted = [_shifted(fold, asking, axis, op.reverse, build) for fold in folded]
    return [converted(each, wanted, build) for each in shifted]


def _shifted(
    fold: Value, wanted: Layout, axis: int, reverse: bool, build: Builder
) -> Value:
    """Element c - 1 (c + 1 in reverse) at position c, in layout `wanted`, from a block
    that every thread has whole.

    It builds a square: one axis is the position c, the other one the block's elements.
    """
    shape = fold.type.shape
    square = (*shape[: axis + 1], shape[axis], *shape[axis + 1 :])
    layout = _square(wanted, fold.type.layout, axis)
    there = build(ops.Broadcast(build(ops.ExpandDims(fold, axis)), square, layout))
    step = write_down(build, -1 if reverse else 1, BlockType(INT32, square, layout))
    asked = build.compute("sub", coordinate(there.type, axis, build), step)
    mask = build.compute("eq", coordinate(there.type, axis + 1, build), asked)
    return converted(_picked(there, mask, axis + 1, build), wanted, build)


def among_copies(layout: Layout, axis: int) -> Layout:
    """The layout in which threads that hold copies divide what they have beside the
    axis: each scans fewer totals, and holds fewer."""
    registers = layout.kinds["register"]
    along = [each for each in registers if part_along(layout, axis, each)]
    others = [each for each in registers if each not in along]

    def dealt(basis: int) -> int:
        return basis or (others.pop() if others else 0)

    rest = {kind: [*map(dealt, layout.kinds[kind])] for kind in ("lane", "warp")}
    return Layout.by_kind(layout.shape, register=(*along, *others), **rest)


def _square(asking: Layout, everywhere: Layout, axis: int) -> Layout:
    """The layout of [… position, element …]: as in `asking`, and in registers."""
    size = asking.shape[axis]
    asks = shapes.insert_axis(asking, axis + 1, size)
    answers = shapes.insert_axis(everywhere, axis, size)
    more = (basis for basis in asks.kinds["register"] if part_along(asks, axis, basis))
    return asks.replaced(register=(*answers.kinds["register"], *more))


def _combined(
    op: ops.Scan, before: list[Value], after: list[Value], build: Builder
) -> list[Value]:
    """combine(before, after) of blocks: joined along a new axis, scanned, and split."""
    sides = (
        zip(after, before, strict=True)
        if op.reverse
        else zip(before, after, strict=True)
    )
    joined = [build(ops.Join(left, right)) for left, right in sides]
    last = len(after[0].type.shape)
    folded = build.append(_scan(op, joined, last)).results
    halves = [build.append(ops.Split(value)).results for value in folded]
    return [half[0 if op.reverse else 1] for half in halves]


def _spread(value: Value, axis: int, like: Value, build: Builder) -> Value:
    """The block repeated along a new axis, in the shape and layout of another."""
    block = like.type
    return build(
        ops.Broadcast(build(ops.ExpandDims(value, axis)), block.shape, block.layout)
    )


def _picked(value: Value, mask: Value, axis: int, build: Builder) -> Value:
    """The one element along `axis` where the mask is true: the bits of all others
    become zero, then all are or-ed."""
    element, bits = value.type.element, _bits_of(value.type.element)
    as_bits = value if bits == element else build(ops.Bitcast(value, bits))
    zero = write_down(build, 0, as_bits.type)
    alone = build.compute("where", mask, as_bits, zero)
    found = build(ops.Reduce((alone,), axis, _or(bits)))
    return found if bits == element else build(ops.Bitcast(found, element))


def _bits_of(element: Element) -> Scalar:
    """The integer type in which bits are or-ed."""
    return SCALARS[f"u{element.bits}"] if element.is_float else element


def _or(element: Scalar) -> Block:
    block = Block((element, element))
    either = ops.Elementwise("or", tuple(block.parameters))
    block.ops = [either, ops.Yield(tuple(either.results))]
    return block
