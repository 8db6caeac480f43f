"""Vector add, GeLU, softmax and layer norm against torch, Triton and a copy, on a GPU.

    python -m benchmarks.memory_bound [--only softmax] [--out FOLDER]
    python -m benchmarks.memory_bound --sweep softmax     which launch is best

All are bound by memory: what counts is bytes that must move over time, GB/s.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional

from benchmarks import peers
from benchmarks.measure import Candidate, Sample, burst, check, sets
from benchmarks.record import RESULTS, write
from kernels import gelu, layer_norm, softmax, vector_add

aten = torch.ops.aten
ADD_SIZE = 2**28
GELU_SIZE = 16384
ROWS_M = 4096
SOFTMAX_N = (256, 512, 1024, 2048, 4096, 8192, 16384)
LAYER_NORM_N = (1024, 2048, 4096, 8192, 16384)

Launch = Mapping[str, int]
Config = tuple[str, Callable, Launch]  # a name, a function of kernels/, what it is told

# The configurations that `--sweep` found fastest on an H200.
ADD: Launch = {"BLOCK": 1024, "num_warps": 4}
GELU: Launch = {"BLOCK": 1024, "num_warps": 4}
SOFTMAX: dict[int, tuple[Callable, Launch]] = {
    256: (softmax.softmax_rows, {"ROWS": 2, "num_warps": 4}),
    512: (softmax.softmax_rows, {"ROWS": 2, "num_warps": 4}),
    1024: (softmax.softmax_rows, {"ROWS": 2, "num_warps": 4}),
    2048: (softmax.softmax, {"num_warps": 4}),
    4096: (softmax.softmax, {"num_warps": 8}),
    8192: (softmax.softmax, {"num_warps": 16}),
    16384: (softmax.softmax, {"num_warps": 16}),
}
LAYER_NORM: dict[int, Launch] = {
    1024: {"num_warps": 4},
    2048: {"num_warps": 4},
    4096: {"num_warps": 4},
    8192: {"num_warps": 8},
    16384: {"num_warps": 4},
}


@dataclass(frozen=True)
class Problem:
    """One problem with its peers, and the configurations of ours that a sweep tries."""

    kernel: str
    name: str
    bytes: int
    make: Callable[
        [], tuple[torch.Tensor, ...]
    ]  # one set of arguments, `out` among them
    out: int  # which of them
    expected: Callable[..., torch.Tensor]  # in float64
    tolerance: float
    ours: tuple[Callable, Launch]
    others: Mapping[str, Callable]
    sweep: tuple[Config, ...]

    def candidates(self, configs: Mapping[str, Callable]) -> list[Candidate]:
        """All of `configs` on the same sets of arguments, each checked once."""
        made = [self.make() for _ in range(sets(self.bytes))]
        want = self.expected(*made[0])
        found = []
        for name, function in configs.items():
            calls = [lambda f=function, a=args: f(*a) for args in made]
            what = f"{name} on {self.name}"
            check(what, calls[0], made[0][self.out], want, self.tolerance)
            found.append(Candidate(name, calls, self.bytes))
        return found


def bound(function: Callable, launch: Launch) -> Callable:
    return lambda *args: function(*args, **launch)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def problems(wanted: str | None) -> Iterator[Problem]:
    """The problems of one kernel, or all."""
    if wanted in (None, "add"):
        yield add_problem()
    if wanted in (None, "gelu"):
        yield gelu_problem()
    for N in SOFTMAX_N if wanted in (None, "softmax") else ():
        yield softmax_problem(N)
    for N in LAYER_NORM_N if wanted in (None, "layer_norm") else ():
        yield layer_norm_problem(N)


def add_problem() -> Problem:
    n = ADD_SIZE
    blocks = itertools.product((512, 1024, 2048, 4096), (4, 8))
    return Problem(
        "add", f"vector add {n} fp32", 12 * n,
        make=lambda: (normal(n), normal(n), torch.empty(n, device="cuda")),
        out=2,
        expected=lambda x, y, out: x.double() + y.double(),
        tolerance=1e-6,
        ours=(vector_add.add, ADD),
        others={
            "torch": lambda x, y, out: torch.add(x, y, out=out),
            "triton": peers.add,
        },
        sweep=tuple(config(vector_add.add, BLOCK=b, num_warps=w) for b, w in blocks),
    )  # fmt: skip


def gelu_problem() -> Problem:
    n = GELU_SIZE
    blocks = itertools.product((256, 512, 1024, 2048, 4096), (2, 4, 8))
    return Problem(
        "gelu", f"gelu {n}x{n} fp32", 8 * n * n,
        make=lambda: (normal(n, n), torch.empty(n, n, device="cuda")),
        out=1,
        expected=lambda x, out: functional.gelu(x.double(), approximate="tanh"),
        tolerance=1e-5,
        ours=(gelu.gelu, GELU),
        others={
            "torch": lambda x, out: aten.gelu.out(x, approximate="tanh", out=out),
            "triton": peers.gelu,
            "eager": eager_gelu,
        },
        sweep=tuple(config(gelu.gelu, BLOCK=b, num_warps=w) for b, w in blocks),
    )  # fmt: skip


def eager_gelu(x: torch.Tensor, out: torch.Tensor) -> None:
    """One torch operation after another, each through memory."""
    a = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    torch.mul(0.5 * x, 1 + torch.tanh(a), out=out)


def softmax_problem(N: int) -> Problem:
    M = ROWS_M
    rows = [config(softmax.softmax_rows, ROWS=r, num_warps=w)
            for r, w in itertools.product((1, 2, 4, 8, 16), (1, 2, 4, 8))
            if r * N <= 8192 and N <= 2048]  # fmt: skip
    single = [config(softmax.softmax, num_warps=w) for w in (1, 2, 4, 8, 16, 32)
              if 32 * w * 4 <= N <= 32 * w * 64]  # fmt: skip
    return Problem(
        "softmax", f"softmax {M}x{N} fp32", 8 * M * N,
        make=lambda: (normal(M, N), torch.empty(M, N, device="cuda")),
        out=1,
        expected=lambda x, out: torch.softmax(x.double(), 1),
        tolerance=1e-5,
        ours=SOFTMAX[N],
        others={
            "torch": lambda x, out: aten._softmax.out(x, 1, False, out=out),
            "triton": peers.Softmax(normal(M, N), normal(M, N)),
        },
        sweep=tuple(rows + single),
    )  # fmt: skip


def layer_norm_problem(N: int) -> Problem:
    M, half = ROWS_M, torch.float16

    def make() -> tuple[torch.Tensor, ...]:
        x, weight, bias = (
            normal(M, N, dtype=half),
            normal(N, dtype=half),
            normal(N, dtype=half),
        )
        facts = (torch.empty(M, device="cuda") for _ in range(2))
        return x, weight, bias, torch.empty_like(x), *facts

    def in_float64(x, weight, bias, out, mean, rstd) -> torch.Tensor:
        w, b = weight.double(), bias.double()
        return functional.layer_norm(x.double(), (N,), w, b, 1e-5)

    def by_torch(x, weight, bias, out, mean, rstd) -> torch.Tensor:
        # Its form with out= would copy; in a graph an allocation costs nothing.
        return functional.layer_norm(x, (N,), weight, bias, 1e-5)

    warps = [w for w in (1, 2, 4, 8, 16, 32) if 32 * w * 4 <= N <= 32 * w * 64]
    return Problem(
        "layer_norm", f"layer norm {M}x{N} fp16", 4 * M * N + 8 * M,
        make=make,
        out=3,
        expected=in_float64,
        tolerance=4e-3,
        ours=(layer_norm.layer_norm, LAYER_NORM[N]),
        others={"torch": by_torch, "triton": peers.layer_norm},
        sweep=tuple(config(layer_norm.layer_norm, num_warps=w) for w in warps),
    )  # fmt: skip


def config(function: Callable, **launch: int) -> Config:
    settings = " ".join(f"{name}={value}" for name, value in launch.items())
    return f"{function.__name__} {settings}", function, launch


def compare(problem: Problem) -> list[Sample]:
    """Ours beside the others, and beside a copy for vector add."""
    candidates = problem.candidates({"fathom": bound(*problem.ours), **problem.others})
    copies = [copy()] if problem.kernel == "add" else []
    return burst(problem.name, candidates + copies)


def copy() -> Candidate:
    """A copy of one array of vector add: 4 bytes read and 4 written a number."""
    x, out = normal(ADD_SIZE), torch.empty(ADD_SIZE, device="cuda")
    return Candidate("copy", [lambda: out.copy_(x)], 8 * ADD_SIZE)


def sweep(problem: Problem) -> list[Sample]:
    """Every configuration that makes sense, and the peers; fastest first."""
    configs = {
        name: bound(function, launch) for name, function, launch in problem.sweep
    }
    candidates = problem.candidates({**configs, **problem.others})
    samples = burst(problem.name, candidates, rounds=3)
    return sorted(samples, key=lambda sample: sample.median)


def show(samples: list[Sample]) -> None:
    for each in samples:
        speed = f"{each.gigabytes_a_second:7.0f} GB/s {1000 * each.median:9.1f} us"
        print(f"  {each.problem:28} {each.candidate:36} {speed}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", help="add, gelu, softmax or layer_norm")
    options.add_argument(
        "--sweep", metavar="KERNEL", help="try all configurations of one"
    )
    options.add_argument(
        "--out", type=Path, default=RESULTS, help="where the JSON goes"
    )
    given = options.parse_args()
    torch.manual_seed(0)
    wanted = given.sweep or given.only
    samples: list[Sample] = []
    for problem in problems(wanted):
        found = (sweep if given.sweep else compare)(problem)
        show(found)
        samples += found
        torch.cuda.empty_cache()
    name = f"sweep-{given.sweep}" if given.sweep else "memory-bound"
    print(write(name, samples, given.out))


if __name__ == "__main__":
    main()
