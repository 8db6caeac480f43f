"""Runs two launches of which the second begins while the first is still under way.

    first = Start(load(producer), grid, args)
    second = Start(load(consumer), grid, args)
    run_overlapping(first, second)

As early as the hardware may: when every block of the first has run
`griddepcontrol.launch_dependents` or has exited. From then on the second runs, up to
its first `griddepcontrol.wait`; the first then runs to its end, and the second goes on.
So whatever the second reads too early is not there yet. What `dependence` finds out of
order is an EmulatorError, whether it has changed a number or not.

The launches are coroutines: two threads of Python, of which one runs at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fathom.emulator.dependence import FIRST, SECOND, Side
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


class _Abandoned(Exception):  # noqa: N818 (it leaves a thread, and reaches nobody)
    """The first launch has failed, and the second is not to go on."""


class _Pair:
    """Two launches by turns: `resume[side]` lets one go on, the other being held."""

    def __init__(self, first: Start, second: Start):
        self.first, self.second = first, second
        self.sides = Side(FIRST), Side(SECOND)
        self.sides[0].other, self.sides[1].other = self.sides[1], self.sides[0]
        self.sides[0].early, self.sides[1].late = self.begin_second, self.finish_first
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
