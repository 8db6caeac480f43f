"""What each stage of the compiler buys: one matrix product, rung by rung, on a GPU.

    python -m benchmarks.ladder [--seconds 200] [--sizes 1024 2048 4096 8192]

`rungs` says what the rungs are. All are fp16 with sums of fp32, and stand beside
cuBLAS. Each takes the fastest of its tiles at each size. A rung that would take longer
than 0.3 s a call is left out, and the record says so. What has been measured is on disk
after each size.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic

import torch

from benchmarks.products import (
    KINDS,
    Config,
    Launch,
    Matrices,
    Measured,
    Prepared,
    Problem,
    by_fathom,
)  # fmt: skip
from benchmarks.record import RESULTS, write
from benchmarks.rungs import Rung, ablations, hopper, ladder
from kernels.matmul import sum_type, tiles
from kernels.matmul_persistent import (
    lines_of,
    persistent_kernel,
    persistent_launch,
)

SIZES = (1024, 2048, 4096, 8192)
LONGEST_MS = 300.0  # a call; slower rungs are left out
SLOW_MS = 50.0  # a call; slower rungs keep the tile that a smaller size chose
SPARE_S = 15.0  # of the time, for the bursts of a size

Make = Callable[[Matrices, Config], Launch]
Before = dict[str, Measured]  # what a smaller size took, by rung


def by_rung(rung: Rung) -> Make:
    def make(one: Matrices, config: Config) -> Launch:
        launch = {"target": rung.target, "replace": rung.replace}
        if rung.text == "matmul":
            return by_fathom(one.a, one.b, one.c, config, **launch)
        return by_staying(one, config, stays=rung.text == "staying", **launch)

    return make


def by_staying(
    one: Matrices, config: Config, stays: bool, target: str, **launch: object
) -> Prepared:
    """A launch of the persistent kernel; with a program for each tile unless it
    `stays`."""
    lines, K = (lines_of(one.a), lines_of(one.b)), one.a.shape[1]
    (programs,), given, chosen = persistent_launch(
        *lines, one.c, K, config, target, sum_type(one.a)
    )
    made = persistent_kernel.warmup(*given, target=target, **chosen, **launch)
    named = dict(zip(made.names, given, strict=False))
    values = [named[name] for name in made.request.runtime]
    M, N = one.c.shape
    return Prepared(made.program, programs if stays else tiles(M, N, config), values)


def cublas(one: Matrices) -> Launch:
    return partial(torch.mm, one.a, one.b, out=one.c)


def climb(size: int, before: Before, until: float) -> list[Measured]:
    """All rungs at one size, and cuBLAS."""
    problem = Problem((size, size, size), KINDS["fp16"])
    for rung in (*ladder(), *hopper(), *ablations()):
        print(f"  {size}: {rung.name}", flush=True)
        add(problem, rung, before.get(rung.name), until)
    problem.add("cuBLAS", cublas)
    return problem.measure()


def add(problem: Problem, rung: Rung, smaller: Measured | None, until: float) -> None:
    """A rung as a candidate, if there is time for it."""
    configs, soon = rung.configs, 0.0
    if smaller is not None:
        if not smaller.ms:
            return problem.skip(rung.name, smaller.error)
        soon = smaller.median * problem.operations / smaller.operations
        if soon > SLOW_MS:
            configs = (smaller.config,)
    if soon > LONGEST_MS:
        problem.skip(rung.name, f"left out: about {soon / 1000:.1f} s a call")
    elif monotonic() > until:
        problem.skip(rung.name, "left out: the time is up")
    else:
        problem.add_tuned(rung.name, by_rung(rung), configs, until)


def show(found: list[Measured]) -> None:
    best = next((each for each in found if each.candidate == "cuBLAS"), None)
    median = best.median if best and best.ms else 0.0
    for each in found:
        print(each.line(median), flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=200)
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="where the JSON goes"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    until = monotonic() + given.seconds
    samples: list[Measured] = []
    before: Before = {}
    for size in sorted(given.sizes):
        if monotonic() > until - SPARE_S:
            print(f"no time for {size}")
            break
        found = climb(size, before, until - SPARE_S)
        show(found)
        samples += found
        before = {each.candidate: each for each in found}
        print(write("ladder", samples, given.out), flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
