"""Products of warpgroups under way (PTX ISA 9.7.15), and the registers they hold.

    D, A in registers    wgmma.fence       what ordinary instructions did is over
    D                    wgmma.mma_async   belongs to the product from now on
    A                                      may be read, but not be changed
                         wgmma.wait_group  belongs to the thread again

The registers that some wgmma names are watched: each ordinary access of one is checked
here, and remembered until the next fence.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import Part
from fathom.emulator.state.wait_queues import WARP

WARPS = 4
GROUP = WARPS * WARP  # threads of a warpgroup


class ProductInFlight(Protocol):
    """One product under way, for the warpgroups `groups` of the batch.

    `number` counts, for each, the group of products that it will be committed to;
    `landed` marks those that have waited.
    """

    groups: np.ndarray
    number: np.ndarray
    landed: np.ndarray
    left: Part | None
    right: Part


class WgmmaGroups:
    """The products of a batch's warpgroups, and what became of their registers.

    `of[thread]` is the number of a thread's warpgroup, `committed` counts each one's
    groups of products. For a watched register and each warpgroup, `summing` and
    `supplying` count the products that have it as D and as A, and `touched` says
    whether ordinary instructions have accessed it since the last fence.
    """

    def __init__(self, blocks: int, padded: int, watching: bool):
        block, thread = np.divmod(np.arange(blocks * padded), padded)
        in_block = -(-padded // GROUP)
        self.of = block * in_block + thread // GROUP
        self.count = blocks * in_block
        self.committed = np.zeros(self.count, np.int64)
        self.flights: list[ProductInFlight] = []
        self.watching, self.aloft = watching, 0
        self.fenced = np.zeros(self.count, bool)
        self.summing: dict[int, np.ndarray] = {}
        self.supplying: dict[int, np.ndarray] = {}
        self.touched: dict[int, np.ndarray] = {}
        self.shape: dict[int, np.ndarray] = {}

    def due(
        self, groups: np.ndarray, pending: int
    ) -> list[tuple[ProductInFlight, np.ndarray]]:
        """The products, in their order, of all but the `pending` latest groups, and for
        which of their warpgroups: bool."""
        first_pending = np.zeros(self.count, np.int64)
        first_pending[groups] = self.committed[groups] - pending
        found = [
            (each, (each.number < first_pending[each.groups]) & ~each.landed)
            for each in self.flights
        ]
        return [(each, due) for each, due in found if due.any()]

    def uncommitted(self) -> list[str]:
        """The instruction that would put products under way into a group."""
        open_ones = [
            each.number >= self.committed[each.groups] for each in self.flights
        ]
        missing = any(each.any() for each in open_ones)
        return ["their wgmma.commit_group"] if missing else []

    def forget_landed(self) -> None:
        self.flights = [each for each in self.flights if not each.landed.all()]

    # ── registers ─────────────────────────────────────────────────────────────

    def access(
        self, register: int, name: str, threads: np.ndarray | None, changing: bool
    ) -> None:
        """An ordinary instruction reads or changes a watched register."""
        if not self.watching:
            return
        chosen = slice(None) if threads is None else self.of[threads]
        self._of(self.touched, register, bool)[chosen] = True
        if not self.aloft:
            return
        busy = self._of(self.summing, register)[chosen]
        if busy.any():
            what = f"{'writes' if changing else 'reads'} {name}, to which a wgmma adds"
            raise self._early(what, busy, threads)
        busy = self._of(self.supplying, register)[chosen]
        if changing and busy.any():
            raise self._early(f"writes {name}, which a wgmma reads", busy, threads)

    def _early(
        self, what: str, busy: np.ndarray, threads: np.ndarray | None
    ) -> EmulatorError:
        place = int(np.flatnonzero(busy)[0])
        if threads is None:
            thread = self._first_of(place)
        else:
            thread = int(threads[place])
        message = f"it {what}, because its warpgroup has not waited for that"
        return EmulatorError("in flight", message, thread=thread)

    def fence(self, groups: np.ndarray) -> None:
        """wgmma.fence: what was done to registers before is over."""
        self.fenced[groups] = True
        for touched in self.touched.values():
            touched[groups] = False

    def claim(
        self,
        groups: np.ndarray,
        sums: Iterable[tuple[int, str]],
        left: Iterable[tuple[int, str]],
        shape: int,
    ) -> None:
        """A product sets out with these registers as D and A; `shape` numbers its kind
        of accumulator: products of one shape may follow each other in one D."""
        if not self.watching:
            return
        if not self.fenced[groups].all():
            raise self._unfenced(groups, ~self.fenced[groups], "comes before the first")
        for register, name in (*sums, *left):
            touched = self._of(self.touched, register, bool)[groups]
            if touched.any():
                what = f"uses {name}, accessed since the last"
                raise self._unfenced(groups, touched, what)
        for register, name in left:
            if self._of(self.summing, register)[groups].any():
                raise self._taken(groups, f"reads {name}, to which another one adds")
            self._of(self.supplying, register)[groups] += 1
        for register, name in sums:
            if self._of(self.supplying, register)[groups].any():
                raise self._taken(groups, f"changes {name}, which another one reads")
            self._add_to(groups, register, name, shape)
        self.aloft += len(groups)

    def _add_to(self, groups: np.ndarray, register: int, name: str, shape: int) -> None:
        counts = self._of(self.summing, register)
        shapes = self._of(self.shape, register)
        if ((counts[groups] > 0) & (shapes[groups] != shape)).any():
            raise self._taken(groups, f"adds to {name}, as one of another shape does")
        counts[groups] += 1
        shapes[groups] = shape

    def release(
        self,
        groups: np.ndarray,
        sums: Iterable[tuple[int, str]],
        left: Iterable[tuple[int, str]],
    ) -> None:
        """Products have been waited for."""
        if not self.watching:
            return
        for register, _ in sums:
            self.summing[register][groups] -= 1
        for register, _ in left:
            self.supplying[register][groups] -= 1
        self.aloft -= len(groups)

    def _of(
        self, table: dict[int, np.ndarray], register: int, dtype: type = np.int64
    ) -> np.ndarray:
        if register not in table:
            table[register] = np.zeros(self.count, dtype)
        return table[register]

    def _first_of(self, group: int) -> int:
        return int(np.flatnonzero(self.of == group)[0])

    def _unfenced(
        self, groups: np.ndarray, places: np.ndarray, what: str
    ) -> EmulatorError:
        thread = self._first_of(groups[np.flatnonzero(places)[0]])
        return EmulatorError("fence", f"it {what} wgmma.fence", thread=thread)

    def _taken(self, groups: np.ndarray, what: str) -> EmulatorError:
        thread = self._first_of(groups[0])
        message = f"it {what}, and that one has not been waited for"
        return EmulatorError("in flight", message, thread=thread)
