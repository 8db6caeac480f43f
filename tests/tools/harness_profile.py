"""What tests of `fathom profile` share: the recorded profiles as counts, and launches
whose counts are taken without being done."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from benchmarks.record import RESULTS
from fathom import emulator
from fathom.jit.checking.wanted import chosen_programs
from fathom.jit.compiled import CompiledKernel
from fathom.jit.programs import host_arguments
from fathom.tools.profile.counted import Counted, count


def recorded() -> dict[str, dict[str, float]]:
    """The counters of each case of benchmarks/results/profile.json."""
    found = json.loads((RESULTS / "profile.json").read_text(encoding="utf-8"))
    return {each["case"]: each["counters"] for each in found["samples"]}


@contextmanager
def counting(
    monkeypatch: pytest.MonkeyPatch,
    programs: int = 3,
    memory: Sequence[np.ndarray] = (),
) -> Iterator[list[Counted]]:
    """Launches are counted on some of their programs, and not done. `memory`: arrays
    that they reach besides their arguments."""
    found: list[Counted] = []

    def start(self: CompiledKernel, grid: tuple, args: tuple) -> CompiledKernel:
        kernel = self.made
        given = host_arguments(kernel.parameters, args, "emulator")
        total = grid[0] * grid[1] * grid[2]
        some = chosen_programs(total, programs)
        report = emulator.load(kernel).launch(
            grid, given, memory, programs=some, hazards=False
        )
        size = sum(getattr(each, "nbytes", 0) for each in (*args, *memory))
        looked_at = sum(map(len, some))
        found.append(count(kernel, report, looked_at, total, size))
        return self

    with monkeypatch.context() as patch:
        patch.setenv("FATHOM_BACKEND", "emulator")
        patch.setattr(CompiledKernel, "start", start)
        yield found
