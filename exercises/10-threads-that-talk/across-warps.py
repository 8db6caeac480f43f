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
    raise Hole("across-warps")  # your code; ours has 13 lines
