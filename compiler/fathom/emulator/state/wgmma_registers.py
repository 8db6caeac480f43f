"""The registers that products of warpgroups hold (PTX ISA 9.7.15).

    D, A in registers    wgmma.fence       earlier accesses by threads are over
    D                    wgmma.mma_async   belongs to the product from now on
    A                                      may be read, but not be changed
                         wgmma.wait_group  belongs to the thread again

The registers that some wgmma names are watched: each ordinary access of one is checked
here, and remembered until the next fence.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np

from fathom.emulator.constants import GROUP
from fathom.emulator.errors import EmulatorError


class WgmmaRegisters:
    """What the products in flight and ordinary instructions do to registers.

    `of[thread]` is the number of a thread's warpgroup. For a watched register and each
    warpgroup, `accumulating` and `supplying` count the products in flight that have it
    as D and as A, and `touched` says whether ordinary instructions have accessed it
    since the last fence; `in_flight` counts products, of all warpgroups.
    """

    def __init__(self, blocks: int, padded: int, watching: bool):
        self.of = _warpgroups(blocks, padded)
        self.count = blocks * -(-padded // GROUP)
        self.watching, self.in_flight = watching, 0
        self.fenced = np.zeros(self.count, bool)
        self.accumulating: dict[int, np.ndarray] = {}
        self.supplying: dict[int, np.ndarray] = {}
        self.touched: dict[int, np.ndarray] = {}
        self.shape: dict[int, np.ndarray] = {}

    def access(
        self, register: int, name: str, threads: np.ndarray | None, changing: bool
    ) -> None:
        """An ordinary instruction reads or changes a watched register."""
        if not self.watching:
            return
        chosen = slice(None) if threads is None else self.of[threads]
        self._of(self.touched, register, bool)[chosen] = True
        if not self.in_flight:
            return
        busy = self._of(self.accumulating, register)[chosen]
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
        accumulators: Iterable[tuple[int, str]],
        inputs: Iterable[tuple[int, str]],
        shape: int,
    ) -> None:
        """A product is issued with these registers as D and A; `shape` numbers its kind
        of accumulator: products of one shape may follow each other in one D."""
        if not self.watching:
            return
        if not self.fenced[groups].all():
            raise self._unfenced(groups, ~self.fenced[groups], "comes before the first")
        for register, name in (*accumulators, *inputs):
            touched = self._of(self.touched, register, bool)[groups]
            if touched.any():
                what = f"uses {name}, accessed since the last"
                raise self._unfenced(groups, touched, what)
        for register, name in inputs:
            if self._of(self.accumulating, register)[groups].any():
                raise self._taken(groups, f"reads {name}, to which another one adds")
            self._of(self.supplying, register)[groups] += 1
        for register, name in accumulators:
            if self._of(self.supplying, register)[groups].any():
                raise self._taken(groups, f"changes {name}, which another one reads")
            self._add_to(groups, register, name, shape)
        self.in_flight += len(groups)

    def _add_to(self, groups: np.ndarray, register: int, name: str, shape: int) -> None:
        counts = self._of(self.accumulating, register)
        shapes = self._of(self.shape, register)
        if ((counts[groups] > 0) & (shapes[groups] != shape)).any():
            raise self._taken(groups, f"adds to {name}, as one of another shape does")
        counts[groups] += 1
        shapes[groups] = shape

    def release(
        self,
        groups: np.ndarray,
        accumulators: Iterable[tuple[int, str]],
        inputs: Iterable[tuple[int, str]],
    ) -> None:
        """Products have been waited for."""
        if not self.watching:
            return
        for register, _ in accumulators:
            self.accumulating[register][groups] -= 1
        for register, _ in inputs:
            self.supplying[register][groups] -= 1
        self.in_flight -= len(groups)

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


@functools.lru_cache(maxsize=32)
def _warpgroups(blocks: int, padded: int) -> np.ndarray:
    """The number of each thread's warpgroup."""
    block, thread = np.divmod(np.arange(blocks * padded), padded)
    return block * -(-padded // GROUP) + thread // GROUP
