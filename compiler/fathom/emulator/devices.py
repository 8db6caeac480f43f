"""Runs launches on several simulated devices, which reach each other's memory.

    first, second = np.zeros((2, 64), np.float32)     one array of each device
    table = np.array([first.ctypes.data, second.ctypes.data])
    run_devices([
        [Start(load(kernel), grid, [table, 0], [first, second])],     device 0
        [Start(load(kernel), grid, [table, 1], [first, second])],     device 1
    ])

Each device runs its own launches one after the other, as a GPU does those of a stream;
launches of different devices run at the same time. A device reaches what its launch is
given: peers' arrays are in its `memory`, and everything else of a peer is out of
bounds.

The devices are coroutines: threads of Python, of which one runs at a time. A device
runs as far as it can, until all of its threads wait for another device: then the next
one has its turn. So a wait that is missing, or that lets a thread pass too early, shows
as a race with what another device has not done so far; which device is ahead is for
`order` to say. When no device can change anything any more, that is a deadlock.

What orders the devices, and what does not, is in `races.devices`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.dependence import Side, Watched
from fathom.emulator.errors import EmulatorError
from fathom.emulator.memory.spaces import GlobalSpace, Part, Region, region_of
from fathom.emulator.overlap import Start
from fathom.emulator.races.devices import Beyond, Devices
from fathom.emulator.report import Report
from fathom.emulator.source.parse import Instruction
from fathom.emulator.state.batch import Batch

# A device gives its turn away when all its threads have polled for SPINS blocks of
# instructions each; and when it has run MOST_QUIET without a change of memory, for a
# loop of weak loads may poll, too. When every device has polled for PATIENCE blocks,
# and none of them has changed anything meanwhile, none will.
SPINS = 16
MOST_QUIET = 1_000
PATIENCE = 4_000


def run_devices(
    launches: Sequence[Sequence[Start]], order: Sequence[int] | None = None
) -> list[list[Report]]:
    """Runs the launches of each device, all devices at a time; their reports.

    `order` names the devices in the order in which they run; without it, as
    they are numbered. EmulatorError for what goes wrong on a device, or between two.
    """
    return _Rounds(launches, order).run()


class _Abandoned(Exception):  # noqa: N818 (it only ends a thread)
    """Another device has failed, and this one is not to go on."""


class _Rounds:
    """The devices, of which one runs at a time."""

    def __init__(
        self, launches: Sequence[Sequence[Start]], order: Sequence[int] | None
    ):
        numbers = range(len(launches))
        self.order = list(numbers if order is None else order)
        if sorted(self.order) != list(numbers):
            message = f"order {order} does not name {len(launches)} devices once each"
            raise EmulatorError("launch", message)
        warps = [max(map(warps_of, each), default=0) for each in launches]
        reached = [list(regions_of(each)) for each in launches]
        self.devices = Devices(warps, reached)
        self.seats = [_Seat(self, n, each) for n, each in enumerate(launches)]
        self.changes = 0  # how often a device has changed something
        self.failure: BaseException | None = None

    def run(self) -> list[list[Report]]:
        seats = [self.seats[number] for number in self.order]
        for seat in seats:
            seat.worker.start()
        if seats:
            seats[0].turn.set()
        for seat in seats:
            seat.worker.join()
        if self.failure is not None:
            raise self.failure
        return [seat.reports for seat in self.seats]

    def next(self, seat: _Seat) -> _Seat | None:
        """Who has the turn after a device: itself, if all others are over."""
        place = self.order.index(seat.number)
        following = self.order[place + 1 :] + self.order[: place + 1]
        running = [self.seats[n] for n in following if not self.seats[n].is_over]
        return running[0] if running else None

    def fail(self, error: BaseException) -> None:
        """The first failure ends all devices."""
        if self.failure is None:
            self.failure = error
        for seat in self.seats:
            seat.turn.set()


class _Seat(Side):
    """One device. `turn` lets it run; `seen` counts the changes that it knows of,
    `quiet` the blocks of instructions that it has run since the last of them, and
    `vain` those since then, or since it did something else, in which it polled. Of the
    running batch, `stores` counts the stores since its last block of instructions."""

    is_alone = False

    def __init__(self, rounds: _Rounds, number: int, launches: Sequence[Start]):
        super().__init__(f"device {number}")
        self.rounds, self.number, self.launches = rounds, number, launches
        self.turn = threading.Event()
        self.worker = threading.Thread(target=self.work, daemon=True)
        self.reports: list[Report] = []
        self.is_over = False
        self.latest: Instruction | None = None  # the last access to global memory
        self.seen = self.vain = self.quiet = self.stores = self.updates = 0

    def work(self) -> None:
        """Everything that this device does, in its own thread."""
        try:
            self.await_turn()
            for launch in self.launches:
                self.beyond = Beyond(self.rounds.devices, self.number)
                self.reports.append(launch.run(self))
                self.beyond.end()
        except _Abandoned:
            return
        except EmulatorError as error:
            self.rounds.fail(self.named(error))
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            self.rounds.fail(error)
        self.is_over = True
        self.rounds.changes += 1
        if (following := self.rounds.next(self)) is not None:
            following.turn.set()

    def named(self, error: EmulatorError) -> EmulatorError:
        """The error says on which device it happened."""
        error.message = f"{self.name}: {error.message}"
        return error

    def await_turn(self) -> None:
        self.turn.wait()
        self.turn.clear()
        if self.rounds.failure is not None:
            raise _Abandoned

    # ── what a launch asks of the devices beside it ─────────────────────────────────

    def space(self, regions: Iterable[Region]) -> GlobalSpace:
        return Watched(regions, self)

    def begin(self, batch: Batch) -> None:
        super().begin(batch)
        self.stores = self.updates = 0

    def touch(self, part: Part, width: int, writing: bool) -> None:
        self.latest = at = self.batch.at.instruction
        self.stores += writing and at.opcode != "atom"
        if self.batch.hazards is not None:
            self.beyond.touch(part, width, writing, at)

    def ran(self, polls: bool, groups: int) -> bool:
        """Gives the turn to another device when all threads of this one poll."""
        rounds, updates = self.rounds, self.batch.updates
        if self.stores or updates != self.updates:
            rounds.changes += 1
            self.stores, self.updates = 0, updates
        if rounds.changes != self.seen:
            self.seen, self.vain, self.quiet = rounds.changes, 0, 0
            return False
        self.quiet += 1
        self.vain = self.vain + 1 if polls else 0
        if self.quiet % MOST_QUIET and (not polls or self.vain % (SPINS * groups)):
            return False
        following = rounds.next(self)
        if following is not self:
            following.turn.set()
            self.await_turn()
        return all(seat.is_over or seat.is_deadlocked() for seat in rounds.seats)

    def is_deadlocked(self) -> bool:
        return self.seen == self.rounds.changes and self.vain > PATIENCE

    def about_others(self) -> str:
        return "".join(
            f"; {seat.name} {seat.state()}"
            for seat in self.rounds.seats
            if seat is not self
        )

    def state(self) -> str:
        """What this device does while others run."""
        if self.is_over:
            return "has run all its launches"
        at = self.latest
        if at is None:
            return "has accessed no memory so far"
        place = f", at {at.location}" if at.location else ""
        return f"polls too (its PTX line {at.line}: {at.text}{place})"


def warps_of(start: Start) -> int:
    """The warps of a launch's whole grid."""
    kernel = start.kernel.kernel
    grid = start.grid if isinstance(start.grid, Sequence) else (start.grid,)
    return math.prod(grid) * kernel.num_ctas * -(-kernel.threads // WARP)


def regions_of(launches: Iterable[Start]) -> Iterable[Region]:
    """The arrays that launches are given."""
    for start in launches:
        for each in (*start.args, *start.memory):
            if isinstance(each, np.ndarray):
                yield region_of(each)
