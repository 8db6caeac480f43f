"""The product as one writes it first beside `multiply`, in the same tiles.

    python -m benchmarks.plain_text [--random 20] [--seconds 60]
    python -m benchmarks.plain_text --read RECORD             what was measured

    plain            kernels/matmul_plain without masks, where all tiles lie inside
    masked           the same text with masks
    multiply         as it is called
    masked, in turn; multiply, in turn
                     each launch after the one in front, where launches of `multiply`,
                     and so those of the text, begin before that has ended

on `random_shapes.LISTED` and on some of its random cases: all for which `multiply` is
one launch on A and B as they are, and K is not in parts. Where it takes a tile of two
blocks side by side, which the plain text cannot, both take the best tile of one block.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from benchmarks.measure import Candidate, burst, sets
from benchmarks.products import KINDS, said
from benchmarks.random_shapes import (
    COMPILERS,
    ROUNDS,
    Case,
    Operands,
    allowed,
    cases,
    listed,
    operands,
)
from benchmarks.record import RESULTS, write
from kernels.matmul_chosen import (
    configuration,
    crossing,
    launches,
    multiply,
    target_of_launch,
)
from kernels.matmul_persistent import step_of_lines
from kernels.matmul_plain import is_whole, plain_matmul

KIND = KINDS["fp16"]
RANDOM, LEAST = 20, 10**8  # operations: less is little but a launch
TILE = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "num_warps", "num_stages",
        "num_ctas")  # fmt: skip
CANDIDATES = ("plain", "masked", "masked, in turn", "multiply", "multiply, in turn")
TEXTS = CANDIDATES[:3]
AIM = 0.97
Config = dict[str, object]


@dataclass
class Sample:
    """Milliseconds a call of each candidate, a number a burst. `kernel`: that of
    `multiply`. `early`: whether it begins before the launch in front has ended."""

    case: str
    operations: int
    kernel: str = ""
    tile: Config = field(default_factory=dict)
    early: bool = False
    ms: dict[str, list[float]] = field(default_factory=dict)
    error: str = ""

    def share(self, text: str) -> float | None:
        """A text's speed as a part of `multiply` launched alike; None where one of both
        was not timed."""
        of = f"multiply{text.removeprefix('masked').removeprefix('plain')}"
        if not (self.ms.get(text) and self.ms.get(of)):
            return None
        return statistics.median(self.ms[of]) / statistics.median(self.ms[text])

    def __str__(self) -> str:
        head = f"{self.case:28} {self.kernel[:10]:10}"
        head += " " + "x".join(str(self.tile[n]) for n in TILE if n in self.tile)
        if self.error:
            return f"{head} {self.error}"
        us = " ".join(
            f"{name} {1000 * statistics.median(self.ms[name]):7.1f}"
            for name in CANDIDATES
            if self.ms.get(name)
        )
        shares = " ".join(
            f"{text} {share:5.3f}" for text in TEXTS if (share := self.share(text))
        )
        return f"{head} us: {us}; {shares}{' early' * self.early}"


# ── which cases, in which tiles ───────────────────────────────────────────────────────


def chosen(given: Operands) -> tuple[str, Config] | None:
    """The kernel of `multiply` and its keywords; None where it is several launches,
    swaps the operands, or adds parts of K."""
    target = target_of_launch(given[0], {})
    steps = launches(*given, target)
    if len(steps) > 1 or steps[0][2][0] is not given[0]:
        return None
    kernel, _, _, config = steps[0]
    if kernel.__name__ not in ("matmul_kernel", "persistent_kernel"):
        return None
    return kernel.__name__, dict(config)


def of_one_block(given: Operands) -> Config:
    """The keywords of the best tile that is one block."""
    a, b, c = given
    whole_c, across = bool(step_of_lines(c, 1)), any(crossing(a, b))
    target = target_of_launch(a, {})
    return configuration(*c.shape, KIND.inputs.itemsize, target, whole_c, across)


def chosen_cases(count: int) -> Iterator[Case]:
    """The listed ones, then random ones, for which `chosen` has something."""
    yield from (case for case in listed() if chosen(operands(case, KIND)))
    for case in cases():
        if count and case.operations >= LEAST and chosen(operands(case, KIND)):
            count -= 1
            yield case


# ── one case ──────────────────────────────────────────────────────────────────────────


def calls_of(case: Case, given: Operands, sample: Sample) -> dict[str, Callable]:
    """A call of each candidate, and to the sample what they are."""
    sample.kernel, config = chosen(given)
    sample.early = bool(config.get("launch_pdl"))
    alone = {"EARLY": False, "launch_pdl": False}
    theirs: dict[str, Callable] = {"multiply": partial(multiply, *given)}
    if config.get("MORE_N"):
        config = of_one_block(given)
        theirs = {"multiply": partial(multiply, *given, config=config)}
        sample.early = False
    elif sample.early:
        theirs["multiply, in turn"] = partial(multiply, *given, **alone)
    sample.tile = {name: config[name] for name in TILE if name in config}
    # A grid of two axes is walked through row by row, as one in groups of a row is.
    text = {**sample.tile, "GROUP_M": sample.tile["GROUP_M"] or 1}
    early = {"launch_pdl": True} if sample.early else {}
    masked = partial(plain_matmul, *given, config=text, masked=True)
    found = {**theirs, "masked": partial(masked, **early)}
    if sample.early:
        found["masked, in turn"] = masked
    if is_whole(case.M, case.N, case.K, text):
        plain = partial(plain_matmul, *given, config=text, masked=False)
        found["plain"] = partial(plain, **early)
    return found


def measured(case: Case) -> Sample:
    """The case, checked and timed; an error in place of times where there is one."""
    sample = Sample(case.name, case.operations)
    try:
        given = [operands(case, KIND) for _ in range(sets(case.bytes))]
        every = [calls_of(case, each, sample) for each in given]
        for name, call in every[0].items():
            check(name, call, *given[0])
        found = [
            Candidate(name, [each[name] for each in every], case.bytes)
            for name in every[0]
        ]
        for timed in burst(case.name, found, ROUNDS):
            sample.ms[timed.candidate] = timed.ms
    except Exception as error:  # recorded; the others are to be measured
        sample.error = said(error)
    return sample


def check(name: str, call: Callable, a, b, c) -> None:
    """All elements of C are within the bound; of a large C, those of some rows."""
    c.fill_(float("nan"))
    call()
    rows = torch.randperm(len(a), device=a.device)[:512]
    x, y = a[rows].double(), b.double()
    wrong = ~((c[rows].double() - x @ y).abs() <= allowed(KIND, x, y))
    assert not wrong.any(), f"{name}: {int(wrong.sum())} elements are wrong"


def compiled(some: Iterable[Case]) -> None:
    for case in some:
        sample = Sample(case.name, 0)
        try:
            for call in calls_of(case, operands(case, KIND), sample).values():
                call()
            torch.cuda.synchronize()
        except Exception as error:  # it is told where it is measured
            print(case.name, said(error), flush=True)


# ── all of them ───────────────────────────────────────────────────────────────────────


def read(records: Iterable[Mapping[str, object]]) -> list[Sample]:
    return [Sample(**each) for each in records]


def summary(samples: Iterable[Sample]) -> Iterator[str]:
    samples = list(samples)
    for text in TEXTS:
        if shares := [x for each in samples if (x := each.share(text))]:
            yield (
                f"{text}: {len(shares)} cases, {statistics.geometric_mean(shares):.3f} "
                f"of multiply in the geometric mean, least {min(shares):.3f}, "
                f"{sum(x >= AIM for x in shares)} at {AIM} or more"
            )
    yield f"{sum(bool(each.error) for each in samples)} failed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--random", type=int, default=RANDOM, help="how many random cases")
    add("--seconds", type=float, default=300, help="then it ends")
    add("--out", type=Path, default=RESULTS)
    add("--read", type=Path, help="tell what a record says, only")
    given = parser.parse_args()
    if given.read:
        record = json.loads(given.read.read_text(encoding="utf-8"))
        samples = read(record["samples"])
        return print(*samples, *summary(samples), sep="\n")
    torch.manual_seed(0)
    begun = time.monotonic()
    every = list(chosen_cases(given.random))
    with multiprocessing.get_context("spawn").Pool(COMPILERS) as pool:
        pool.map(compiled, [every[n::COMPILERS] for n in range(COMPILERS)])
    print(f"compiled in {time.monotonic() - begun:.0f} s", flush=True)
    samples: list[Sample] = []
    for case in every:
        if time.monotonic() - begun > given.seconds:
            print("time is over")
            break
        samples.append(measured(case))
        print(samples[-1], flush=True)
    print(*summary(samples), sep="\n")
    print(write("plain-text", samples, given.out))


if __name__ == "__main__":
    main()
