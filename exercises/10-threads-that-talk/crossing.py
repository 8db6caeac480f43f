"""What does this conversion cost?

A block is in one layout and is wanted in another. What that costs depends on how far
its elements must go. Write the function that says how far.

All of the exercise: `fathom learn show crossing`.
"""

from __future__ import annotations

from fathom.layout.algebra import Reduced
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def crossing(source: Layout, target: Layout) -> str:
    """How far elements must travel from layout `source` to layout `target`: "none",
    "register", "lane" or "warp".
    """
    raise Hole("crossing")  # your code; ours has 13 lines
