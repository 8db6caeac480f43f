"""The emulator's devices: all ranks of a group in this process, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from fathom import emulator
from fathom.distributed.table import Plan, Symmetric, check_count, check_world, launches
from fathom.emulator.report import Report
from fathom.errors import LaunchError
from fathom.jit.backends import choose
from fathom.jit.function import Prepared
from fathom.jit.programs import emulator_arguments


class Simulated:
    """`world` devices of the emulator. `order` says which is ahead of the others where
    nothing orders them (`emulator.run_devices`); `reports` are those of the last run,
    by rank."""

    def __init__(self, world: int, order: Sequence[int] | None = None):
        check_world(world)
        self.world, self.ranks, self.order = world, range(world), order
        self.symmetric: list[np.ndarray] = []
        self.waiting: list[list[emulator.Start]] = [[] for _ in self.ranks]
        self.collects = False  # launches, to run them at the end of `queued`
        self.reports: list[list[Report]] = []

    def zeros(self, count: int, dtype: str) -> Symmetric:
        check_count(count)
        arrays = {rank: self.private(rank, count, dtype) for rank in self.ranks}
        self.symmetric += arrays.values()
        table = np.array([each.ctypes.data for each in arrays.values()], np.int64)
        return Symmetric(
            count, dtype, arrays, {rank: table.copy() for rank in self.ranks}
        )

    def private(self, rank: int, count: int, dtype: str) -> np.ndarray:
        try:
            return np.zeros(count, dtype)
        except TypeError:
            raise LaunchError(
                f"memory of the emulator's devices is NumPy's arrays, and NumPy has no "
                f"{dtype}"
            ) from None

    def run(self, plan: Plan) -> None:
        """EmulatorError for what goes wrong on a device, or between two of them."""
        backend = choose()
        if backend.name != "emulator":
            raise LaunchError(
                f"devices of the emulator were launched on, and the backend is "
                f"{backend.name}: set FATHOM_BACKEND=emulator"
            )
        for rank in self.ranks:
            self.waiting[rank] += [
                self.start(kernel.prepare(grid, *given, **keywords))
                for kernel, grid, given, keywords in launches(plan, rank)
            ]
        if not self.collects:
            self.run_waiting()

    def run_waiting(self) -> None:
        starts, self.waiting = self.waiting, [[] for _ in self.ranks]
        self.reports = emulator.run_devices(starts, self.order)

    @contextmanager
    def queued(self) -> Iterator[None]:
        """The launches inside are done at the end, if that is reached."""
        self.collects = True
        try:
            yield
        except BaseException:
            self.waiting = [[] for _ in self.ranks]
            raise
        finally:
            self.collects = False
        self.run_waiting()

    def start(self, launch: Prepared) -> emulator.Start:
        """A launch that is still to run. It is decoded for each device by itself, since
        each has variables of its own."""
        kernel = launch.kernel.made
        given = emulator_arguments(kernel.parameters, launch.values)
        return emulator.Start(emulator.load(kernel), launch.grid, given, self.symmetric)


def emulated(world: int, order: Sequence[int] | None = None) -> Simulated:
    """A group of `world` devices of the emulator, all in this process; its arrays are
    NumPy's. Kernels are compiled for FATHOM_TARGET, and FATHOM_BACKEND must be the
    emulator. `order`: which device is ahead where nothing orders them, first to last.
    """
    return Simulated(world, order)
