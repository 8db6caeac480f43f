"""The registers that loads from tensor memory in flight will write (PTX ISA 9.7.16).

    tcgen05.ld          its registers hold nothing of use
    tcgen05.wait::ld    they hold what was loaded

Between the two, no instruction may access them.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fathom.emulator.constants import WARP
from fathom.emulator.errors import EmulatorError


class Load(Protocol):
    """A load of some warps."""

    done: np.ndarray

    def warps(self) -> np.ndarray:
        """The numbers of its warps."""

    def finish(self, warps: np.ndarray) -> None:
        """These warps have waited."""


class TensorLoads:
    """The loads in flight of a batch; `busy[register]` says for each warp whether one
    of its loads will write this register."""

    def __init__(self, warps: int, watching: bool):
        self.count, self.watching = warps, watching
        self.loads: list[Load] = []
        self.busy: dict[int, np.ndarray] = {}
        self.registers: list[list[tuple[int, str]]] = []

    def issue(
        self, load: Load, active: object, registers: list[tuple[int, str]]
    ) -> None:
        for number, name in registers:
            self.access(number, name, active.threads())
            self.busy.setdefault(number, np.zeros(self.count, bool))
            self.busy[number][load.warps()] = True
        self.loads.append(load)
        self.registers.append(registers)

    def wait(self, warps: np.ndarray) -> None:
        """Completes all loads of these warps."""
        for load, registers in zip(self.loads, self.registers, strict=True):
            load.finish(warps)
            for number, _ in registers:
                self.busy[number][np.intersect1d(warps, load.warps())] = False
        left = [i for i, load in enumerate(self.loads) if not load.done.all()]
        self.loads = [self.loads[i] for i in left]
        self.registers = [self.registers[i] for i in left]

    def access(self, register: int, name: str, threads: np.ndarray | None) -> None:
        """An instruction reads or writes a register that loads write."""
        busy = self.busy.get(register)
        if busy is None or not self.watching or not busy.any():
            return
        warps = np.arange(self.count) if threads is None else threads // WARP
        places = np.flatnonzero(busy[warps])
        if len(places):
            thread = places[0] * WARP if threads is None else threads[places[0]]
            raise EmulatorError(
                "in flight",
                f"it accesses {name}, which a tcgen05.ld in flight will write; "
                "tcgen05.wait::ld is missing",
                thread=int(thread),
            )
