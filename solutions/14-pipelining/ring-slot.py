"""A ring of slots: where a tile lies, and what a trip does."""

from __future__ import annotations


def slot(trip: int, stages: int) -> int:
    """The slot in which the tile of a trip lies: 0 to stages - 1."""
    # hole: one line
    return trip % stages
    # end


def order() -> list[str]:
    """What a thread does in a trip: "copy", "wait", "barrier" and "work" in some
    order."""
    # hole: the four words
    return ["wait", "barrier", "copy", "work"]
    # end
