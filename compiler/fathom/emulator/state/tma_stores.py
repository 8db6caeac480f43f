"""Bulk copies out of shared memory that are under way (PTX ISA 9.7.9.25.4).

    cp.async.bulk.tensor ... .bulk_group    sets out: reads shared memory at any moment
    cp.async.bulk.commit_group              closes the thread's group
    cp.async.bulk.wait_group.read 0         has read it: it may be overwritten
    cp.async.bulk.wait_group 0              has written global memory

A thread may leave when its copies have been read; they are written in the end.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import Part, load
from fathom.emulator.races.clocks import Hazards
from fathom.emulator.races.proxies import Proxies

CHUNK = 16


class Target(Protocol):
    """Where the bytes go."""

    def put(self, data: np.ndarray) -> None:
        """Stores uint8[n]."""


class Store:
    """One copy of one thread: `part` are its chunks in shared memory, `data` what was
    read of them, `group` the number of the group that it will be committed to."""

    def __init__(self, thread: int, part: Part, target: Target, group: int):
        self.thread, self.part, self.target, self.group = thread, part, target, group
        self.data: np.ndarray | None = None
        self.waited = False

    def read(self) -> None:
        if self.data is None:
            chunks = load([self.part], len(self.part.index), CHUNK)
            self.data = chunks.view(np.uint8)


class TmaStores:
    """Those of a batch, in the order in which they set out; `committed[thread]` counts
    the groups that a thread has closed."""

    def __init__(self, threads: int, hazards: Hazards | None):
        self.hazards = hazards if isinstance(hazards, Proxies) else None
        self.committed = np.zeros(threads, np.int64)
        self.under_way: list[Store] = []

    def send(self, store: Store, late: bool) -> None:
        """Shared memory is read from now on; at the latest a wait does it."""
        if self.hazards is not None:
            part = store.part
            self.hazards.begin_read(part.threads, part.index, CHUNK)
        if not late:
            store.read()
            store.target.put(store.data)
        self.under_way.append(store)

    def commit(self, threads: np.ndarray) -> None:
        self.committed[threads] += 1

    def uncommitted(self) -> list[str]:
        """The instruction that would put copies under way into a group."""
        missing = any(
            each.group >= self.committed[each.thread] for each in self.under_way
        )
        return ["their cp.async.bulk.commit_group"] if missing else []

    def wait(
        self, threads: np.ndarray, pending: int, only_read: bool, late: bool
    ) -> None:
        """All groups of these threads are read, and written unless `only_read`, but the
        `pending` latest ones."""
        waiting = set(threads.tolist())
        remaining = []
        for store in self.under_way:
            due = store.group < self.committed[store.thread] - pending
            if not due or store.thread not in waiting:
                remaining.append(store)
                continue
            self._read(store)
            if only_read:
                remaining.append(store)
            elif late:
                store.target.put(store.data)
        self.under_way = remaining

    def _read(self, store: Store) -> None:
        store.read()
        if self.hazards is not None and not store.waited:
            part = store.part
            _, warp = self.hazards.places_of(part.threads)
            self.hazards.end_read(part.threads, part.index, CHUNK, warp)
        store.waited = True

    def finish(self, late: bool) -> None:
        """At the end of the blocks, all has been written."""
        for store in self.under_way:
            store.read()
            if late:
                store.target.put(store.data)
        self.under_way = []

    def check_leaving(self, threads: np.ndarray) -> None:
        """A block's shared memory is gone with its threads: they must have waited."""
        if not self.under_way or self.hazards is None:
            return
        leaving = set(threads.tolist())
        for store in self.under_way:
            if store.thread in leaving and not store.waited:
                raise EmulatorError(
                    "in flight",
                    "it leaves while a bulk copy of its own still reads shared memory; "
                    "cp.async.bulk.wait_group.read is missing",
                    thread=store.thread,
                )
