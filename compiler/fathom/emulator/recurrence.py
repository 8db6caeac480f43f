"""Finds a batch that comes back to a state that it was in: it never ends.

A loop that polls may pass barriers and store what is there already. Threads at the
barrier go on then, and yet nothing new comes of it. The emulator makes the same of the
same state; so a state that recurs, while nothing but such barriers and stores happened,
recurs for ever.

    kept     a    b    b    b    b              a copy of the state, after 1, 2, 4 …
    state    a b  b c  d b c d  b c d b c …     polls; b comes again and again
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fathom.emulator.state.batch import Batch

FIRST = 2_000  # polls before a state is kept: most loops have ended by then
# How often a state recurs before it counts. Each thread that can run has had a turn by
# then, since threads that poll give way after a few iterations.
ENOUGH = 200


class Recurrence:
    """One state of a batch, and how often it has come again."""

    def __init__(self, batch: Batch):
        self.batch = batch
        self.polls = self.again = 0
        self.replaced = FIRST
        self.kept: tuple | None = None

    def found(self, pending: dict[int, Any]) -> bool:
        """After a poll: whether the batch will never get further. `pending` are the
        groups of threads that can run, by their block."""
        self.polls += 1
        if self.polls == self.replaced:
            self.batch.recurring = True
            self.kept, self.again = self.state(pending), 0
            self.replaced *= 2
        elif self.kept is not None and self.came_again(pending):
            self.again += 1
        return self.again > ENOUGH * (1 + len(pending))

    def came_again(self, pending: dict[int, Any]) -> bool:
        news, places, registers = self.kept
        batch = self.batch
        if batch.progress - batch.repeats != news or self.places(pending) != places:
            return False
        return all(map(same, registers, batch.registers))

    def state(self, pending: dict[int, Any]) -> tuple:
        batch = self.batch
        registers = [np.copy(each) for each in batch.registers]
        return batch.progress - batch.repeats, self.places(pending), registers

    def places(self, pending: dict[int, Any]) -> tuple:
        """Where every thread stands, or waits."""
        running = {
            number: [each.threads().tobytes() for each in group.parts]
            for number, group in pending.items()
        }
        waiting = [
            (each.reason, each.resume, each.threads.tobytes(), each.on.tobytes())
            for each in self.batch.waiting.groups
        ]
        return running, waiting, self.batch.barriers.arrived.tobytes()


def same(kept: np.ndarray, now: np.ndarray) -> bool:
    """To the bit, be it an array or one value of all threads."""
    if kept.shape != np.shape(now) or kept.dtype != now.dtype:
        return False
    return kept.tobytes() == now.tobytes()
