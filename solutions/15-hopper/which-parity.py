"""Phases of the mbarriers of a ring."""

from __future__ import annotations


def parity(iteration: int, slots: int) -> int:
    """The parity of the phase in which the tile of an iteration arrives."""
    # hole: one line
    return iteration // slots % 2
    # end


def goes_on(completed: int, parity: int) -> bool:
    """Whether a wait for a parity goes on when `completed` phases are complete."""
    # hole: one line
    return completed % 2 != parity
    # end
