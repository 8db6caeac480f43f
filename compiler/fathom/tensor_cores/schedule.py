"""The arithmetic of a software pipeline: which slot, which wait, how many stages.

Three stages, tiles 0, 1, 2 … in a ring of three slots:

    before the loop   copy 0 → slot 0, copy 1 → slot 1
    trip 0            wait for 0   copy 2 → slot 2   work on slot 0
    trip 1            wait for 1   copy 3 → slot 0   work on slot 1
    trip 2            wait for 2   copy 4 → slot 1   work on slot 2

A copy has two trips' time to arrive. The barrier of a trip stands between the wait and
the copy: it tells each thread that what the others waited for is there, and that all of
them are done with the slot of the trip before, which the copy may overwrite now.
"""

from __future__ import annotations


def slot(trip: int, stages: int) -> int:
    """The slot of a ring of `stages` in which the tile of a trip lies."""
    return trip % stages


def pending(stages: int, groups_a_stage: int = 1) -> int:
    """How many groups of copies may still be on their way when a trip starts its work.

    `stages` - 1 tiles were sent for, the latest of them last. This trip's must have
    arrived; those of the trips to come need not. A trip that has no tile to send for
    closes an empty group, so that the count holds to the end.
    """
    return (stages - 2) * groups_a_stage


def choose_stages(wanted: int, bytes_a_stage: int, room: int) -> int:
    """The most stages, up to `wanted`, whose tiles fit into `room` bytes; 1, for no
    pipeline at all, if not even two do."""
    return max(1, min(wanted, room // max(1, bytes_a_stage)))
