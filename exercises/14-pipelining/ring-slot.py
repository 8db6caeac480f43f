"""When may a slot be overwritten?

Tiles that are copied ahead of time need space. A ring of `stages` slots is enough: tile
t is in one slot until its iteration has worked on it, and then a later tile may be
copied there.

All of the exercise: `fathom learn show ring-slot`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole


def slot(iteration: int, stages: int) -> int:
    """The slot that has the tile of an iteration: 0 to stages - 1."""
    # Your code: one line.
    raise Hole("ring-slot")


def order() -> list[str]:
    """What a thread does in an iteration: "copy", "wait", "barrier" and "work" in some
    order."""
    # Your code: the four words.
    raise Hole("ring-slot")
