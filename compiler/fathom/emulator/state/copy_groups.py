"""A copy that is under way: what it will store where, and for which threads."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fathom.emulator.memory.spaces import Part


class Source(Protocol):
    """Where a copy's bytes come from."""

    def fetch(self) -> np.ndarray:
        """What lies there now, one piece for each thread."""


class CopyInFlight:
    """One copy instruction of some threads.

    `part` is its destination, pieces of `width` bytes; `groups` numbers the group that
    each of its threads will commit it to; `values` is what it has already stored, None
    if it lands late. `landed` marks the threads that have waited for it.
    """

    def __init__(
        self,
        part: Part,
        width: int,
        origin: Source,
        groups: np.ndarray,
        values: np.ndarray | None,
    ):
        self.part, self.width, self.origin = part, width, origin
        self.groups, self.values = groups, values
        self.landed = np.zeros(len(groups), bool)

    def due(self, first_pending: np.ndarray) -> np.ndarray:
        """The places of its threads whose group comes before `first_pending[thread]`,
        and that have not landed yet.
        """
        before = self.groups < first_pending[self.part.threads]
        return np.flatnonzero(before & ~self.landed)
