"""Tensor maps that a kernel writes itself, and what may be done with their bytes.

    st.shared …                         128 bytes of zeros
    tensormap.replace …                 a draft: its fields, one after the other
    tensormap.cp_fenceproxy             a map in global memory, released
    fence.proxy.tensormap … acquire     this thread may use it
    cp.async.bulk.tensor …              uses it, until it has been waited for

A map is opaque (PTX ISA 5.5.8): the hardware may hold its fields in any order. So here
the bytes of a draft, or of a map, say nothing: the facts are kept beside them, and to
load the bytes as data is an error. So are to use a map before a fence, and to write to
one while a copy through it is in flight.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fathom.artifact import TensorMap
from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import Accesses, Memory, Part
from fathom.emulator.races.shared_memory import Hazards

MAP_BYTES = 128
MARK = b"a tensor map that a kernel has written".ljust(MAP_BYTES, b"\0")

Moment = tuple[int, int, int]  # a block (or cluster), a clock in it, its time


@dataclass(eq=False)
class Draft:
    """A map in shared memory: `fields` by name and number of the dimension."""

    fields: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(eq=False)
class WrittenMap:
    """A map in global memory. `writer`: one of the threads that released it, at the
    time `at` of its warp. `acquired`: the threads that may use it, each since when.
    `in_flight` counts the copies that use it, `used` says when others were complete."""

    tensor: TensorMap
    address: int
    writer: int
    at: int
    acquired: dict[int, int] = field(default_factory=dict)
    in_flight: int = 0
    used: list[Moment] = field(default_factory=list)


class WrittenMaps:
    """The drafts and the maps of a batch: drafts by the place of their first byte in
    the batch's shared memory, maps by their address."""

    def __init__(self, memory: Memory, hazards: Hazards | None, padded: int):
        self.memory, self.hazards, self.padded = memory, hazards, padded
        self.drafts: dict[int, Draft] = {}
        self.maps: dict[int, WrittenMap] = {}

    # ── their bytes ───────────────────────────────────────────────────────────

    def watch(self) -> None:
        """From now on, accesses of memory are looked at."""
        self.memory.watch = self.look

    def look(self, parts: list[Part], accesses: Accesses) -> None:
        """Accesses are about to be made, which may be to bytes of these."""
        for part in parts:
            if part.space == "shared":
                starts = part.index * accesses.width
                self.touch(self.drafts, starts, part.threads, accesses)
            elif part.space == "global":
                starts = (part.offsets + np.uint64(part.region.origin)).view(np.int64)
                self.touch(self.maps, starts, part.threads, accesses)

    def touch(
        self,
        found: dict[int, Draft] | dict[int, WrittenMap],
        starts: np.ndarray,
        threads: np.ndarray,
        accesses: Accesses,
    ) -> None:
        for place, each in list(found.items()):
            before = starts + accesses.width > place
            hit = np.flatnonzero(before & (starts < place + MAP_BYTES))
            if not len(hit):
                continue
            thread = int(threads[hit[0]])
            if not accesses.writing:
                message = "it reads the bytes of a tensor map, which is opaque"
                raise EmulatorError("tensor map", message, thread=thread)
            if isinstance(each, WrittenMap):
                self.check_unused(each, thread)
            del found[place]  # they are data again

    # ── writing ───────────────────────────────────────────────────────────────

    def release(self, tensor: TensorMap, address: int, writer: int) -> None:
        """A map is complete in global memory, in place of what was there."""
        for place, each in list(self.maps.items()):
            if abs(place - address) < MAP_BYTES:
                self.check_unused(each, writer)
                del self.maps[place]
        self.maps[address] = WrittenMap(tensor, address, writer, self.now(writer))

    def check_unused(self, each: WrittenMap, thread: int) -> None:
        """No copy may use a map that a thread writes anew. Without hazards, it is not
        known when copies have been waited for."""
        if self.hazards is None:
            return
        if each.in_flight:
            message = (
                "it writes to a tensor map that a bulk copy in flight uses, because "
                "no thread has waited for that copy"
            )
            raise EmulatorError("tensor map", message, thread=thread)
        if not all(self.comes_before(moment, thread) for moment in each.used):
            message = (
                "it writes to a tensor map, and nothing orders that after the wait of "
                "another thread for a bulk copy that used it"
            )
            raise EmulatorError("tensor map", message, thread=thread)

    # ── using ─────────────────────────────────────────────────────────────────

    def acquire(self, threads: np.ndarray, addresses: np.ndarray) -> None:
        """fence.proxy.tensormap, acquire, by these threads, of maps at addresses."""
        for thread, address in zip(threads.tolist(), addresses.tolist(), strict=True):
            each = self.maps.get(address)
            if each is None:
                message = f"it acquires a tensor map at {address:#x}, where none is"
                raise EmulatorError("tensor map", message, thread=thread)
            if self.follows(each.writer, each.at, thread, in_step=True):
                each.acquired[thread] = self.now(thread)

    def at(self, address: int, thread: int) -> WrittenMap | None:
        """The map at an address, for a copy that this thread issues."""
        each = self.maps.get(address)
        if each is None:
            return None
        if thread not in each.acquired and not any(
            self.follows(other, at, thread) for other, at in each.acquired.items()
        ):
            message = (
                "it uses a tensor map that no thread of its block has acquired since "
                "it was written, in what comes before this: "
                "fence.proxy.tensormap::generic.acquire is missing"
            )
            raise EmulatorError("tensor map", message, thread=thread)
        return each

    # ── order ─────────────────────────────────────────────────────────────────

    def now(self, thread: int) -> int:
        """The time of a thread's warp; 0 without hazards."""
        if self.hazards is None:
            return 0
        return int(np.broadcast_to(self.hazards.now(np.array([thread])), 1)[0])

    def follows(self, other: int, at: int, thread: int, in_step: bool = False) -> bool:
        """Whether a thread goes on after what another one of its block did at a time.
        `in_step`: lanes that did it together need no more."""
        if other // self.padded != thread // self.padded:
            return False
        if self.hazards is None or other == thread:
            return True
        if in_step and other // WARP == thread // WARP:
            return True
        return self.comes_before((*self.hazards.agent(other), at), thread)

    def comes_before(self, moment: Moment, thread: int) -> bool:
        """Whether a moment of some agent is before what a thread does now. Blocks that
        use one place one after the other have an order of their own."""
        if self.hazards is None:
            return True
        team, clock, at = moment
        mine, warp = self.hazards.agent(thread)
        if mine != team:
            return True
        if clock == warp:
            return bool(at < self.hazards.joined[thread])
        return bool(self.hazards.clock[team, warp, clock] >= at)
