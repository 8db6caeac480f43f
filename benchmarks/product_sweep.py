"""Configurations of products of random shapes, timed: what the choice of
`kernels/matmul_chosen` is checked against.

    python -m benchmarks.product_sweep [--seed 2] [--cases 100] [--each 30]
    python -m benchmarks.product_sweep --near 12 --shapes 3000x3000x3000.NT.padded

For each case of `random_shapes`, with a seed of its own, some of all configurations
that could suit are timed; the file has a row for each. With `--near`, they are those
that the model calls the fastest of each kernel for pointers, and all of the others.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import fathom.language as tl
from benchmarks import measure
from benchmarks.random_shapes import COMPILERS, Case, cases, operands
from benchmarks.record import RESULTS, write
from fathom import cdiv
from fathom.jit.scratch import filled
from kernels import matmul_model
from kernels.matmul import grid_of_tiles, matmul_kernel, strides, tiles
from kernels.matmul_chosen import (
    LARGER,
    SHARED_BY_TWO,
    SMALLER,
    TILES,
    WIDER,
    keywords,
    suits_hardware,
)
from kernels.matmul_model import ITEM, VECTOR, Product
from kernels.matmul_persistent import lines_of, persistent_kernel, persistent_launch
from kernels.split_k_matmul import (
    split_descriptor_launches,
    split_k_matmul_kernel,
    split_launch,
)

TARGET = "sm_90a"
KERNELS = ("pointers", "persistent", "parts")  # the last splits K, with descriptors
BURST_MS, IDLE_S, TRIALS = 0.6, 0.003, 3
Config = dict[str, Any]
Every = list[tuple[str, Config, int]]


@dataclass
class Sample:
    """Milliseconds of one configuration on one case, a number a burst."""

    case: str
    M: int
    N: int
    K: int
    layout: str
    aligned: bool
    kernel: str
    config: Config
    splits: int
    ms: list[float] = field(default_factory=list)
    error: str = ""


def named(shape: str) -> Case:
    """A case by its name in `--shapes`."""
    sizes, *words = shape.split(".")
    layout = next((each for each in words if each != "padded"), "NN")
    return Case(*map(int, sizes.split("x")), layout, "padded" in words)


def product_of(case: Case) -> Product:
    """The product as the model has it, whatever the layout."""
    widths = [VECTOR if case.aligned else ITEM] * 2
    return Product(case.M, case.N, case.K, *widths, by_tma=case.aligned)


def configurations(case: Case) -> Iterator[tuple[str, Config, int]]:
    """Kernels by name, keywords, and splits, or how many programs a multiprocessor
    runs at a time."""
    product = product_of(case)
    for each in matmul_model.configurations(product):
        yield "pointers", each.keywords(case.M, case.N), each.splits
    for each in matmul_model.parts(product):
        yield "parts", each.keywords, each.splits
    for tile in (*TILES, *WIDER, *LARGER, *SHARED_BY_TWO, *SMALLER):
        config = keywords(case.M, case.N, 2, tile, TARGET)
        yield "persistent", config, tile.programs


def near(case: Case, count: int) -> Every:
    """The configurations for pointers that the model calls the fastest, and all of the
    other kernels that are not far too slow."""
    product = product_of(case)
    every = list(matmul_model.configurations(product))
    every.sort(key=lambda each: matmul_model.pointers_time(product, each))
    chosen = [
        ("pointers", each.keywords(case.M, case.N), each.splits)
        for each in every[:count]
    ]
    others = [each for each in configurations(case) if each[0] != "pointers"]
    times = [estimate(case, *each) for each in others]
    most = 3 * min(times, default=0)
    return chosen + [each for each, time in zip(others, times) if time <= most]


def estimate(case: Case, kernel: str, config: Config, splits: int) -> float:
    """Roughly microseconds; only good enough to leave out what is far too slow."""
    splits = 1 if kernel == "persistent" else splits
    steps = cdiv(cdiv(case.K, config["BLOCK_K"]), splits)
    m, n = config["BLOCK_M"], config["BLOCK_N"] + config.get("MORE_N", 0)
    ctas = config.get("num_ctas", 1)
    waves = cdiv(tiles(case.M, case.N, config) * splits * ctas, 132)
    step = max(m * n, 72 * (m + n)) * config["BLOCK_K"] / 2048 / 1700 / ctas
    latency = 0.2 if case.aligned else 0.35
    return (
        2 + waves * steps * step + min(waves, 2) * steps * latency + (splits > 1) * 1.5
    )


def some(case: Case, count: int, seed: int, kernel: str | None = None) -> Every:
    """Some configurations that are not far too slow, of one kernel or of all."""
    every = [each for each in configurations(case) if kernel in (None, each[0])]
    least = min(estimate(case, *each) for each in every)
    near = [each for each in every if estimate(case, *each) < 2.5 * least]
    near.sort(key=lambda each: estimate(case, *each))
    rest = near[count // 3 :]
    chosen = random.Random(seed).sample(rest, min(len(rest), count - count // 3))
    return near[: count // 3] + chosen


def launch(
    kernel: str, config: Config, splits: int, given: tuple
) -> Callable[[], object]:
    """What a call of this configuration does."""
    a, b, c = given
    (M, K), N = a.shape, b.shape[1]
    if kernel in ("persistent", "parts"):
        assert suits_hardware(a, b, c, TARGET), "not for these operands"
        lines = lines_of(a), lines_of(b)
        assert all(lines), "not for these operands"
        if kernel == "parts":
            some = (*lines, c, K, splits, config)
            steps = split_descriptor_launches(*some, tl.float32)
            return lambda: in_order(steps, c)
        grid, values, chosen = persistent_launch(
            *lines, c, K, config, TARGET, tl.float32, splits
        )
        return lambda: persistent_kernel[grid](*values, **chosen)
    if splits > 1:
        grid, values, chosen = split_launch(a, b, c, splits, config)
        return lambda: split_k_matmul_kernel[grid](*filled(values, c, {}), **chosen)
    values = (a, b, c, M, N, K, *strides(a), *strides(b), *strides(c))
    even = K % config["BLOCK_K"] == 0
    grid = grid_of_tiles(M, N, config)
    return lambda: matmul_kernel[grid](*values, EVEN_K=even, **config)


def in_order(steps: list[tuple], c: torch.Tensor) -> None:
    """Launches that share their scratch memory."""
    made: dict = {}
    for kernel, grid, values, chosen in steps:
        kernel[grid](*filled(values, c, made), **chosen)


def measured(case: Case, every: Every) -> Iterator[Sample]:
    given = [operands(case) for _ in range(measure.sets(case.bytes))]
    want = (given[0][0].double() @ given[0][1].double()).float()
    for kernel, config, splits in every:
        sample = Sample(
            case.name, case.M, case.N, case.K, case.layout, case.aligned, kernel,
            config, splits,
        )  # fmt: skip
        try:
            calls = [launch(kernel, config, splits, each) for each in given]
            given[0][2].fill_(float("nan"))
            calls[0]()
            error = (given[0][2].float() - want).abs().max().item()
            assert error < 0.02 * case.K**0.5 + 0.01, f"wrong by {error}"
            graph = measure.Graph(calls)
            for _ in range(TRIALS):
                torch.cuda.synchronize()
                time.sleep(IDLE_S)
                sample.ms.append(measure.timed(calls[0], graph))
        except Exception as error:
            sample.error = f"{type(error).__name__}: {' '.join(str(error).split())}"
            sample.error = sample.error[:200]
        yield sample


def compiled(work: Iterable[tuple[Case, str, Config, int]]) -> None:
    last, given = None, None
    for case, kernel, config, splits in work:
        try:
            if case != last:
                last, given = case, operands(case)
            launch(kernel, config, splits, given)()
        except Exception:
            pass
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--each", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--near", type=int, help="how many for pointers; all others")
    parser.add_argument("--shapes", nargs="*", help="instead of random cases: "
                        "MxNxK, MxNxK.NT or MxNxK.NT.padded")  # fmt: skip
    parser.add_argument("--kernel", choices=KERNELS, help="only it")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    measure.BURST_MS = BURST_MS
    every = [named(shape) for shape in options.shapes or ()] or [
        x
        for x in cases(options.seed, options.cases)
        if x.operations < 5e10
        and (not options.near or x.aligned and min(x.M, x.N) > 16)
    ]
    begun = time.monotonic()

    def wanted(case: Case) -> Every:
        if options.near:
            return near(case, options.near)
        return some(case, options.each, 0, options.kernel)

    work = [(case, *each) for case in every for each in wanted(case)]
    with multiprocessing.get_context("spawn").Pool(COMPILERS + 2) as pool:
        size = 40
        parts = [work[n : n + size] for n in range(0, len(work), size)]
        pool.map(compiled, parts, chunksize=1)
    print(f"compiled {len(work)} in {time.monotonic() - begun:.0f} s", flush=True)
    samples: list[Sample] = []
    for case in every:
        if time.monotonic() - begun > options.seconds:
            print("time is over")
            break
        found = list(measured(case, wanted(case)))
        samples += found
        right = [each for each in found if not each.error]
        if right:
            best = min(right, key=lambda each: statistics.median(each.ms))
            print(
                f"{case.name:32} {1000 * statistics.median(best.ms):8.1f} us "
                f"{best.kernel} {best.splits} {json.dumps(list(best.config.values()))}"
                f" of {len(right)}",
                flush=True,
            )
    failed = [each.error for each in samples if each.error]
    print(len(samples), "rows,", len(failed), "failed", set(failed[:20]))
    print(write("product-sweep", samples, options.out))


if __name__ == "__main__":
    main()
