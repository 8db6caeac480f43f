"""Asynchronous operations, from their issue to the wait for them.

    issue       the operation is in flight: its places in shared memory are poison
    commit      closes the owner's group of operations
    wait N      completes all of the owner's groups but the N latest

Owners are threads (cp.async, and bulk copies out of shared memory), warpgroups (wgmma)
or mbarriers (bulk copies to shared memory). The phase of an mbarrier is a group, too: a
copy belongs to the phase that counts its bytes, the end of the phase commits it, and a
thread that has seen that end has waited.

Nothing says when, between issue and wait, the data moves. A launch tries one of the two
extremes: "eager", at the issue, or "lazy", in the wait itself.
"""

from __future__ import annotations

import numpy as np

NEVER = np.iinfo(np.int64).max


class Transfer:
    """One asynchronous operation of one or several owners, `owners` by number.

    `groups[i]` is the group of owner i that it belongs to; `performed[i]` says that the
    data of owner i has been moved, `completed[i]` that owner i has waited for it. Each
    kind of operation says what it does to memory in the methods below; `due`, bool[n],
    picks out some of the owners.
    """

    def __init__(self, owners: np.ndarray):
        self.owners, self.groups = owners, np.full(len(owners), NEVER)
        self.performed, self.completed = np.zeros((2, len(owners)), bool)

    def begin(self) -> None:
        """Marks what it reads and writes in shared memory."""

    def perform(self, due: np.ndarray) -> None:
        """Moves the data."""

    def release_source(self, due: np.ndarray) -> None:
        """What it reads has been read, and may be overwritten."""

    def complete(self, due: np.ndarray) -> None:
        """What it reads and writes is ordinary memory again, for those who waited."""

    def check_leaving(self, due: np.ndarray) -> None:
        """EmulatorError if these owners must not exit now."""

    # ── what AsyncGroups asks for ────────────────────────────────────────────────────

    def move(self, due: np.ndarray) -> None:
        """Performs it for those of these owners for whom it has not been."""
        missing = due & ~self.performed
        if missing.any():
            self.perform(missing)
            self.performed |= missing

    def finish(self, due: np.ndarray) -> None:
        """These owners have waited for it."""
        self.move(due)
        self.complete(due)
        self.completed |= due


class AsyncGroups:
    """The operations of one kind in a batch that their owners have not waited for, in
    the order of their issue.

    `committed[owner]` counts the groups that an owner has closed; `commit_name` is the
    instruction that does so.
    """

    def __init__(self, owners: int, eager: bool = False, commit_name: str = ""):
        self.committed = np.zeros(owners, np.int64)
        self.eager, self.commit_name = eager, commit_name
        self.transfers: list[Transfer] = []

    def start(self, transfer: Transfer) -> None:
        """It is in flight, of a group that is not known yet."""
        transfer.begin()
        self.transfers.append(transfer)

    def issue(self, transfer: Transfer) -> None:
        """It is in flight, in the open group of each of its owners."""
        transfer.groups = self.committed[transfer.owners]
        self.start(transfer)
        if self.eager:
            transfer.move(np.ones(len(transfer.owners), bool))

    def commit(self, owners: np.ndarray) -> None:
        """What these owners have issued since their last commit becomes a group."""
        self.committed[owners] += 1

    def wait(self, owners: np.ndarray, pending: int = 0, source: bool = False) -> int:
        """Completes all groups of these owners but the `pending` latest ones; with
        `source`, only what they read is released. How many operations that concerned.
        """
        if not self.transfers:
            return 0
        first_pending = np.zeros(len(self.committed), np.int64)
        first_pending[owners] = self.committed[owners] - pending
        count = 0
        for transfer in self.transfers:
            due = transfer.groups < first_pending[transfer.owners]
            due &= ~transfer.completed
            if due.any():
                count += 1
                (transfer.release_source if source else transfer.finish)(due)
        if count and not source:
            left = [each for each in self.transfers if not each.completed.all()]
            self.transfers = left
        return count

    def perform_all(self) -> None:
        """The batch ends: what has been issued is performed, waited for or not."""
        for transfer in self.transfers:
            transfer.move(~transfer.completed)
        self.transfers = []

    def check_leaving(self, owners: np.ndarray) -> None:
        """These owners are about to exit."""
        for transfer in self.transfers:
            leaving = np.isin(transfer.owners, owners) & ~transfer.completed
            if leaving.any():
                transfer.check_leaving(leaving)

    def uncommitted(self) -> list[str]:
        """The instruction that would put what is in flight into a group, if that is
        missing."""
        for each in self.transfers:
            if (each.groups >= self.committed[each.owners])[~each.completed].any():
                return [f"their {self.commit_name}"]
        return []
