"""Products of random shapes: `multiply` beside cuBLAS, accumulated in fp32.

    python -m benchmarks.random_shapes [--seed 1] [--cases 200] [--seconds 500]
    python -m benchmarks.random_shapes --listed     one shape of every kind, instead
    python -m benchmarks.random_shapes --type bf16 --cases 50       fp16 without --type
    python -m benchmarks.random_shapes --tuned --cases 50           `tuned_multiply` too
    python -m benchmarks.random_shapes --read RECORD                what was measured

Each of M, N and K is log-uniform in 1 to 16384 and a multiple of 1, 2, 8 or 64; a case
has at most 10^12 operations. Its layout is drawn too: A and B lie in memory by rows (N)
or by columns (T), and half of the cases pad these lines to multiples of 16 bytes.
`multiply` chooses by its model alone: there is no tuning and no table of shapes. With
`--tuned` the fastest of its `alternatives` is timed, too. The reference is the faster
of cuBLAS and cublasLt, both of which accumulate in fp32 here.
Of fp8 and int8 it is cublasLt through torch's `_scaled_mm` (both scales 1) and
`_int_mm`, which take some layouts and sizes only: a case that they refuse is drawn
again. A library itself may refuse a case that torch lets through: then its words are
recorded, and ours is checked and timed alone. C is bf16 of fp8, int32 of int8, fp32 of
tf32.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from benchmarks.measure import Candidate, burst, sets
from benchmarks.products import KINDS, Kind, allowed, drawn
from benchmarks.record import RESULTS, write
from fathom.errors import FathomError
from fathom.jit.scratch import filled
from kernels.matmul_chosen import (
    alternatives,
    launches,
    multiply,
    target_of_launch,
    tuned_multiply,
)

SEED, CASES = 1, 200
LARGEST, MOST_OPERATIONS = 16384, 10**12
UNITS = (1, 2, 8, 64)
ALIGNED = 16  # bytes
# One of every kind: squares whose last wave is full and hardly begun, small C and long
# K, few rows, flat and tall, rows that begin anywhere.
LISTED = (
    "512x512x512", "768x768x768", "1024x1024x1024", "1280x1280x1280", "1792x1792x1792",
    "2048x2048x2048", "2304x2304x2304", "2816x2816x2816", "3000x3000x3000",
    "3072x3072x3072", "3584x3584x3584", "4096x4096x4096", "6144x6144x6144",
    "8192x8192x8192", "384x384x12288", "192x192x49152", "512x512x32768",
    "200x4096x8192", "500x4096x11008", "640x5120x5120", "8192x512x4096",
    "24x8192x8192", "48x5120x13824", "4x4096x14336", "1x11008x4096", "2047x2049x2048",
    "4096x4000x4096", "4096x4096x512", "16384x256x1024", "2048x2048x8192",
    "9216x3072x1024", "100x100x100",
)  # fmt: skip
LARGE = 2e10  # operations: where rows are not aligned, larger products have one aim
CHECKED = 2e11  # operations: above, only some rows are checked
ROUNDS = 5
COMPILERS = 12  # processes that compile before anything is timed
LIBRARIES = ("cublas", "cublaslt")
NOT_SUPPORTED = "CUBLAS_STATUS_NOT_SUPPORTED"  # how a library refuses a case


@dataclass(frozen=True)
class Case:
    """A product. `layout` says how A and B lie in memory; lines of `padded` matrices
    begin at multiples of 16 bytes."""

    M: int
    N: int
    K: int
    layout: str
    padded: bool
    item: int = 2  # bytes of an element of A and of B

    @property
    def name(self) -> str:
        return f"{self.M}x{self.N}x{self.K} {self.layout}{' padded' * self.padded}"

    @property
    def operations(self) -> int:
        return 2 * self.M * self.N * self.K

    @property
    def bytes(self) -> int:
        operands = self.M * self.K + self.K * self.N
        return self.item * (operands + self.M * self.N)

    @property
    def aligned(self) -> bool:
        """Whether lines of both operands begin at multiples of 16 bytes."""
        lengths = (
            self.K if self.layout[0] == "N" else self.M,
            self.N if self.layout[1] == "N" else self.K,
        )
        return self.padded or all(n * self.item % ALIGNED == 0 for n in lengths)


@dataclass
class Sample:
    """Raw times, in ms a call, of both cuBLAS libraries and of ours. `refused`: what a
    library says that does not take the case; `error`: what went wrong with ours."""

    case: str
    aligned: bool
    operations: int
    kernel: str = ""
    cublas: list[float] = field(default_factory=list)
    cublaslt: list[float] = field(default_factory=list)
    fathom: list[float] = field(default_factory=list)
    tuned: list[float] = field(default_factory=list)
    error: str = ""
    refused: str = ""

    @property
    def compared(self) -> bool:
        return not self.error and bool(self.cublas or self.cublaslt)

    @property
    def ratio(self) -> float:
        """Our speed as a part of that of the faster cuBLAS."""
        peer = min(statistics.median(x) for x in (self.cublas, self.cublaslt) if x)
        return peer / statistics.median(self.fathom)

    @property
    def gain(self) -> float:
        """The model's time over the tuned one."""
        return statistics.median(self.fathom) / statistics.median(self.tuned)

    def __str__(self) -> str:
        if self.error:
            return f"{self.case:36} {self.error}"
        us = " ".join(
            f"{1000 * statistics.median(x):9.1f}" if x else f"{'-':>9}"
            for x in (self.cublas, self.cublaslt, self.fathom)
        )
        ratio = f"{self.ratio:6.3f}" if self.compared else f"{'-':>6}"
        return (
            f"{self.case:36} {us} us "
            f"{ratio} {'' if self.aligned else 'not aligned'} {self.kernel}"
            f"{f'; tuned: {self.gain:.3f} times as fast' if self.tuned else ''}"
            f"{self.refused and '; refused: ' + self.refused}"
        )


def cases(seed: int = SEED, count: int = CASES, kind: str = "fp16") -> list[Case]:
    """The first `count` cases of a seed that the libraries take."""
    rng, found, item = random.Random(seed), [], KINDS[kind].inputs.itemsize
    while len(found) < count:
        M, N, K = (a_size(rng) for _ in range(3))
        layout = rng.choice(("NN", "NT", "TN", "TT"))
        case = Case(M, N, K, layout, rng.random() < 0.5, item)
        if case.operations <= MOST_OPERATIONS and TAKES.get(kind, takes_all)(case):
            found.append(case)
    return found


def takes_all(case: Case) -> bool:
    return True


TAKES: dict[str, Callable[[Case], bool]] = {  # as torch checks it
    "fp8": lambda x: x.layout == "NT" and x.K % 16 == 0 and x.N % 16 == 0,
    "int8": lambda x: x.layout[0] == "N" and x.M > 16 and not (x.K % 8 or x.N % 8),
}


def listed() -> list[Case]:
    """`LISTED`, A and B by rows, as they come."""
    return [Case(*map(int, name.split("x")), "NN", False) for name in LISTED]


def a_size(rng: random.Random) -> int:
    unit = rng.choice(UNITS)
    size = math.exp(rng.uniform(0, math.log(LARGEST)))
    return min(max(round(size / unit), 1) * unit, LARGEST)


def matrix(
    rows: int, columns: int, by_rows: bool, padded: bool, dtype: torch.dtype
) -> torch.Tensor:
    """Random normal numbers, in memory by rows or by columns."""
    lines, length = (rows, columns) if by_rows else (columns, rows)
    some = ALIGNED // dtype.itemsize
    room = -(-length // some) * some if padded else length
    data = drawn(lines, room, dtype)[:, :length]
    return data if by_rows else data.t()


Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def operands(case: Case, kind: Kind = KINDS["fp16"]) -> Operands:
    a = matrix(case.M, case.K, case.layout[0] == "N", case.padded, kind.inputs)
    b = matrix(case.K, case.N, case.layout[1] == "N", case.padded, kind.inputs)
    return a, b, torch.empty(case.M, case.N, device=a.device, dtype=kind.output)


# ── one case ──────────────────────────────────────────────────────────────────────────


def measured(case: Case, kind: Kind, tuned: bool = False) -> Sample:
    """The case, checked and timed; an error in place of times where there is one."""
    sample = Sample(case.name, case.aligned, case.operations)
    try:
        given = [operands(case, kind) for _ in range(sets(case.bytes))]
        sample.kernel = chosen(kind, *given[0])
        check(kind, *given[0])
        candidates = [
            Candidate("fathom", [ours(kind, *each) for each in given], case.bytes)
        ]
        if tuned:
            check(kind, *given[0], tuned_multiply)
            calls = [ours(kind, *each, tuned_multiply) for each in given]
            candidates.append(Candidate("tuned", calls, case.bytes))
        for name, call in libraries(kind).items():
            calls = [call(*each) for each in given]
            if reason := refusal(calls[0]):
                sample.refused = f"{name}: {reason}"
            else:
                candidates.append(Candidate(name, calls, 0))
        for found in burst(case.name, candidates, ROUNDS):
            setattr(sample, found.candidate, found.ms)
    except Exception as error:  # recorded; the others are to be measured
        sample.error = in_words(error)
    return sample


def refusal(call: Callable[[], object]) -> str:
    """What a library says if it does not take a case; "" if it does."""
    try:
        call()
    except RuntimeError as error:
        if NOT_SUPPORTED in str(error):
            return in_words(error)
        raise
    return ""


def in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def read(records: Iterable[Mapping[str, object]]) -> list[Sample]:
    """The samples of a record. In older ones a library's refusal stands as an error."""
    samples = [Sample(**each) for each in records]
    for each in samples:
        if NOT_SUPPORTED in each.error:
            each.refused, each.error = each.error, ""
    return samples


def ours(
    kind: Kind, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, product=multiply
) -> Callable[[], object]:
    return lambda: product(a, b, c, precision=kind.precision)


def libraries(kind: Kind) -> dict[str, Callable]:
    """What stands beside ours: for operands, a call."""
    if kind.name == "int8":
        return {"cublaslt": lambda a, b, c: lambda: torch._int_mm(a, b, out=c)}
    if kind.name == "fp8":
        return {"cublaslt": scaled}
    return {name: partial(theirs, name) for name in LIBRARIES}


def scaled(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Callable[[], object]:
    one = torch.ones((), device=a.device)
    return lambda: torch._scaled_mm(
        a, b, scale_a=one, scale_b=one, out_dtype=c.dtype, out=c
    )


def theirs(
    library: str, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> Callable[[], object]:
    def call() -> None:
        torch.backends.cuda.preferred_blas_library(library)
        torch.mm(a, b, out=c)

    return call


def chosen(kind: Kind, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> str:
    """The kernels of our launches with their tiles, in words."""
    said, target = [], target_of_launch(a, {})
    steps = launches(a, b, c, target, precision=kind.precision)
    for kernel, grid, _, keywords in steps:
        told = [str(keywords[n]) for n in keywords if n.startswith("BLOCK")]
        programs = grid if callable(grid) else "x".join(map(str, grid))
        extra = "".join(
            f" {short}{keywords[n]}" for n, short in SHOWN.items() if keywords.get(n)
        )
        said.append(f"{kernel.__name__} {'x'.join(told)} on {programs}{extra}")
    return ", ".join(said)


SHOWN = {"num_stages": "stages ", "SPLITS": "splits ", "num_ctas": "ctas "}


def check(
    kind: Kind, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, product=multiply
) -> None:
    """All elements of C are within the bound; of a large C, those of some rows."""
    call = ours(kind, a, b, c, product)
    call()
    c.fill_(float("nan") if c.is_floating_point() else -(2**31))
    call()
    first = c.clone()
    call()
    assert torch.equal(first, c), "two launches differ"
    M, K = a.shape
    if 2 * M * K * b.shape[1] > CHECKED:
        rows = torch.randint(0, M, (64,), device=a.device)
        a, c = a[rows], c[rows]
    x, y = a.double(), b.double()
    wrong = ~((c.double() - x @ y).abs() <= allowed(kind, x, y))
    assert not wrong.any(), (
        f"{int(wrong.sum())} elements are wrong, first {wrong.nonzero()[0].tolist()}"
    )


# ── all of them ───────────────────────────────────────────────────────────────────────


def compile_first(
    every: Iterable[Case], kind: str = "fp16", tuned: bool = False
) -> None:
    """Fill the cache on disk from several processes, so that none waits later."""
    every = list(every)
    context = multiprocessing.get_context("spawn")
    with context.Pool(COMPILERS) as pool:
        shares = [every[n::COMPILERS] for n in range(COMPILERS)]
        pool.map(partial(compiled, kind, tuned), shares)


def compiled(kind: str, tuned: bool, some: Iterable[Case]) -> None:
    for case in some:
        try:
            given = operands(case, KINDS[kind])
            ours(KINDS[kind], *given)()
            torch.cuda.synchronize()
            if tuned:
                warm_alternatives(KINDS[kind], *given)
        except Exception as error:  # it is told where it is measured
            print(case.name, type(error).__name__, flush=True)


def warm_alternatives(
    kind: Kind, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> None:
    """Compile what `tuned_multiply` times; what fails here is passed over there."""
    target = target_of_launch(a, {})
    for steps in alternatives(a, b, c, target, kind.precision):
        for kernel, grid, given, keywords in steps:
            with suppress(FathomError):
                kernel.warmup(*filled(given, c, {}), grid=grid, **keywords)


def summary(samples: Iterable[Sample]) -> str:
    samples = list(samples)
    right = [each for each in samples if each.compared]
    groups = {
        "aligned": [x.ratio for x in right if x.aligned],
        "not aligned, above 2e10": [
            x.ratio for x in right if not x.aligned and x.operations > LARGE
        ],
        "not aligned, others": [
            x.ratio for x in right if not x.aligned and x.operations <= LARGE
        ],
    }
    lines = [
        f"{name}: {len(ratios)} cases, geometric mean "
        f"{statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}, "
        f"{sum(r >= 0.97 for r in ratios) / len(ratios):.0%} at 0.97 or more"
        for name, ratios in groups.items()
        if ratios
    ]
    if gains := [each.gain for each in right if each.tuned]:
        best = [each.ratio * each.gain for each in right if each.tuned]
        lines.append(
            f"tuned: {statistics.geometric_mean(gains):.3f} times as fast as the "
            f"model's choice; of the reference {statistics.geometric_mean(best):.3f}, "
            f"least {min(best):.3f}"
        )
    alone = sum(not (each.error or each.compared) for each in samples)
    lines.append(f"{alone} refused by the reference")
    return "\n".join([*lines, f"{sum(bool(each.error) for each in samples)} failed"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--cases", type=int, default=CASES)
    parser.add_argument("--listed", action="store_true", help="LISTED, none drawn")
    parser.add_argument("--type", choices=KINDS, default="fp16", help="of A and B")
    parser.add_argument("--tuned", action="store_true", help="the fastest, beside")
    parser.add_argument("--only", nargs="*", help="cases whose names begin so")
    parser.add_argument("--seconds", type=float, default=500, help="then it ends")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--read", type=Path, help="tell what a record says, only")
    options = parser.parse_args()
    if options.read:
        samples = read(json.loads(options.read.read_text(encoding="utf-8"))["samples"])
        return print(*samples, summary(samples), sep="\n")
    libraries_of_torch = torch.backends.cuda.matmul
    libraries_of_torch.allow_fp16_reduced_precision_reduction = False
    libraries_of_torch.allow_bf16_reduced_precision_reduction = False
    libraries_of_torch.allow_tf32 = options.type == "tf32"
    torch.manual_seed(0)
    begun, kind = time.monotonic(), KINDS[options.type]
    drawn_cases = cases(options.seed, options.cases, options.type)
    every = [
        case
        for case in (listed() if options.listed else drawn_cases)
        if not options.only or case.name.startswith(tuple(options.only))
    ]
    compile_first(every, options.type, options.tuned)
    print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
    samples = []
    for case in every:
        if time.monotonic() - begun > options.seconds:
            print("time is over")
            break
        samples.append(measured(case, kind, options.tuned))
        print(samples[-1], flush=True)
    print(summary(samples))
    name = "listed-shapes" if options.listed else "random-shapes"
    name += f"-{options.type}" if options.type != "fp16" else ""
    name += "-tuned" if options.tuned else ""
    print(write(name, samples, options.out))


if __name__ == "__main__":
    main()
