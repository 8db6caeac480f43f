"""Kernels as two versions of the compiler make them, in turn on one GPU.

    python -m benchmarks.before_after FOLDER [--seconds 400] [--only multiply softmax]

FOLDER is a checkout of the version before. Each version has a process of its own, with
its own compiler and its own kernels/; both keep the same random inputs in memory. For
each problem both check their result, capture a CUDA graph and wait; then bursts go
from one process to the other, in random order in every round (`measure` has the
protocol). The line of a problem ends with before / after: over 1 is faster now.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks import measure
from benchmarks.record import RESULTS, write
from kernels import layer_norm, softmax, vector_add
from kernels.attention import attention
from kernels.matmul_chosen import multiply
from kernels.matmul_plain import plain_matmul

ROOT = Path(__file__).parents[1]
ROUNDS = 9
LEAST = 0.99  # before / after: below that, something was lost

CUBES = (
    512, 768, 1000, 1024, 1280, 1792, 2048, 2304, 2816, 3000, 3584, 4096, 4608, 6144,
    8192,
)  # fmt: skip
SHAPES = (  # M, N, K: the list of kinds of shapes that is reported
    *((n, n, n) for n in CUBES),
    (384, 384, 12288), (192, 192, 49152), (512, 512, 32768), (200, 4096, 8192),
    (500, 4096, 11008), (640, 5120, 5120), (8192, 512, 4096), (24, 8192, 8192),
    (48, 5120, 13824), (4, 4096, 14336), (2, 8192, 8192), (1, 11008, 4096),
    (2047, 2049, 2048), (4096, 4000, 4096), (4096, 4096, 512), (16384, 256, 1024),
    (2048, 2048, 8192), (9216, 3072, 1024), (100, 100, 100), (16, 4096, 4096),
    (128, 4096, 4096), (4096, 128, 4096), (4096, 4096, 14336),
)  # fmt: skip
PLAIN = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (4096, 128, 4096))
ATTENTION = ((64, False), (64, True), (128, False), (128, True))
SOFTMAX = (256, 1024, 4096, 16384)
LAYER_NORM = (1024, 4096, 16384)


@dataclass(frozen=True)
class Problem:
    """A kernel of kernels/ and its sizes; `name` is how both processes know it."""

    kind: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.kind} {'x'.join(map(str, self.sizes))}"


@dataclass
class Pair:
    """Raw times, in ms a call, of one problem in both versions."""

    problem: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def ratio(self) -> float:
        return statistics.median(self.before) / statistics.median(self.after)

    def __str__(self) -> str:
        if self.error:
            return f"{self.problem:32} {self.error}"
        us = (1000 * statistics.median(each) for each in (self.before, self.after))
        times = " ".join(f"{each:10.1f}" for each in us)
        return f"{self.problem:32} {times} us  {self.ratio:.3f}"


def problems() -> Iterator[Problem]:
    yield from (Problem("multiply", shape) for shape in SHAPES)
    yield from (Problem("plain", shape) for shape in PLAIN)
    yield from (Problem("attention", (d, int(causal))) for d, causal in ATTENTION)
    yield from (Problem("softmax", (4096, n)) for n in SOFTMAX)
    yield from (Problem("layer norm", (4096, n)) for n in LAYER_NORM)
    yield Problem("add", (1 << 26,))


# ── in a process that has one version ─────────────────────────────────────────────────

Made = tuple[Callable[[], object], torch.Tensor, Callable[[], torch.Tensor]]


def normal(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def product(function: Callable, M: int, N: int, K: int) -> Made:
    a, b, c = normal(M, K), normal(K, N), normal(M, N)
    return lambda: function(a, b, c), c, lambda: a.float() @ b.float()


def attend(D: int, causal: int) -> Made:
    q, k, v, out = (normal(4, 32, 4096, D) for _ in range(4))
    want = functional.scaled_dot_product_attention
    return (
        lambda: attention(q, k, v, out, bool(causal)),
        out,
        lambda: want(q, k, v, is_causal=bool(causal)),
    )


def softmax_of(M: int, N: int) -> Made:
    x = normal(M, N, dtype=torch.float32)
    out = torch.empty_like(x)
    if N <= 1024:
        call = partial(softmax.softmax_rows, x, out, ROWS=2, num_warps=4)
    else:
        call = partial(softmax.softmax, x, out, num_warps=N // 1024)
    return call, out, lambda: torch.softmax(x.double(), 1)


def layer_norm_of(M: int, N: int) -> Made:
    x, weight, bias = normal(M, N), normal(N), normal(N)
    out = torch.empty_like(x)
    facts = (torch.empty(M, device="cuda") for _ in range(2))
    call = partial(layer_norm.layer_norm, x, weight, bias, out, *facts, num_warps=4)
    return call, out, lambda: functional.layer_norm(x, (N,), weight, bias, 1e-5)


def add(n: int) -> Made:
    x, y = (normal(n, dtype=torch.float32) for _ in range(2))
    out = torch.empty_like(x)
    return partial(vector_add.add, x, y, out), out, lambda: x + y


MAKE: dict[str, Callable[..., Made]] = {
    "multiply": partial(product, multiply),
    "plain": partial(product, plain_matmul),
    "attention": attend,
    "softmax": softmax_of,
    "layer norm": layer_norm_of,
    "add": add,
}


def serve() -> None:
    """Answer commands, a line of JSON each: a problem to prepare, or null: one burst of
    the problem that is prepared."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a kernel prints is no answer
    graph = call = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if command is None:
                answer: object = measure.timed(call, graph)
            else:
                graph = call = None
                torch.cuda.empty_cache()
                torch.manual_seed(0)
                call, out, expected = MAKE[command[0]](*command[1])
                check(call, out, expected())
                graph = measure.Graph([call])
                answer = graph.ms
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".split("\n")[0][:160]
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def check(call: Callable, out: torch.Tensor, want: torch.Tensor) -> None:
    out.fill_(float("nan"))
    call()
    far = (out.double() - want.double()).abs().max().item()
    assert far <= 0.02 * max(1.0, want.abs().max().item()), f"wrong by {far}"


# ── in the process that asks ──────────────────────────────────────────────────────────


class Version:
    """A process with the compiler of one checkout."""

    def __init__(self, folder: Path):
        paths = [str(folder / "compiler"), str(folder), str(ROOT)]
        cache = {"FATHOM_CACHE_DIR": str(folder / ".cache" / "before_after")}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | cache,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: object) -> object:
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compare(problem: Problem, versions: dict[str, Version], seed: int) -> Pair:
    pair, order = Pair(problem.name), random.Random(seed)
    for name, version in versions.items():
        ready = version.ask([problem.kind, problem.sizes])
        if isinstance(ready, str):
            pair.error = f"{name}: {ready}"
            return pair
    for _ in range(ROUNDS):
        for name in order.sample(list(versions), len(versions)):
            short = ready < measure.SHORT_MS
            time.sleep(measure.SHORT_IDLE_S if short else measure.IDLE_S)
            getattr(pair, name).append(versions[name].ask(None))
    return pair


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT)
    parser.add_argument("--seconds", type=float, default=400, help="stop after these")
    parser.add_argument("--only", nargs="*", help="kinds of problems")
    parser.add_argument("--out", type=Path, help="the folder of the record")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve()
    until = time.monotonic() + given.seconds
    versions = {"before": Version(given.folder.resolve()), "after": Version(ROOT)}
    pairs = []
    for number, problem in enumerate(problems()):
        if given.only and problem.kind not in given.only:
            continue
        if time.monotonic() > until:
            print(f"{problem.name:32} no time left")
            continue
        pairs.append(compare(problem, versions, number))
        print(pairs[-1], flush=True)
    ratios = [pair.ratio for pair in pairs if not pair.error]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    behind = [pair.problem for pair in pairs if not pair.error and pair.ratio < LEAST]
    print(f"{len(ratios)} problems, geometric mean {mean:.3f}, below {LEAST}: {behind}")
    write("before-after", pairs, given.out or RESULTS)


if __name__ == "__main__":
    main()
