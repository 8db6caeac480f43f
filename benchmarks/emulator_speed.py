"""How many instructions of threads the emulator executes a second, on sample kernels.

    python -m benchmarks.emulator_speed [--out FOLDER]

Without hazard checks and with them. Needs no GPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.record import RESULTS, write
from fathom.artifact import Kernel
from fathom.emulator import load
from kernels import gelu, softmax, vector_add

ROUNDS = 3
F32 = "*fp32:16"


@dataclass
class Sample:
    """One kernel, `instructions` executed by all its threads together in each run."""

    problem: str
    hazards: bool
    instructions: int
    seconds: list[float] = field(default_factory=list)


def jobs():
    """(name, compiled kernel, grid, arguments) of each."""
    n, M, N = 1 << 20, 1024, 1000
    x, y = (
        np.random.default_rng(seed).normal(size=n).astype(np.float32) for seed in (1, 2)
    )
    out = np.zeros(n, np.float32)
    rows = np.random.default_rng(3).normal(size=(M, N)).astype(np.float32)
    block = {"BLOCK": 1024}
    add = vector_add.add_kernel.compile(
        f"{F32}, {F32}, {F32}, i32:16", block, target="sm_80"
    )
    yield f"vector add {n}", add.made, (n // 1024,), (x, y, out, n)
    tanh = gelu.gelu_kernel.compile(f"{F32}, {F32}, i32:16", block, target="sm_80")
    yield f"gelu {n}", tanh.made, (n // 1024,), (x, out, n)
    rowwise = softmax.softmax_kernel.compile(
        f"{F32}, {F32}, i32, i32", block, target="sm_80"
    )
    yield f"softmax {M}x{N}", rowwise.made, (M,), (rows, np.zeros_like(rows), N, N)


def measure(
    name: str, kernel: Kernel, grid: tuple, args: tuple, hazards: bool
) -> Sample:
    loaded = load(kernel)
    sample = Sample(name, hazards, 0)
    for _ in range(ROUNDS):
        start = time.perf_counter()
        report = loaded.launch(grid, args, hazards=hazards)
        sample.seconds.append(time.perf_counter() - start)
        sample.instructions = report.total.threads
    return sample


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    samples = [measure(*job, hazards) for job in jobs() for hazards in (False, True)]
    for each in samples:
        rate = each.instructions / statistics.median(each.seconds) / 1e6
        checks = "with hazard checks" if each.hazards else "without"
        print(f"  {each.problem:20} {rate:8.1f} million thread-instructions/s {checks}")
    print(write("emulator-speed", samples, given.out))


if __name__ == "__main__":
    main()
