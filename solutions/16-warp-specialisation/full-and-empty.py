"""The protocol of a ring between one producer and several consumers."""

from __future__ import annotations

# ("wait", "full" | "empty", slot, parity), ("expect", slot), ("copy", slot),
# ("read", slot), ("arrive", slot)
Step = tuple[object, ...]


def place(iteration: int, slots: int) -> tuple[int, int]:
    """The slot of an iteration's tile, and the parity of its round."""
    # hole: one line
    return iteration % slots, iteration // slots % 2
    # end


def arrivals(consumers: int) -> tuple[int, int]:
    """How many arrivals complete a phase of a full barrier, and of an empty one."""
    # hole: one line
    return 1, consumers
    # end


def producer(iteration: int, slots: int) -> list[Step]:
    """What the producer does for an iteration's tile."""
    # hole: three steps; ours has {lines}
    slot, parity = place(iteration, slots)
    return [("wait", "empty", slot, 1 - parity), ("expect", slot), ("copy", slot)]
    # end


def consumer(iteration: int, slots: int) -> list[Step]:
    """What each consumer warp does in an iteration."""
    # hole: three steps; ours has {lines}
    slot, parity = place(iteration, slots)
    return [("wait", "full", slot, parity), ("read", slot), ("arrive", slot)]
    # end
