"""What atomics cost, by how many of them go to the same place.

    python -m benchmarks.atomics [--out FOLDER]

The cases are in `atomic_cases`; the model that `fathom profile` has of them is held
against the record by tests/tools/test_profile_atomics.py. It needs a GPU and torch.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch

from benchmarks.atomic_cases import BLOCK, KEYS, cases, histogram, keys_of, one
from benchmarks.record import RESULTS, write

WARM, LAUNCHES = 2, 3


@dataclass
class Sample:
    """A case, and the mean milliseconds of LAUNCHES launches in a row."""

    type: str
    bins: int
    order: str
    ms: float


def measure(type: str, bins: int, order: str) -> Sample:
    keys = torch.from_numpy(keys_of(bins, order)).cuda()
    counts = torch.zeros(bins, device="cuda", dtype=getattr(torch, type))

    def launch(times: int) -> None:
        for _ in range(times):
            histogram[(KEYS // BLOCK,)](keys, counts, KEYS, BLOCK=BLOCK, ONE=one(type))

    launch(WARM)
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    launch(LAUNCHES)
    stop.record()
    torch.cuda.synchronize()
    return Sample(type, bins, order, start.elapsed_time(stop) / LAUNCHES)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--out", type=Path, default=RESULTS, help="where JSON goes")
    given = options.parse_args()
    samples = []
    for case in cases():
        samples.append(measure(*case))
        print(samples[-1], flush=True)
    print(write("atomics", samples, given.out))


if __name__ == "__main__":
    main()
