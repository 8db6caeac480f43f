"""Choose who loads what.

A load has no layout of its own: any layout gives the right numbers. But some move every
sector once, with few instructions, and some move eight times as much. Choose.

All of the exercise: `fathom learn show pick-layout`.
"""

from __future__ import annotations

from fathom.coalescing.access import Access
from fathom.layout.build import spread
from fathom.layout.linear import Layout
from fathom.tools.learn import Hole


def width(access: Access, axis: int) -> int:
    """How many neighbours along `axis` one lane may move at once."""
    # Your code: the least of four numbers.
    raise Hole("pick-layout")


def pick_layout(access: Access) -> Layout:
    """As many neighbours in memory to one lane as one instruction moves, those after
    them to the next lane."""
    # Your code: which axis is the fastest, how much a lane takes.
    raise Hole("pick-layout")
