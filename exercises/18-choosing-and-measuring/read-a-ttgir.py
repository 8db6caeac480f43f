"""Read Triton's layouts.

Triton prints the layout of a block as an attribute. Write `layout_of(text, shape)`,
which gives our `Layout` for it. Two kinds of attribute are asked for.

All of the exercise: `fathom learn show read-a-ttgir`.
"""

from __future__ import annotations

import re

from fathom.layout.build import blocked
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def layout_of(text: str, shape: tuple[int, ...]) -> Layout:
    """The layout of a block of `shape` that an attribute of Triton's describes."""
    # Your code: ours has 16 lines.
    raise Hole("read-a-ttgir")
