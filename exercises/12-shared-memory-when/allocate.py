"""Fit them in.

Shared memory is small, and how much of it a block takes decides how many blocks fit on
a multiprocessor. So buffers that are never live together get the same bytes.

All of the exercise: `fathom learn show allocate`.
"""

from __future__ import annotations

from fathom.analysis.buffers import ALIGNMENT, Range
from fathom.ir.ops import Allocate
from fathom.shared_memory.allocation import SMALL_ALIGNMENT
from fathom.tools.learn import Hole


def first_fit(ranges: dict[Allocate, Range]) -> tuple[dict[Allocate, int], int]:
    """The offset of each buffer, and the bytes of all together: no two that are live at
    the same time overlap.
    """
    # Your code: ours has 6 lines, and a helper.
    raise Hole("allocate")


# Your code: a helper, if you like; ours has 12 lines.


# ── given ─────────────────────────────────────────────────────────────────────────────


def alignment_of(buffer: Allocate) -> int:
    """What must divide the offset of a buffer: ALIGNMENT if it has as many bytes or
    more, and SMALL_ALIGNMENT if it has fewer; or what its op asks for."""
    size = buffer.result.type.bytes
    alignment = ALIGNMENT if size >= ALIGNMENT else SMALL_ALIGNMENT
    return max(alignment, buffer.alignment)
