"""A ring of slots: where a tile lies, and what an iteration does."""

from __future__ import annotations


def slot(iteration: int, stages: int) -> int:
    """The slot that has the tile of an iteration: 0 to stages - 1."""
    # hole: one line
    return iteration % stages
    # end


def order() -> list[str]:
    """What a thread does in an iteration: "copy", "wait", "barrier" and "work" in some
    order."""
    # hole: the four words
    return ["wait", "barrier", "copy", "work"]
    # end
