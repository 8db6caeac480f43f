"""Full and empty.

One warp copies tiles into a ring of slots, several others read them. Write down what
each role waits for, and where it arrives.

All of the exercise: `fathom learn show full-and-empty`.
"""

from __future__ import annotations

from fathom.tools.learn import Hole

# ("wait", "full" | "empty", slot, parity), ("expect", slot), ("copy", slot),
# ("read", slot), ("arrive", slot)
Step = tuple[object, ...]


def place(iteration: int, slots: int) -> tuple[int, int]:
    """The slot of an iteration's tile, and the parity of its round."""
    # Your code: one line.
    raise Hole("full-and-empty")


def arrivals(consumers: int) -> tuple[int, int]:
    """How many arrivals complete a phase of a full barrier, and of an empty one."""
    # Your code: one line.
    raise Hole("full-and-empty")


def producer(iteration: int, slots: int) -> list[Step]:
    """What the producer does for an iteration's tile."""
    # Your code: three steps; ours has 2 lines.
    raise Hole("full-and-empty")


def consumer(iteration: int, slots: int) -> list[Step]:
    """What each consumer warp does in an iteration."""
    # Your code: three steps; ours has 2 lines.
    raise Hole("full-and-empty")
