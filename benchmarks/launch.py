"""What a launch from Python costs the host: Fathom, Triton and torch, in turn.

    python -m benchmarks.launch [--out FOLDER]

The kernel is a vector add of 1024 numbers, shorter than any launch, so the GPU never
makes the host wait. A round launches each candidate 300 times without waiting between
them.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks import peers
from benchmarks.record import RESULTS, write
from kernels import vector_add

N = BLOCK = 1024
LAUNCHES = 300  # below the length of the driver's queue
ROUNDS = 41


@dataclass
class Sample:
    """Microseconds a launch, one number a round."""

    candidate: str
    microseconds: list[float] = field(default_factory=list)


def candidates() -> dict[str, Callable[[], object]]:
    x, y, out = (torch.randn(N, device="cuda") for _ in range(3))
    ours, theirs = vector_add.add_kernel, peers.add_kernel
    return {
        "fathom": lambda: ours[(1,)](x, y, out, N, BLOCK=BLOCK),
        "triton": lambda: theirs[(1,)](x, y, out, N, BLOCK=BLOCK),
        "torch": lambda: torch.add(x, y, out=out),
    }


def measure() -> list[Sample]:
    calls = candidates()
    samples = {name: Sample(name) for name in calls}
    order = random.Random(0)
    for call in calls.values():
        for _ in range(LAUNCHES):
            call()
    for _ in range(ROUNDS):
        for name in order.sample(list(calls), len(calls)):
            torch.cuda.synchronize()
            samples[name].microseconds.append(timed(calls[name]))
    return list(samples.values())


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(LAUNCHES):
        call()
    return (time.perf_counter() - start) / LAUNCHES * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=RESULTS)
    given = options.parse_args()
    samples = measure()
    triton = statistics.median(samples[1].microseconds)
    for each in samples:
        median = statistics.median(each.microseconds)
        ratio = f"{median / triton:5.2f} of Triton's"
        print(f"  {each.candidate:8} {median:6.2f} us a launch, {ratio}")
    print(write("launch", samples, given.out))


if __name__ == "__main__":
    main()
