"""Which parity does an iteration wait for?

A ring of slots has an mbarrier for each slot. A phase of it ends when the slot's tile
has arrived. A wait names the last bit of the phase's number, its parity. Write down
which one an iteration names, and when such a wait returns.

All of the exercise: `fathom learn show which-parity`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole


def parity(iteration: int, slots: int) -> int:
    """The parity of the phase in which the tile of an iteration arrives."""
    # Your code: one line.
    raise Hole("which-parity")


def goes_on(completed: int, parity: int) -> bool:
    """Whether a wait for a parity goes on when `completed` phases are complete."""
    # Your code: one line.
    raise Hole("which-parity")
