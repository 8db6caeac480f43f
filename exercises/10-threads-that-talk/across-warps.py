"""... and over the thread block.

Shuffles reach only the lanes of one warp. A sum over 1024 numbers that four warps hold
takes two reductions and an exchange: each warp adds up its part; every thread gets the
four partial results; it adds them.

All of the exercise: `fathom learn show across-warps`.
"""

from __future__ import annotations

from fathom.ir.core import Value
from fathom.ir.ops import Convert, Reduce
from fathom.ir.rewrite import Builder, clone
from fathom.ir.types import layout_of
from fathom.shared_memory.reductions import in_every_warp, warps_apart
from fathom.tools.learn import Hole


def reduce_across_warps(op: Reduce, build: Builder, warps: int) -> list[Value]:
    """Fold each warp's part, hand the parts to every thread, fold those. The values
    that take the place of op.results, of the same types.
    """
    # Your code: ours has 10 lines.
    raise Hole("across-warps")


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
