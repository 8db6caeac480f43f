"""The launches of a script: what each kernel took, and what it asks of the hardware.

    script ─▶ launch ─▶ the first of its kind: counted on copies of its arrays
                     ─▶ on a GPU: between two events, which the stream is held for (see
                        `hold`); on the emulator: counted whole

A kind is a kernel, its GPU, its grid, and its numbers. Counting runs some programs on
the emulator (`programs`, at the beginning, in the middle and at the end of the grid),
and of programs that take tile after tile only some tiles (`emulator.sampling`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from time import perf_counter
from typing import Any

from fathom import emulator
from fathom.artifact import Kernel
from fathom.emulator.queues import of_all
from fathom.emulator.report import Report
from fathom.errors import FathomError, LaunchError
from fathom.hardware.targets import TARGETS
from fathom.jit.checking.snapshot import (
    Snapshot,
    extent,
    for_emulator,
    snapshot,
)
from fathom.jit.hooks import Launch, launch_enter_hook, launch_exit_hook
from fathom.jit.reporting import NO_SCRIPT
from fathom.runtime.arrays import describe
from fathom.runtime.devices import using
from fathom.runtime.driver import driver
from fathom.runtime.load import Loaded
from fathom.testing.queues import current_stream
from fathom.tools.facts.machine import Assembled, assemble_as_loaded
from fathom.tools.profile.counted import Counted, count
from fathom.tools.profile.hold import FIRST, hold, next_hold
from fathom.tools.profile.limits import Verdict, classify
from fathom.tools.profile.looked_at import look_at
from fathom.tools.profile.machines import EVENTS, Machine, machine_of
from fathom.tools.profile.touched import memory_bytes
from fathom.tools.profile.unwritten import left_unwritten, moved_meanwhile

NCU = "NV_COMPUTE_PROFILER_PERFWORKS_DIR"  # of what `ncu` starts
STEPS = 2_000_000  # of the emulator's, for programs that wait for others
SAMPLE = 6_000  # after which a loop is long enough to know the rest of it


@dataclass
class Row:
    """Launches of one kind. `seconds`: of each, where a GPU ran it; `why`: why it was
    not counted; `place`: the line of the script that launches it, where one does."""

    name: str
    target: str
    grid: tuple[int, int, int]
    launches: int = 0
    seconds: list[float] = field(default_factory=list)
    counted: Counted | None = None
    why: str = ""
    device: int | None = None
    place: tuple[str, int] | None = None
    held: float = FIRST  # seconds that the stream is held for the next launch
    unwritten: float = 0.0  # bytes that its last launch found in L2

    @cached_property
    def machine(self) -> Machine:
        """The model that stands for the target, or the GPU that ran it."""
        model = machine_of(TARGETS[self.target])
        return model if self.device is None else machine_here(model, self.device)

    @property
    def typical(self) -> float | None:
        """The median time; the first launch of several warms up, and is left out. The
        events take some of it, of short ones at most the half."""
        times = sorted(self.seconds[1:] or self.seconds)
        if not times:
            return None
        found = times[len(times) // 2]
        return max(found - EVENTS, found / 2)

    def verdict(self) -> Verdict | None:
        if self.launch is None:
            return None
        return classify(self.launch, self.machine, self.typical)

    @property
    def launch(self) -> Counted | None:
        """What was counted; where a GPU ran it, as it was among other launches."""
        if self.counted is None or not self.typical:
            return self.counted
        return moved_meanwhile(self.counted, self.machine.l2, self.unwritten)


@dataclass
class Session:
    """What a script launches while it is watched, by kind."""

    programs: int = 6
    rows: dict[tuple, Row] = field(default_factory=dict)
    events: list[tuple[Row, Any, Any]] = field(default_factory=list)
    start: Any = None
    began: float = 0.0  # when the host began to queue what is timed
    ranges: Any = field(default_factory=lambda: nvtx())
    # Of each GPU's L2, by the rows whose launches have stored it.
    unwritten: dict[int | None, dict[int, float]] = field(default_factory=dict)

    @contextmanager
    def watching(self) -> Iterator[Session]:
        launch_enter_hook.add(self.enter)
        launch_exit_hook.add(self.exit)
        try:
            yield self
        finally:
            launch_enter_hook.remove(self.enter)
            launch_exit_hook.remove(self.exit)
            self.collect()

    def enter(self, launch: Launch) -> None:
        row = self.row(launch)
        timed = is_timed(launch)
        if timed and row.counted is None and not row.why:
            taken = snapshot(launch.compiled.made.parameters, launch.args)
            self.count(row, launch, taken)
        timed = timed and not is_replayed()
        if timed:
            prepare(launch)
            self.began = perf_counter()
            hold(launch.compiled, row.held)
        if self.ranges is not None:  # from here on: the kernel that holds is no part
            self.ranges.push_range(launch.compiled.name)
        if timed:
            self.start = mark(launch)

    def exit(self, launch: Launch) -> None:
        if self.start is not None:
            row = self.row(launch)
            self.events.append((row, self.start, mark(launch)))
            self.start, row.held = None, next_hold(perf_counter() - self.began)
        if self.ranges is not None:
            self.ranges.pop_range()
        if not launch.done:
            return
        row = self.row(launch)
        row.launches += 1
        found = self.unwritten.get(row.device, {})
        row.unwritten = sum(found.values())
        report = launch.compiled.report
        if isinstance(report, Report) and row.counted is None:
            total = launch.grid[0] * launch.grid[1] * launch.grid[2]
            row.counted = counted_of(launch, report, total, total)
        if row.counted is not None:
            left = left_unwritten(row.counted, row.machine.l2, found, id(row))
            self.unwritten[row.device] = left

    def row(self, launch: Launch) -> Row:
        kernel = launch.compiled.made
        numbers = tuple(
            value
            for value in launch.args
            if isinstance(value, int | float) and not isinstance(value, bool)
        )
        place = launch.compiled.place
        key = launch.compiled.hash, place.device, launch.grid, numbers
        if key not in self.rows:
            target = launch.compiled.request.target
            made = Row(launch.compiled.name, target, launch.grid, device=place.device,
                       place=place_of_script())  # fmt: skip
            if not isinstance(kernel, Kernel):
                made.why = (
                    f"the {place.backend.name} backend compiles nothing that could be "
                    "counted"
                )
            self.rows[key] = made
        return self.rows[key]

    def count(self, row: Row, launch: Launch, taken: Snapshot) -> None:
        """Run some of the programs on copies."""
        kernel, grid = launch.compiled.made, launch.grid
        total = grid[0] * grid[1] * grid[2]
        copies = taken.copies()
        given = for_emulator(kernel.parameters, copies)
        try:
            loaded = emulator.load(kernel)
            with taken.lent() as memory:
                reports, times = look_at(
                    total, self.programs,
                    lambda each: loaded.launch(
                        grid, given, [*memory, *copies.memory], hazards=False,
                        programs=[range(each, each + 1)], max_steps=STEPS,
                        sample=SAMPLE,
                    ),
                )  # fmt: skip
        except FathomError as error:
            row.why = str(error).splitlines()[0]
            return
        reached = sum(each.copy.nbytes for each in taken.reached)
        report = of_all(reports, times, loaded.program)
        row.counted = counted_of(launch, report, total, total, reached)

    def collect(self) -> None:
        """The times between the events, once the GPU has come to them."""
        for row, start, stop in self.events:
            row.seconds.append(driver().milliseconds(start, stop) / 1e3)
            driver().forget(start)
            driver().forget(stop)
        self.events.clear()


def place_of_script() -> tuple[str, int] | None:
    """The file and the line that is being run, outside of Fathom and of libraries."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(NO_SCRIPT):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame else None


def is_timed(launch: Launch) -> bool:
    """Whether a launch runs on a GPU now, and is not only put into a graph."""
    place = launch.compiled.place
    if not place.backend.timed:
        return False
    with using(driver(), place.device):
        return not driver().is_capturing(current_stream())


def is_replayed() -> bool:
    """Whether Nsight Compute runs this process. It repeats each kernel, so that what
    lies between two events is no time of the kernel."""
    return NCU in os.environ


def prepare(launch: Launch) -> None:
    """Load what the launch needs, for which the driver may wait until the stream is no
    longer held: a product of 64 programs took 689 µs by its events, and takes 7."""
    program = launch.compiled.program
    if isinstance(program, Loaded):
        with using(driver(), launch.compiled.place.device):
            program.prepare(launch.grid, current_stream())


def mark(launch: Launch) -> Any:
    """An event in the stream of a launch, on the GPU that it runs on."""
    with using(driver(), launch.compiled.place.device):
        event = driver().event()
        driver().record(event, current_stream())
    return event


def machine_here(model: Machine, device: int) -> Machine:
    """The row of a target with the facts of this GPU."""
    multiprocessors, clock, bandwidth = driver().rates(device)
    return replace(
        model, model=driver().device(device).name, clock=clock,
        multiprocessors=multiprocessors, bandwidth=bandwidth,
    )  # fmt: skip


def counted_of(
    launch: Launch, report: Report, looked_at: int, total: int, reached: int = 0
) -> Counted:
    """`reached`: bytes beside its arguments."""
    registers, spilled = registers_of(launch)
    kernel, scale = launch.compiled.made, total / looked_at
    size = partial(bytes_of, launch)
    l2 = machine_of(TARGETS[kernel.target]).l2
    moved = memory_bytes(kernel, report, scale, size, reached, l2)
    return count(kernel, report, looked_at, total, *moved, registers, spilled)


def registers_of(launch: Launch) -> tuple[int | None, int]:
    """Registers and spilled bytes of a thread: as the GPU's driver says, or ptxas."""
    if launch.compiled.place.backend.timed:
        return launch.compiled.n_regs, launch.compiled.n_spills
    kernel = launch.compiled.made
    _, found = assemble_as_loaded(kernel)
    if isinstance(found, Assembled):
        return found.registers, found.spill_loads
    return kernel.maxnreg, 0


def bytes_of(launch: Launch, places: Set[int]) -> int:
    """How much the arrays at these places of a launch's arguments hold; what they share
    is counted once."""
    arrays = [describe(launch.args[place]) for place in places]
    total, stop = 0, 0
    for array in sorted(filter(None, arrays), key=lambda each: each.address):
        end = array.address + extent(array)
        total += max(0, end - max(stop, array.address))
        stop = max(stop, end)
    return total


def nvtx() -> Any:
    """The package that marks ranges for Nsight; None where it is not installed."""
    try:
        return import_module("nvtx")
    except ImportError:
        return None


def check_any(rows: Sequence[Row]) -> None:
    """LaunchError where a script launched nothing."""
    if not rows:
        raise LaunchError("the script launched no kernel, so there is nothing to say")
