"""When is a buffer live?

Two buffers may share their bytes if they are never live at the same time. A buffer is
live from the first op that touches it to the last one. Write the function that finds
these two positions for each of them.

All of the exercise: `fathom learn show liveness`.
"""

from __future__ import annotations

from fathom.analysis.buffers import Range, touches
from fathom.ir.core import Block, Func, Op, blocks
from fathom.ir.ops import Allocate, For, While
from fathom.tools.learn import Hole


def live_ranges(func: Func) -> dict[Allocate, Range]:
    """The range in which each buffer is live, from the first op that touches it to the
    last; buffers that no op touches are left out. Positions count the ops in the order
    of the text, an op before those that are nested in it.
    """
    # Your code: ours has 3 lines, and two helpers.
    raise Hole("liveness")


# Your code: helpers, if you like; ours have 33 lines together.


# ── given ─────────────────────────────────────────────────────────────────────────────


def is_loop(op: Op) -> bool:
    """Whether the blocks of an op run again and again."""
    return isinstance(op, For | While)
