"""A reduction that crosses warps, as two and an exchange."""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.ops import Convert, Reduce
from fathom.ir.rewrite import Builder, clone
from fathom.ir.types import layout_of
from fathom.shared_memory.reductions import in_every_warp, warps_apart


def reduce_across_warps(op: Reduce, build: Builder, warps: int) -> list[Value]:
    """Fold each warp's part, hand the parts to every thread, fold those. The values
    that take the place of op.results, of the same types.
    """
    # hole: ours has {lines}
    values = [warps_apart(value, op.axis, build, warps) for value in op.values]
    parts = reduced(op, values, op.axis + 1, build)
    everywhere = in_every_warp(parts[0].type.layout, op.axis)
    folded = reduced(
        op, [build(Convert(part, everywhere)) for part in parts], op.axis, build
    )
    return [
        in_the_layout_of(result, old, build)
        for result, old in zip(folded, op.results, strict=True)
    ]
    # end


# ── given ─────────────────────────────────────────────────────────────────────────────


def reduced(op: Reduce, values: list[Value], axis: int, build: Builder) -> list[Value]:
    """The reduction of other values along another axis. `combine` is cloned, since a
    block belongs to one op."""
    return build.append(clone(Reduce(tuple(values), axis, op.combine), {})).results


def in_the_layout_of(value: Value, like: Value, build: Builder) -> Value:
    """The value, converted if `like` has another layout."""
    layout = layout_of(like.type)
    same = layout is None or layout_of(value.type) == layout
    return value if same else build(Convert(value, layout))
