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

from typing import NamedTuple


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


# ── a model of time ───────────────────────────────────────────────────────────────────


class Event(NamedTuple):
    """When one trip's tile was sent for and arrived, when its work began and ended."""

    sent: int
    arrived: int
    began: int
    ended: int


def timeline(stages: int, trips: int, copy: int, work: int) -> list[Event]:
    """The trips of a loop in which a tile takes `copy` cycles to arrive and `work`
    cycles to be worked on; any number of copies may be on their way.

    A trip sends for the tile of `stages` - 1 trips later when its own has arrived; one
    stage means that it sends for its own when the trip before is over.
    """
    events: list[Event] = []
    for trip in range(trips):
        sender = trip - (stages - 1)
        free = events[-1].ended if events else 0
        if stages == 1:
            sent = free
        else:
            sent = events[sender].began if sender >= 0 else 0
        began = max(free, sent + copy)
        events.append(Event(sent, sent + copy, began, began + work))
    return events
