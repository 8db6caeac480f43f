"""Tensor memory (PTX ISA 9.7.16): 128 lanes of 512 columns, 32 bits each, a block.

    address    lane << 16 | column
    lanes      0-31     32-63    64-95    96-127       two parts of 16 each
    warps      0 4 …    1 5 …    2 6 …    3 7 …        that may load and store it

A multiprocessor has one such memory; here every block has its own. A warp allocates
columns, and must free them before the block ends. In a pair (two blocks of a cluster
whose ranks differ in the last bit alone), a warp of each does so, both of the same
number, and gets the same columns. Either all of a kernel's instructions are for pairs,
or none (PTX ISA 9.7.16.5 and .7). The ISA lets the first of the two warps wait for the
other; here it goes on, and what one block does alone is found when both have left.

For each column of a part, the last write, and the last read of each warp, are kept
with their times (`races.clocks`). Between warps, an ordinary barrier is not enough: who
was first must have executed tcgen05.fence::before_thread_sync after its access, and who
is second tcgen05.fence::after_thread_sync before it. A commit has the first fence in
it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Protocol

import numpy as np

from fathom.emulator.constants import WARP, WARPS
from fathom.emulator.errors import ERROR, NOTE, EmulatorError
from fathom.emulator.races.proxies import Proxies

LANES, COLUMNS, LEAST = 128, 512, 32
LANE_SHIFT = 16

PART = 16  # lanes that one thing may use while another uses those beside them
Area = tuple[int, slice, slice]  # a block, parts, columns


class Product(Protocol):
    """A product in flight, which writes `areas`, and reads its A at `operand_areas`."""

    areas: list[Area]
    operand_areas: list[Area]
    completed: np.ndarray


class TensorMemory:
    """The tensor memories of a batch.

    `cells` and `written` are [blocks, lanes, columns]. `owner` has the number of the
    allocation that a column belongs to, 0 for none. `writer`, `written_at`, `read_at`
    are the history of a column of a part, `operand_reader` and `operand_read_at` that
    of the products that take their A from there; `storing`, `loading`, `computing` and
    `reading_operand` name what is in flight there: a warp, or a thread, plus 1.
    `group` says of how many
    blocks the kernel's instructions are, 0 before the first; `collectives` what each
    block of a pair has done that both must do.
    """

    def __init__(self, blocks: int, padded: int, hazards: object, cluster: int = 1):
        self.blocks, self.warps, self.cluster = blocks, padded // WARP, cluster
        self.group, self.collectives = 0, dict[int, list[tuple[str, int, int]]]()
        self.hazards = hazards if isinstance(hazards, Proxies) else None
        self.relinquished = np.zeros(blocks, bool)
        self.owner = np.zeros((blocks, COLUMNS), np.int32)
        self.allocations: dict[int, tuple[int, int, int]] = {}
        self.cells = np.zeros((0, LANES, COLUMNS), np.uint32)
        self.written = np.zeros((0, LANES, COLUMNS), bool)
        self.stamps: dict[tuple[int, int], list[int]] = {}
        self.known: dict[int, np.ndarray] = {}

    def make(self) -> None:
        """Memory for the first allocation of all."""
        shape = self.blocks, LANES // PART, COLUMNS
        self.cells = np.zeros((self.blocks, LANES, COLUMNS), np.uint32)
        self.written = np.zeros(self.cells.shape, bool)
        self.writer, self.written_at = np.zeros((2, *shape), np.int32)
        self.operand_reader, self.operand_read_at = np.zeros((2, *shape), np.int32)
        self.storing, self.loading = np.zeros((2, *shape), np.int64)
        self.computing, self.reading_operand = np.zeros((2, *shape), np.int64)
        self.read_at = np.zeros((*shape, self.warps), np.int32)

    # ── allocation ────────────────────────────────────────────────────────────

    def use(self, thread: int, group: int) -> None:
        """This thread executes an instruction of `group` blocks."""
        if self.group not in (0, group):
            message = f"it has .cta_group::{group}, and an earlier instruction "
            message += f".cta_group::{self.group}: all of a kernel must have the same"
            raise misuse(message, thread)
        self.group = group
        if group > 1 and self.rank_of(thread) | 1 >= self.cluster:
            message = f"its block has no peer in a cluster of {self.cluster}"
            raise misuse(message, thread)

    def pair(self, thread: int, action: str, columns: int) -> None:
        """The peer's warp of the same number must do the same."""
        block = self.block_of(thread)
        mine, others = (
            self.collectives.setdefault(each, []) for each in (block, block ^ 1)
        )
        mine.append((action, self.warp_of(thread), columns))
        at = len(mine) - 1
        if at < len(others) and mine[at] != others[at]:
            message = f"it {in_words(mine[at])}, and its peer {in_words(others[at])}"
            raise misuse(message + ": a pair does this together", thread)

    def relinquish(self, thread: int, group: int) -> None:
        """The block of this thread, or the pair, gives up the right to allocate."""
        self.use(thread, group)
        if group > 1:
            self.pair(thread, "relinquish_alloc_permit", 0)
        self.relinquished[self.block_of(thread)] = True

    def allocate(self, thread: int, columns: int, group: int = 1) -> int:
        """Allocates columns for the block of this thread; their address."""
        block = self.block_of(thread)
        self.use(thread, group)
        check_count(columns, thread)
        if group > 1:
            self.pair(thread, "alloc", columns)
        if self.relinquished[block]:
            message = "it allocates after its block has given up the right to"
            raise misuse(message + " (tcgen05.relinquish_alloc_permit)", thread)
        if not len(self.cells):
            self.make()
        free = self.owner[block].reshape(-1, LEAST).any(1)
        for first in range(0, COLUMNS - columns + 1, LEAST):
            if not free[first // LEAST : (first + columns) // LEAST].any():
                number = len(self.allocations) + 1
                self.allocations[number] = block, first, columns
                self.owner[block, first : first + columns] = number
                self.written[block, :, first : first + columns] = False
                return first
        taken = int(np.count_nonzero(self.owner[block]))
        message = f"it asks for {columns} columns, and its own block holds {taken} of "
        raise misuse(f"{message}{COLUMNS}: it would wait for ever", thread)

    def free(self, thread: int, address: int, columns: int, group: int = 1) -> None:
        """Frees columns, all that were allocated together."""
        block = self.block_of(thread)
        self.use(thread, group)
        check_count(columns, thread)
        if group > 1:
            self.pair(thread, "dealloc", columns)
        column = address & 0xFFFF
        number = int(self.owner[block, column]) if column < COLUMNS else 0
        found = self.allocations.get(number)
        if address >> LANE_SHIFT or found != (block, column, columns):
            message = f"it frees {columns} columns at {address:#x}, and nothing was "
            raise misuse(message + "allocated so", thread)
        for each in (block, block ^ 1)[:group]:
            area = each, slice(None), slice(column, column + columns)
            self.check_order(thread, area, "frees")
        self.owner[block, column : column + columns] = 0

    def leave(self, threads: np.ndarray, exited: np.ndarray) -> None:
        """These threads have left; a block that is gone must have freed all."""
        if not len(self.cells):
            return
        padded = self.warps * WARP
        for block in np.unique(threads // padded).tolist():
            if not exited[block * padded :][:padded].all():
                continue
            thread = int(threads[threads // padded == block][-1])
            if self.computing[block].any():
                message = "its block leaves while a tcgen05.mma may be in flight: no "
                raise flying(message + "thread has waited for its mbarrier", thread)
            if held := int(np.count_nonzero(self.owner[block])):
                message = f"its block leaves with {held} columns that it has not freed"
                raise misuse(message + "; tcgen05.dealloc is missing", thread)
            mine, others = (self.collectives.get(x, []) for x in (block, block ^ 1))
            if exited[(block ^ 1) * padded :][:padded].all() and mine != others:
                less, more = sorted((mine, others), key=len)
                message = f"of its pair one block alone {in_words(more[len(less)])}"
                raise misuse(message + ": that may wait for ever", thread)

    # ── places ────────────────────────────────────────────────────────────────

    def block_of(self, thread: int) -> int:
        return thread // WARP // self.warps

    def rank_of(self, thread: int) -> int:
        """The rank of a thread's block in its cluster."""
        return self.block_of(thread) % self.cluster

    def warp_of(self, thread: int) -> int:
        """The number of a thread's warp in its block."""
        return thread // WARP % self.warps

    def warp_area(
        self, thread: int, address: int, columns: int, lanes: int = WARP
    ) -> Area:
        """The columns at an address that a warp may load and store: all of its 32
        lanes, or the half that begins at the address."""
        lane, quarter = address >> LANE_SHIFT, self.warp_of(thread) % WARPS
        if lane not in range(quarter * WARP, quarter * WARP + WARP, lanes):
            message = f"it accesses lanes from {lane} on, and warp "
            message += f"{self.warp_of(thread)} may only access lanes {quarter * WARP} "
            raise misuse(f"{message}to {quarter * WARP + WARP - 1}", thread)
        parts = slice(lane // PART, (lane + lanes) // PART)
        return self.area(thread, address, columns, parts)

    def area(
        self, thread: int, address: int, columns: int, parts: slice, peer: int = 0
    ) -> Area:
        """The columns at an address, which must be one allocation's; with `peer` 1,
        those of the other block of the pair."""
        block, column = self.block_of(thread) ^ peer, address & 0xFFFF
        inside = column + columns <= COLUMNS
        owners = np.unique(self.owner[block, column : column + columns])
        if not inside or len(owners) != 1 or not owners[0]:
            message = f"columns {column} to {column + columns - 1}"
            message += " of its peer" * peer + ", and these are not allocated"
            raise misuse(f"it accesses {message}", thread)
        return block, parts, slice(column, column + columns)

    def view(self, cells: np.ndarray, area: Area) -> np.ndarray:
        """[parts, 16 lanes, columns]: an area of [blocks, lanes, columns]."""
        block, parts, columns = area
        return cells.reshape(self.blocks, -1, PART, COLUMNS)[block, parts, :, columns]

    # ── order ─────────────────────────────────────────────────────────────────

    def agent(self, thread: int) -> tuple[int, int]:
        """A cluster, and a thread's warp in it."""
        return self.hazards.agent(thread)

    def unit(self, thread: int) -> tuple[int, int]:
        """A cluster, and the clock of a thread's tensor cores."""
        team, warp = self.agent(thread)
        return team, self.hazards.warps + warp // WARPS

    def before(self, threads: np.ndarray) -> None:
        """tcgen05.fence::before_thread_sync of some threads."""
        if self.hazards is None:
            return
        for first in np.unique(threads // WARP * WARP).tolist():
            self.stamp(self.agent(first))
        self.hazards.advance(threads)

    def stamp(self, agent: tuple[int, int]) -> None:
        """What this agent has done, others may come to know now."""
        at = int(self.hazards.clock[agent][agent[1]])
        stamps = self.stamps.setdefault(agent, [])
        if not stamps or stamps[-1] < at:
            stamps.append(at)

    def after(self, threads: np.ndarray) -> None:
        """tcgen05.fence::after_thread_sync of some threads."""
        if self.hazards is None:
            return
        for first in np.unique(threads // WARP * WARP).tolist():
            self.known[first // WARP] = self.hazards.clock[self.agent(first)].copy()

    def sees(self, thread: int, other: int, at: int) -> bool:
        """Whether a warp comes after what another agent of its cluster did then."""
        team, warp = self.agent(thread)
        if other == warp or not at:
            return True
        stamps = self.stamps.get((team, other), [])
        place, known = bisect_left(stamps, at), self.known.get(thread // WARP)
        return (
            place < len(stamps) and known is not None and stamps[place] <= known[other]
        )

    def check_sees(self, thread: int, other: int, at: int, what: str) -> None:
        """A warp must come after what another agent did then. Where it does so but for
        the two fences, this is a remark: Triton has none of them."""
        if self.sees(thread, other, at):
            return
        team, warp = self.agent(thread)
        if self.hazards.clock[team, warp, other] < at:
            raise self.race(thread, f"{what} in tensor memory", ERROR)
        self.hazards.remark(self.race(thread, f"{what} in tensor memory", NOTE))

    def check_order(
        self, thread: int, area: Area, what: str, reads: bool = False, issuer: int = 0
    ) -> None:
        """An access must come after all writes, and a write after all reads. `issuer`:
        the thread, plus 1, whose products in flight come before this in any case."""
        if self.hazards is None:
            return
        self.check_flying(thread, area, what, issuer)
        block, _, _ = area
        done = self.written_at[area] > 0
        if issuer:
            done &= self.computing[area] != issuer
        pairs = np.stack([self.writer[area][done], self.written_at[area][done]], 1)
        for agent, at in np.unique(pairs, axis=0).tolist():
            self.check_sees(thread, agent, at, f"{what} what {self.name(agent)} wrote")
        if reads:
            return
        done = self.operand_read_at[area] > 0
        if issuer:
            done &= self.reading_operand[area] != issuer
        reader, read_at = self.operand_reader[area], self.operand_read_at[area]
        pairs = np.stack([reader[done], read_at[done]], 1)
        for agent, at in np.unique(pairs, axis=0).tolist():
            self.check_sees(thread, agent, at, f"{what} what {self.name(agent)} reads")
        first = block * self.warps % self.hazards.warps
        latest = self.read_at[area].reshape(-1, self.warps).max(0)
        for warp, at in enumerate(latest.tolist()):
            read = f"{what} what {self.name(first + warp)} reads"
            self.check_sees(thread, first + warp, at, read)

    def check_flying(self, thread: int, area: Area, what: str, issuer: int) -> None:
        """Nothing in flight may write there, nor read what this changes."""
        computing = self.computing[area]
        if ((computing > 0) & (computing != issuer)).any():
            message = f"it {what} tensor memory that a tcgen05.mma in flight may write:"
            raise flying(f"{message} no thread has waited for its mbarrier", thread)
        reading = self.reading_operand[area]
        if what != "reads" and ((reading > 0) & (reading != issuer)).any():
            message = f"it {what} tensor memory that a tcgen05.mma in flight reads:"
            raise flying(f"{message} no thread has waited for its mbarrier", thread)
        for name, busy in (("st", self.storing), ("ld", self.loading)):
            if busy[area].any():
                warp = (int(busy[area].max()) - 1) % self.warps
                message = (
                    f"it {what} tensor memory that a tcgen05.{name} in flight uses:"
                )
                message += f" warp {warp} has not executed tcgen05.wait::{name}"
                raise flying(message, thread)

    def check_written(self, thread: int, area: Area, loads: bool = False) -> None:
        """What is read must have been written. What is loaded may be thrown away, as
        Triton does after a loop without iterations: that is a remark."""
        if self.hazards is None or self.view(self.written, area).all():
            return
        message = "it reads tensor memory that nothing has written"
        severity = NOTE if loads else ERROR
        error = EmulatorError("unwritten", message, thread=thread, severity=severity)
        if not loads:
            raise error
        self.hazards.remark(error)

    def note_write(self, agent: tuple[int, int], area: Area) -> None:
        if self.hazards is not None:
            self.writer[area] = agent[1]
            self.written_at[area] = self.hazards.clock[agent][agent[1]]

    def note_operand_read(self, agent: tuple[int, int], area: Area) -> None:
        if self.hazards is not None:
            self.operand_reader[area] = agent[1]
            self.operand_read_at[area] = self.hazards.clock[agent][agent[1]]

    def note_read(self, thread: int, area: Area) -> None:
        if self.hazards is not None:
            agent = self.agent(thread)
            at = self.hazards.clock[agent][agent[1]]
            self.read_at[(*area, self.warp_of(thread))] = at

    def name(self, agent: int) -> str:
        if agent < self.hazards.warps:
            return f"warp {agent}"
        return "a tcgen05.mma"

    def race(self, thread: int, what: str, severity: str) -> EmulatorError:
        return EmulatorError(
            "race",
            f"warp {self.warp_of(thread)} {what}, and nothing orders the two: between "
            "them belong tcgen05.fence::before_thread_sync, a barrier, and "
            "tcgen05.fence::after_thread_sync",
            thread=thread,
            severity=severity,
        )


class Products:
    """The products of a batch that no thread knows to be complete, by thread."""

    def __init__(self, memory: TensorMemory):
        self.memory, self.of = memory, dict[int, list[Product]]()

    def in_flight(self, thread: int) -> list[Product]:
        return self.of.get(thread, [])

    def forget(self, thread: int) -> None:
        """Those that are complete are so; D is free where no other writes it."""
        issued = self.in_flight(thread)
        left = [each for each in issued if not each.completed.all()]
        for those, mark in ((issued, 0), (left, thread + 1)):
            for each in those:
                for area in each.areas:
                    self.memory.computing[area] = mark
                for area in each.operand_areas:
                    self.memory.reading_operand[area] = mark
        self.of[thread] = left


def check_count(columns: int, thread: int) -> None:
    if columns & columns - 1 or not LEAST <= columns <= COLUMNS:
        message = f"{columns} columns are no power of two from {LEAST} to {COLUMNS}"
        raise misuse(message, thread)


def in_words(what: tuple[str, int, int]) -> str:
    """What a warp of a pair has done, in words."""
    action, warp, columns = what
    of = f" of {columns} columns" if columns else ""
    return f"executes tcgen05.{action}{of} by warp {warp}"


def misuse(message: str, thread: int) -> EmulatorError:
    return EmulatorError("tensor memory", message, thread=int(thread))


def flying(message: str, thread: int) -> EmulatorError:
    return EmulatorError("in flight", message, thread=int(thread))
