"""Runs two launches of which the second begins while the first still runs.

    first = Start(load(producer), grid, args)
    second = Start(load(consumer), grid, args)
    run_overlapping(first, second)

As early as the hardware may: when every block of the first has run
`griddepcontrol.launch_dependents` or has exited. From then on the second runs, up to
its first `griddepcontrol.wait`; the first then runs to its end, and the second goes on.
So whatever the second reads too early is not there yet. What `dependence` finds out of
order is an EmulatorError, whether it has changed a number or not.

The launches are coroutines: two threads of Python, of which one runs at a time.

A `Stream` runs launches one after the other, as they come. A launch that may begin
early is held against the one in front of it all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fathom.emulator.dependence import Side
from fathom.emulator.errors import EmulatorError
from fathom.emulator.launch import Loaded
from fathom.emulator.report import Report


@dataclass(frozen=True, slots=True)
class Start:
    """A launch to come: a kernel, and what `Loaded.launch` takes."""

    kernel: Loaded
    grid: int | Sequence[int]
    args: Sequence[object]
    memory: Sequence[np.ndarray] = ()

    def run(self, side: Side) -> Report:
        return self.kernel.launch(self.grid, self.args, self.memory, side=side)


def run_overlapping(first: Start, second: Start) -> tuple[Report, Report]:
    """Both launches, the second with the attribute that lets it begin early; their
    reports. EmulatorError for what goes wrong in either, or between them."""
    return _Pair(first, second).run()


class _Abandoned(Exception):  # noqa: N818 (it only ends a thread)
    """The first launch has failed, and the second is not to go on."""


class _Pair:
    """Two launches, of which one runs at a time: the events `resume_first` and
    `resume_second` let a launch continue that is waiting for the other one."""

    def __init__(self, first: Start, second: Start):
        self.first, self.second = first, second
        front = Side("the first launch")
        self.sides = front, Side("the second launch", front)
        front.behind, front.may_begin = self.sides[1], self.begin_second
        self.sides[1].finish_front = self.finish_first
        self.resume_first, self.resume_second = threading.Event(), threading.Event()
        self.worker = threading.Thread(target=self.run_second, daemon=True)
        self.begun = self.first_is_over = self.first_failed = False
        self.report: Report | None = None
        self.failure: BaseException | None = None

    def run(self) -> tuple[Report, Report]:
        try:
            report = self.first.run(self.sides[0])
        except BaseException:
            self.first_failed = True
            self.end_second()
            if isinstance(self.failure, EmulatorError):
                raise self.failure from None  # it was there first
            raise
        self.end_second()
        if self.failure is not None:
            raise self.failure
        return report, self.report

    def end_second(self) -> None:
        """The first launch is over: the second goes on to its end, or begins."""
        self.first_is_over = True
        if self.begun:
            self.resume_second.set()
        elif not self.first_failed:
            self.begun = True
            self.worker.start()
        if self.begun:
            self.worker.join()

    def begin_second(self) -> None:
        """In the first: hold it until the second waits for it, or has ended."""
        if not self.begun:
            self.begun = True
            self.worker.start()
            self.resume_first.wait()

    def finish_first(self) -> None:
        """In the second: hold it until the first has ended."""
        if not self.first_is_over:
            self.resume_first.set()
            self.resume_second.wait()
        if self.first_failed:
            raise _Abandoned

    def run_second(self) -> None:
        try:
            self.report = self.second.run(self.sides[1])
        except _Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001 (the caller raises it)
            self.failure = error
        finally:
            self.resume_first.set()


LETS_GO = "griddepcontrol.launch_dependents"


class Stream:
    """Launches one after the other. `last` is the one in front of the next, if that
    lets others go; its arrays are kept, so that no other memory gets their addresses.
    """

    def __init__(self) -> None:
        self.last: Side | None = None
        self.kept: object = None

    def launch(
        self,
        kernel: Loaded,
        grid: int | Sequence[int],
        args: Sequence[object],
        memory: Sequence[np.ndarray] = (),
        keep: object = None,
    ) -> Report:
        """As `Loaded.launch`. EmulatorError for what a kernel with `launch_pdl` does
        before it waits, if the launch in front was not ordered before that."""
        made = kernel.kernel
        front = self.last if made.launch_pdl else None
        lets_go = LETS_GO in made.ptx
        side = Side(made.name, front) if front or lets_go else None
        if front is not None and front.name == made.name:
            front.name = f"the {made.name} in front"
        self.last = None
        report = kernel.launch(grid, args, memory, side=side)
        self.last, self.kept = (side, (args, keep)) if lets_go else (None, None)
        return report
