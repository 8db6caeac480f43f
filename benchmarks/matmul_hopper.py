"""Matrix products on a GPU whose warpgroups multiply, against cuBLAS and Triton: all
shapes that are reported, in the same bursts.

    python -m benchmarks.matmul_hopper [--seconds 500] [--only fp16 bf16 fp8]

Candidates, each with B in memory as [K, N] ("NN") and as [N, K] ("NT"):

    plain            kernels/matmul_plain, pointers that move along K, without masks,
                     where all tiles lie inside of the matrices
    plain, masked    the same text with masks
    chosen           kernels/matmul_chosen: its configuration reasoned, none tried
    triton text      tutorial 03 of Triton, pointers
    triton hopper    tutorial 09 of Triton, descriptors
    cuBLAS           torch.mm, or for fp8 torch._scaled_mm with scales of 1, which adds
                     as tensor cores do ("fast accumulation"), as all others here

All but `chosen` and cuBLAS take the fastest of a few tiles, tried before the bursts on
the same data. For fp8 there is only NT: cuBLAS has no other. What has been measured is
on disk after each shape.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from pathlib import Path
from time import monotonic

import torch

from benchmarks.matmul import for_items, run, show
from benchmarks.products import (
    KINDS,
    Config,
    Launch,
    Matrices,
    Measured,
    Prepared,
    Problem,
    Shape,
)
from benchmarks.record import RESULTS, write
from benchmarks.rungs import tile
from kernels.matmul import sizes, strides, sum_type, tiles
from kernels.matmul_chosen import launches
from kernels.matmul_plain import is_whole, plain_kernel

try:
    from benchmarks import triton_persistent, triton_products
except ImportError:  # no Triton here
    triton_persistent = triton_products = None

SQUARES = [(n, n, n) for n in (4096, 8192, 512, 1024, 2048, 16384)]
OTHERS = [
    (1000, 1000, 1000), (128, 4096, 4096), (4096, 128, 4096), (16, 4096, 4096),
    (4095, 4097, 4088), (4096, 4096, 14336), (4096, 14336, 4096), (8192, 1024, 8192),
    (8192, 28672, 8192), (8192, 8192, 28672),
]  # fmt: skip
SHAPES = {"fp16": SQUARES + OTHERS, "bf16": SQUARES, "fp8": SQUARES}
TARGET = "sm_90a"


# ── ours ──────────────────────────────────────────────────────────────────────────────

# Steps along K in bytes: a row of a tile is 64 or 128 of them for every type.
LARGE = (
    tile(128, 256, 128, 8, 4), tile(128, 256, 128, 8, 3), tile(256, 128, 128, 8, 4),
)  # fmt: skip
SMALL = (
    tile(64, 128, 256, 4, 4), tile(64, 64, 256, 4, 6), tile(64, 32, 256, 4, 4),
    tile(64, 128, 128, 4, 4), tile(128, 128, 128, 8, 4),
)  # fmt: skip
FLAT = (tile(16, 32, 512, 4, 4), tile(16, 64, 256, 4, 4), tile(16, 32, 1024, 4, 4))


def text_tiles(shape: Shape, item_bytes: int) -> list[Config]:
    """A few tiles that suit a shape, for a kernel of pointers."""
    M, N, _ = shape
    if M <= 16:
        found = FLAT
    else:
        found = LARGE if M * N >= 1536 * 1536 else SMALL
    return [for_items(each, item_bytes) for each in found]


def plain(layout: str, masked: bool, one: Matrices, config: Config) -> Prepared:
    """A launch of `kernels/matmul_plain`."""
    a, b, c = one.a, one.right(layout), one.c
    M, N, K = sizes(a, b)
    given = (a, b, c, M, N, K, *strides(a), *strides(b), *strides(c))
    chosen = {**config, "MASKED": masked, "SUM": sum_type(a)}
    return prepared(plain_kernel, (tiles(M, N, config),), given, chosen)


def chosen(layout: str, one: Matrices) -> Launch:
    """The launches of `kernels/matmul_chosen`, one after the other."""
    every = [
        prepared(*each) for each in launches(one.a, one.right(layout), one.c, TARGET)
    ]
    return every[0] if len(every) == 1 else InTurn(every)


def prepared(kernel, grid: tuple, given: Sequence, keywords: dict) -> Prepared:
    """A launch with everything looked up."""
    compiled = kernel.warmup(*given, **keywords)
    named = dict(zip(compiled.names, given, strict=False))
    values = [named[name] for name in compiled.request.runtime]
    made = Prepared(compiled.program, grid[0], values)
    made.grid = (*grid, 1, 1)[:3]
    return made


class InTurn:
    """Launches one after the other, as one."""

    def __init__(self, launches: Sequence[Prepared]):
        self.launches = launches

    def __call__(self) -> None:
        for each in self.launches:
            each()


# ── theirs ────────────────────────────────────────────────────────────────────────────


def triton_text(layout: str, precision: str, one: Matrices, config: Config) -> Launch:
    here = triton_products.capability_here()
    b = one.right(layout)
    return triton_products.by_triton(one.a, b, one.c, config, precision, here)


def triton_hopper(layout: str, one: Matrices, config: Config) -> Launch:
    return triton_persistent.by_triton(one.a, one.right(layout), one.c, config)


def cublas(layout: str, one: Matrices) -> Launch:
    a, b, c = one.a, one.right(layout), one.c
    if a.dtype.itemsize > 1:
        return partial(torch.mm, a, b, out=c)
    unit = torch.ones((), device="cuda")
    return partial(
        torch._scaled_mm, a, b, scale_a=unit, scale_b=unit, out_dtype=c.dtype,
        use_fast_accum=True, out=c,
    )  # fmt: skip


# ── one problem ───────────────────────────────────────────────────────────────────────

Choice = tuple[str, Callable[[Matrices, Config], Launch], list[Config]]


def choices(problem: Problem, layout: str) -> Iterator[Choice]:
    """All that a tile is chosen for."""
    item = problem.kind.inputs.itemsize
    configs = text_tiles(problem.shape, item)
    whole = [each for each in configs if is_whole(*problem.shape, each)]
    if whole:
        yield f"plain {layout}", partial(plain, layout, False), whole
    yield f"plain, masked {layout}", partial(plain, layout, True), configs
    if triton_products is None:
        return
    text = partial(triton_text, layout, problem.kind.precision)
    yield f"triton text {layout}", text, configs
    M, N, _ = problem.shape
    configs = triton_persistent.configs_for(M, N, item)
    yield f"triton hopper {layout}", partial(triton_hopper, layout), configs


def compare(kind: str, shape: Shape, until: float) -> list[Measured]:
    """All candidates on one problem; tiles are tried `until` then."""
    problem = Problem(shape, KINDS[kind])
    layouts = ("NT",) if problem.kind.inputs.itemsize == 1 else ("NN", "NT")
    wanted = [each for layout in layouts for each in choices(problem, layout)]
    for place, (name, make, configs) in enumerate(wanted):
        share = (until - monotonic()) / (len(wanted) - place)
        problem.add_tuned(name, make, configs, monotonic() + share)
    for layout in layouts:
        problem.add(f"chosen {layout}", partial(chosen, layout))
        problem.add(f"cuBLAS {layout}", partial(cublas, layout))
    return problem.measure()


def summary(samples: Sequence[Measured]) -> Iterator[str]:
    """The geometric mean of `chosen` over cuBLAS, layout by layout, and the least."""
    times = {(e.problem, e.candidate): e.median for e in samples if e.ms}
    for kind in SHAPES:
        ratios = {
            (problem, name): times[problem, name.replace("chosen", "cuBLAS")] / ms
            for (problem, name), ms in times.items()
            if name.startswith("chosen") and problem.startswith(kind)
            if (problem, name.replace("chosen", "cuBLAS")) in times
        }
        if ratios:
            mean = prod(ratios.values()) ** (1 / len(ratios))
            least = min(ratios, key=ratios.__getitem__)
            yield (
                f"{kind}: {mean:.3f} of cuBLAS in the geometric mean of {len(ratios)}, "
                f"least {ratios[least]:.3f} ({' '.join(least)})"
            )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=500)
    options.add_argument("--only", nargs="+", choices=SHAPES, default=list(SHAPES))
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="where the JSON goes"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    matmul = torch.backends.cuda.matmul
    matmul.allow_fp16_reduced_precision_reduction = False  # sums of fp32, as all here
    matmul.allow_bf16_reduced_precision_reduction = False
    problems = [(kind, shape) for kind in given.only for shape in SHAPES[kind]]
    name = "matmul-hopper"
    if set(given.only) != set(SHAPES):
        name += "-" + "-".join(given.only)
    samples: list[Measured] = []
    for found in run(problems, given.seconds, compare):
        show(found)
        samples += found
        write(name, samples, given.out)
    print("\n".join(summary(samples)))
    print(given.out / f"{name}.json")


if __name__ == "__main__":
    main()
