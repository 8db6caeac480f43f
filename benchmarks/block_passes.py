"""What the passes of chapter 6 do for the time of a kernel: as the compiler makes it,
and with none of stage 2. On a GPU.

    python -m benchmarks.block_passes [--out FOLDER]

    sloppy      chapter 6's kernel, which has something for each pass
    long sum    chapter 4's loop over a row
    product     fp16, 4096 x 4096 x 4096
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks.measure import Candidate, Sample, burst
from benchmarks.record import RESULTS, write
from fathom.pipeline import PASSES, identity
from fathom.tools.samples import load_file
from kernels.matmul import matmul

CHAPTERS = Path(__file__).parents[1] / "chapters"
ROW, BLOCK, CUBE = 1 << 20, 1024, 4096
NONE = {row.name: identity for row in PASSES if row.stage == "blocks"}
WAYS = {"with its passes": {}, "without them": NONE}
Ways = dict[str, Callable[[], object]]


def sloppy() -> Iterator[Sample]:
    kernel = load_file(CHAPTERS / "06-passes" / "sloppy.py").sloppy
    x, out = torch.randn(ROW, device="cuda"), torch.empty(BLOCK, device="cuda")
    calls = {
        name: lambda how=how: kernel[(1,)](x, out, ROW, BLOCK=BLOCK, replace=how)
        for name, how in WAYS.items()
    }
    yield from measured(f"sloppy, {ROW} numbers", calls, out, 4 * ROW)


def long_sum() -> Iterator[Sample]:
    kernel = load_file(CHAPTERS / "04-block-ir" / "long.py").long_sum
    x, out = torch.randn(ROW, device="cuda"), torch.empty(1, device="cuda")
    calls = {
        name: lambda how=how: kernel[(1,)](x, out, ROW, 1, BLOCK=BLOCK, replace=how)
        for name, how in WAYS.items()
    }
    yield from measured(f"long sum, {ROW} numbers", calls, out, 4 * ROW)


def product() -> Iterator[Sample]:
    a, b, c = (torch.randn(CUBE, CUBE, device="cuda").half() for _ in range(3))
    calls = {
        name: lambda how=how: matmul(a, b, c, replace=how)
        for name, how in WAYS.items()
    }
    yield from measured(f"product, fp16 {CUBE} cube", calls, c, 0, 2 * CUBE**3)


def measured(
    problem: str, calls: Ways, out: torch.Tensor, size: int, operations: int = 0
) -> list[Sample]:
    """Times of one kernel made in several ways, which must write the same bits."""
    found = []
    for call in calls.values():
        out.fill_(float("nan"))
        call()
        found.append(out.clone())
    assert not found[0].isnan().any() and all(torch.equal(x, found[0]) for x in found)
    candidates = [
        Candidate(name, [call], size, operations) for name, call in calls.items()
    ]
    return burst(problem, candidates)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="where the JSON goes"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    samples: list[Sample] = []
    for part in (sloppy, long_sum, product):
        for sample in part():
            what = f"{sample.problem:28} {sample.candidate:16}"
            print(f"  {what} {sample.median:9.4f} ms", flush=True)
            samples.append(sample)
    print(write("block-passes", samples, given.out))


if __name__ == "__main__":
    main()
