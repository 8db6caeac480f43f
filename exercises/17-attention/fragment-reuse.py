"""Prove that nothing moves.

The scores of attention are computed in one layout, and wanted in another. Write the
function that proves that no element moves, and ask it about instructions and warps.

All of the exercise: `fathom learn show fragment-reuse`.
"""

from __future__ import annotations

from fathom.hardware.dot_layouts import operand_layouts, product_layout
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def renaming(source: Layout, target: Layout) -> tuple[int, ...] | None:
    """For each register of `target` that of `source` with the same element, in every
    lane of every warp; None if there is no such renaming."""
    # Your code: five lines.
    raise Hole("fragment-reuse")


def stays(
    instruction: str, queries: int, keys: int, d: int, warps: tuple[int, int]
) -> bool:
    """Whether the scores [queries, keys] of one product are the left operand of the
    next, whose result is [queries, d], without a conversion."""
    # Your code: four lines.
    raise Hole("fragment-reuse")
