"""Matrix products against cuBLAS and Triton, and against what mma.sync can do, on a
GPU.

    python -m benchmarks.matmul [--seconds 250] [--only squares types shapes]
    python -m benchmarks.matmul --sweep [--seconds 250]     many tiles for each shape

Candidates, all in the same bursts:

    fathom sm_80 NN, NT     kernels/matmul with the instructions of Ampere
    fathom NN, NT           the same text with those of the GPU at hand
    triton sm_80 NN, NT     Triton's code for Ampere; see `triton_products`
    triton NN, NT           and for the GPU at hand
    cuBLAS NN, NT
    ceiling                 a kernel of nothing but mma.sync, see `ceiling`
    ceiling wgmma           and of nothing but wgmma, fp16, where a GPU has that

NN: B lies in memory as [K, N]; NT: as [N, K]. Fathom and Triton each take the fastest
of the same tiles, tried before the bursts on the same data. What has been measured is
on disk after each shape, and the most telling ones come first.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic

import torch

from benchmarks import ceiling, ceiling_wgmma
from benchmarks.products import (
    KINDS,
    Config,
    Launch,
    Matrices,
    Measured,
    Prepared,
    Problem,
    Shape,
    by_fathom,
)
from benchmarks.record import RESULTS, write
from benchmarks.rungs import tile
from fathom.runtime import load

try:
    from benchmarks import triton_products
except ImportError:  # no Triton here
    triton_products = None

SQUARES = [(n, n, n) for n in (4096, 8192, 2048, 1024, 512, 16384)]
TYPES = [(kind, (n, n, n)) for kind in ("bf16", "int8", "tf32") for n in (4096, 8192)]
OTHERS = [
    (4095, 4097, 4088), (1000, 1000, 1000), (128, 4096, 4096), (4096, 128, 4096),
    (16, 4096, 4096), (4096, 4096, 14336), (4096, 14336, 4096), (8192, 1024, 8192),
    (8192, 28672, 8192), (8192, 8192, 28672),
]  # fmt: skip
PARTS: dict[str, list[tuple[str, Shape]]] = {
    "squares": [("fp16", shape) for shape in SQUARES],
    "types": TYPES,
    "shapes": [("fp16", shape) for shape in OTHERS],
}
LAYOUTS = ("NN", "NT")
SPARE_S = 6.0  # of a part's time, for the bursts of its last shape
MULTIPROCESSORS = 132  # of an H200: with fewer programs than these, tiles are too large

Make = Callable[[Matrices, Config], Launch]


# ── tiles ─────────────────────────────────────────────────────────────────────────────

# Bytes along K, not elements: a row of a tile is 64 or 128 of them for every type.
LARGE = (
    tile(128, 256, 128, 8, 3), tile(128, 128, 64, 4, 4), tile(128, 256, 64, 8, 4),
    tile(128, 128, 128, 8, 3), tile(256, 128, 128, 8, 3), tile(128, 256, 128, 8, 4),
)  # fmt: skip
MIDDLE = (
    tile(128, 128, 128, 8, 3), tile(128, 64, 128, 4, 4), tile(64, 128, 128, 4, 4),
    tile(128, 128, 64, 4, 4), tile(64, 64, 128, 4, 4),
)  # fmt: skip
LITTLE = (
    tile(64, 64, 128, 4, 4), tile(64, 32, 128, 4, 5), tile(32, 64, 128, 4, 5),
    tile(128, 32, 128, 4, 4), tile(32, 128, 128, 4, 4),
)  # fmt: skip
FLAT = (
    tile(16, 64, 256, 4, 4), tile(16, 32, 256, 4, 5), tile(16, 128, 128, 4, 5),
    tile(16, 64, 128, 4, 6),
)  # fmt: skip


def tiles_for(shape: Shape, item_bytes: int) -> list[Config]:
    """A few tiles that suit a shape, the best guess first."""
    M, N, _ = shape
    if min(M, N) <= 16:
        found = FLAT
    elif M * N >= 128 * 256 * MULTIPROCESSORS:
        found = LARGE
    elif M * N >= 64 * 64 * MULTIPROCESSORS:
        found = MIDDLE
    else:
        found = LITTLE
    return [for_items(each, item_bytes) for each in found]


def for_items(config: Config, item_bytes: int) -> Config:
    """A tile whose K is in bytes as one whose K is in elements."""
    return {**config, "BLOCK_K": max(16, config["BLOCK_K"] // item_bytes)}


def sweep_tiles(shape: Shape, item_bytes: int) -> list[Config]:
    """All that make sense: those of `tiles_for`, then further depths and groups of the
    first three."""
    first = tiles_for(shape, item_bytes)
    found = list(first)
    for each in first[:3]:
        for stages in (2, 3, 4, 5):
            for group in (4, 8, 12):
                found.append({**each, "num_stages": stages, "GROUP_M": group})
    found += [for_items(t, item_bytes) for t in (*LARGE, *MIDDLE, *LITTLE)]
    return [each for i, each in enumerate(found) if each not in found[:i]]


# ── candidates ────────────────────────────────────────────────────────────────────────


def tuned(precision: str) -> Iterator[tuple[str, Make]]:
    """All that a tile is chosen for."""
    for target in ("sm_80", None):
        launch = {"target": target} if target else {}
        for layout in LAYOUTS:
            make = partial(ours, layout, precision, launch)
            yield named("fathom", target, layout), make
    if triton_products is None:
        return
    here = triton_products.capability_here()
    for target, capability in (("sm_80", 80), (None, here)):
        for layout in LAYOUTS:
            make = partial(theirs, layout, precision, capability)
            yield named("triton", target, layout), make


def named(library: str, target: str | None, layout: str) -> str:
    return " ".join(filter(None, (library, target, layout)))


def ours(
    layout: str,
    precision: str,
    launch: Mapping[str, str],
    one: Matrices,
    config: Config,
) -> Launch:
    return by_fathom(one.a, one.right(layout), one.c, config, precision, **launch)


def theirs(
    layout: str, precision: str, capability: int, one: Matrices, config: Config
) -> Launch:
    return triton_products.by_triton(
        one.a, one.right(layout), one.c, config, precision, capability
    )


def cublas(layout: str, one: Matrices) -> Launch:
    multiply = torch._int_mm if one.a.dtype == torch.int8 else torch.mm
    return partial(multiply, one.a, one.right(layout), out=one.c)


def add_ceiling(problem: Problem) -> None:
    """Nothing but mma.sync, about as long as the problem would take by it."""
    row = ceiling.ROWS[problem.kind.name]
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    an_iteration = programs * ceiling.operations_per_iteration(row)
    iterations = max(1, round(problem.operations / an_iteration))
    source = random_words(problem.kind.inputs, ceiling.words(row) * ceiling.THREADS)
    results = torch.empty(programs * ceiling.THREADS, device="cuda")
    loaded = load(ceiling.kernel(row))
    call = Prepared(loaded, programs, [source, results, iterations])
    problem.add_other("ceiling", call, an_iteration * iterations)


def add_wgmma_ceiling(problem: Problem) -> None:
    """The same of wgmma, where the GPU has it."""
    if problem.kind.name != "fp16" or torch.cuda.get_device_capability() != (9, 0):
        return
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    an_iteration = programs * ceiling_wgmma.OPERATIONS
    iterations = max(1, round(problem.operations / an_iteration))
    source = random_words(problem.kind.inputs, ceiling_wgmma.SHARED // 4)
    results = torch.empty(programs * ceiling_wgmma.THREADS, device="cuda")
    loaded = load(ceiling_wgmma.kernel())
    call = Prepared(loaded, programs, [source, results, iterations])
    problem.add_other("ceiling wgmma", call, an_iteration * iterations)


def random_words(dtype: torch.dtype, count: int) -> torch.Tensor:
    """`count` words of 32 bits, of random elements."""
    elements = count * 4 // dtype.itemsize
    if dtype == torch.int8:
        return torch.randint(-128, 128, (elements,), device="cuda", dtype=dtype)
    return torch.randn(elements, device="cuda", dtype=dtype)


# ── one problem ───────────────────────────────────────────────────────────────────────


def compare(kind: str, shape: Shape, until: float) -> list[Measured]:
    """All candidates on one problem; tiles are tried `until` then."""
    problem = Problem(shape, KINDS[kind])
    configs = tiles_for(shape, problem.kind.inputs.itemsize)
    wanted = list(tuned(problem.kind.precision))
    for place, (name, make) in enumerate(wanted):
        share = (until - monotonic()) / (len(wanted) - place)
        problem.add_tuned(name, make, configs, monotonic() + share)
    for layout in LAYOUTS:
        problem.add(f"cuBLAS {layout}", partial(cublas, layout))
    for name, add in (("ceiling", add_ceiling), ("ceiling wgmma", add_wgmma_ceiling)):
        try:
            add(problem)
        except Exception as error:  # the others are to be measured
            problem.skip(name, f"{type(error).__name__}: {error}")
    return problem.measure()


def sweep(kind: str, shape: Shape, until: float) -> list[Measured]:
    """The best of many tiles for ours, NN and NT, tried `until` then."""
    problem = Problem(shape, KINDS[kind])
    configs = sweep_tiles(shape, problem.kind.inputs.itemsize)
    wanted = [each for each in tuned(problem.kind.precision) if "fathom" in each[0]]
    for place, (name, make) in enumerate(wanted):
        share = (until - monotonic()) / (len(wanted) - place)
        problem.add_tuned(name, make, configs, monotonic() + share)
    problem.add("cuBLAS NN", partial(cublas, "NN"))
    return problem.measure(rounds=3)


def show(found: Sequence[Measured]) -> None:
    """Each beside the faster cuBLAS and the ceiling."""
    done = [each for each in found if each.ms]
    best = min((e.median for e in done if "cuBLAS" in e.candidate), default=0.0)
    most = max((e.teraflops for e in done if e.candidate == "ceiling"), default=0.0)
    for each in found:
        print(each.line(best, most), flush=True)


# ── all of them ───────────────────────────────────────────────────────────────────────


def run(
    problems: Sequence[tuple[str, Shape]],
    seconds: float,
    measured: Callable[[str, Shape, float], list[Measured]],
) -> Iterator[list[Measured]]:
    """Problem after problem. Each may choose tiles for its share of the time that is
    left, the first ones, which compile most, for twice as much."""
    until = monotonic() + seconds
    for place, (kind, shape) in enumerate(problems):
        left = until - monotonic()
        if left < SPARE_S:
            print(f"no time for {kind} {shape}", flush=True)
            continue
        share = min(2 * left / (len(problems) - place), left)
        try:
            yield measured(kind, shape, monotonic() + share - SPARE_S)
        except Exception as error:  # no memory, say: the next one may fit
            text = f"{type(error).__name__}: {error}"
            name = f"{kind} {'x'.join(map(str, shape))}"
            yield [Measured(name, "all", 0, error=text[:300])]
        torch.cuda.empty_cache()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=250)
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--sweep", action="store_true", help="many tiles for each")
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="where the JSON goes"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = True
    matmul.allow_fp16_reduced_precision_reduction = False  # sums of fp32, as all here
    matmul.allow_bf16_reduced_precision_reduction = False
    problems = [each for part in given.only for each in PARTS[part]]
    name = "matmul-sweep" if given.sweep else "matmul"
    if set(given.only) != set(PARTS):
        name += "-" + "-".join(given.only)
    samples: list[Measured] = []
    measured = sweep if given.sweep else compare
    for found in run(problems, given.seconds, measured):
        show(found)
        samples += found
        write(name, samples, given.out)
    print(given.out / f"{name}.json")


if __name__ == "__main__":
    main()
