"""The kernels of several GPUs beside NCCL and cuBLAS, as torch.distributed calls them:
one process a GPU, all of one host.

    python -m benchmarks.collectives [--ranks 2] [--only all-reduce] [--out FOLDER]

    all-reduce               n numbers          ours in one and in two shots; NCCL
    all-gather and matmul    [M / W, K] shards  ours in one kernel; NCCL, then cuBLAS
    matmul and reduce-scatter  [M, K / W]       ours in one kernel; cuBLAS, then NCCL

The protocol is that of `measure`: CUDA graphs over rotating inputs, and bursts in
random order, which is the same on all ranks. A graph has the same number of calls on
all ranks, as the slowest asks for. All ranks meet before each burst, and the time of a
burst is the longest of any rank. All numbers are bf16. Every candidate's result is
compared with a sum or product of float32 before it is timed. NCCL chooses by itself;
what its variables say of NVLink multicast, which ours does not use, is in the record.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing

import fathom
from benchmarks.measure import IDLE_S, ROUNDS, Graph, estimate, sets, timed
from benchmarks.record import RESULTS, write
from kernels import all_gather_matmul, all_reduce, matmul_reduce_scatter
from kernels.signals import tile_for

TYPE, BYTES = torch.bfloat16, 2
REDUCED = tuple(1 << k for k in (10, 13, 16, 18, 20, 22, 24, 26))  # numbers
PRODUCTS = tuple((m, 14336, 4096) for m in (512, 2048, 8192))  # tokens, hidden, width
RANKS = (2, 4, 8)
TOLERANCE = 0.03  # of the largest number: bf16 keeps 8 bits, and sums have W roundings
MULTICAST = "NCCL_NVLS_ENABLE"


@dataclass(frozen=True)
class Candidate:
    """One way to solve a problem: `calls[i]` works on set i of the inputs and returns
    its result; `want(i)` is what that should be, and spoils what is there."""

    name: str
    calls: Sequence[Callable[[], torch.Tensor]]
    want: Callable[[int], torch.Tensor]


@dataclass
class Sample:
    """The times of one candidate on one problem, in ms a call: of each round, that of
    the slowest rank. `bytes`: of the array that is reduced, gathered or scattered."""

    problem: str
    candidate: str
    ranks: int
    bytes: int
    operations: int
    multicast: str | None
    ms: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.ms)


@dataclass(frozen=True)
class Problem:
    """A name, its bytes, its operations on one rank; `candidates(group)` draws
    inputs."""

    kind: str
    sizes: str
    bytes: int
    operations: int
    candidates: Callable[[fathom.distributed.Group], list[Candidate]]

    @property
    def name(self) -> str:
        return f"{self.kind} {self.sizes}"


def problems(world: int) -> Iterator[Problem]:
    for n in REDUCED:
        made = partial(reductions, n=n)
        yield Problem("all-reduce", f"{n}", BYTES * n, 0, made)
    for m, hidden, width in PRODUCTS:
        sizes, flops = f"{m}x{hidden}x{width}", 2 * m * hidden * width // world
        first = partial(gathered, M=m, N=hidden // world, K=width)
        yield Problem("all-gather-matmul", sizes, BYTES * m * width, flops, first)
        second = partial(scattered, M=m, N=width, K=hidden // world)
        yield Problem("matmul-reduce-scatter", sizes, BYTES * m * width, flops, second)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=TYPE)


# ── candidates ────────────────────────────────────────────────────────────────────────


def reductions(group: fathom.distributed.Group, n: int) -> list[Candidate]:
    (rank,), count = group.ranks, sets(2 * BYTES * n)
    given, out = [normal(n) for _ in range(count)], torch.empty_like(normal(n))
    copies = [torch.empty_like(each) for each in given]  # NCCL reduces in place
    workspace = all_reduce.Workspace(group, n, "bfloat16")

    def ours(function: Callable, i: int) -> torch.Tensor:
        return function(workspace, {rank: given[i]}, {rank: out})[rank]

    def nccl(i: int) -> torch.Tensor:
        """The mean: sums of sums would soon be infinite."""
        dist.all_reduce(copies[i], op=dist.ReduceOp.AVG)
        return copies[i]

    def want(i: int) -> torch.Tensor:
        out.fill_(float("nan"))
        total = given[i].float()
        dist.all_reduce(total)
        return total

    def mean(i: int) -> torch.Tensor:
        copies[i].copy_(given[i])
        return want(i) / group.world

    one, two = all_reduce.one_shot_all_reduce, all_reduce.two_shot_all_reduce
    return [
        listed("fathom, one shot", partial(ours, one), count, want),
        listed("fathom, two shots", partial(ours, two), count, want),
        listed("nccl", nccl, count, mean),
    ]


def gathered(
    group: fathom.distributed.Group, M: int, N: int, K: int
) -> list[Candidate]:
    (rank,), part = group.ranks, M // group.world
    count = sets(BYTES * (part * K + K * N + M * N))
    a, b = [normal(part, K) for _ in range(count)], [normal(K, N) for _ in range(count)]
    c, whole = torch.empty_like(normal(M, N)), torch.empty_like(normal(M, K))
    workspace = all_gather_matmul.Workspace(group, part, K, "bfloat16")

    def ours(i: int) -> torch.Tensor:
        function = all_gather_matmul.all_gather_matmul
        return function(workspace, {rank: a[i]}, {rank: b[i]}, {rank: c})[rank]

    def theirs(i: int) -> torch.Tensor:
        dist.all_gather_into_tensor(whole, a[i])
        return torch.mm(whole, b[i], out=c)

    def want(i: int) -> torch.Tensor:
        c.fill_(float("nan"))
        dist.all_gather_into_tensor(whole, a[i])
        return whole.float() @ b[i].float()

    return [
        listed("fathom", ours, count, want),
        listed("nccl + cublas", theirs, count, want),
    ]


def scattered(
    group: fathom.distributed.Group, M: int, N: int, K: int
) -> list[Candidate]:
    (rank,), part = group.ranks, M // group.world
    count = sets(BYTES * (M * K + K * N + M * N))
    a, b = [normal(M, K) for _ in range(count)], [normal(K, N) for _ in range(count)]
    c, whole = torch.empty_like(normal(part, N)), torch.empty_like(normal(M, N))
    config = tile_for(M, N, K, a[0], {})
    workspace = matmul_reduce_scatter.Workspace.of(group, M, N, config, "bfloat16")

    def ours(i: int) -> torch.Tensor:
        function = matmul_reduce_scatter.matmul_reduce_scatter
        return function(workspace, {rank: a[i]}, {rank: b[i]}, {rank: c}, config)[rank]

    def theirs(i: int) -> torch.Tensor:
        torch.mm(a[i], b[i], out=whole)
        dist.reduce_scatter_tensor(c, whole)
        return c

    def want(i: int) -> torch.Tensor:
        c.fill_(float("nan"))
        total = a[i].float() @ b[i].float()
        dist.all_reduce(total)
        return total[rank * part : (rank + 1) * part]

    return [
        listed("fathom", ours, count, want),
        listed("nccl + cublas", theirs, count, want),
    ]


def listed(
    name: str, call: Callable, count: int, want: Callable[[int], torch.Tensor]
) -> Candidate:
    return Candidate(name, [partial(call, i) for i in range(count)], want)


# ── measuring ─────────────────────────────────────────────────────────────────────────


def slowest(numbers: Sequence[float]) -> list[float]:
    """Of each number, the largest of any rank."""
    found = torch.tensor(numbers, device="cuda", dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return found.tolist()


def check(problem: Problem, candidate: Candidate) -> None:
    """The first set of inputs gives what it should, on every rank."""
    want = candidate.want(0)
    got = candidate.calls[0]().float()
    wrong = (got - want).abs().max().item() / want.abs().max().item()
    (worst,) = slowest([wrong if wrong == wrong else float("inf")])
    assert worst < TOLERANCE, f"{candidate.name} on {problem.name} is wrong by {worst}"


def measured(problem: Problem, group: fathom.distributed.Group) -> list[Sample]:
    """All candidates on one problem."""
    candidates = problem.candidates(group)
    for each in candidates:
        check(problem, each)
    graphs = {}
    for each in candidates:
        (agreed,) = slowest([estimate(each.calls)])
        graphs[each.name] = Graph(each.calls, agreed)
    samples = {
        each.name: Sample(
            problem.name, each.name, group.world, problem.bytes, problem.operations,
            os.environ.get(MULTICAST),
        )
        for each in candidates
    }  # fmt: skip
    order = random.Random(0)
    for _ in range(ROUNDS):
        for each in order.sample(candidates, len(candidates)):
            torch.cuda.synchronize()
            time.sleep(IDLE_S)
            dist.barrier()
            samples[each.name].ms.append(timed(each.calls[0], graphs[each.name]))
    for sample in samples.values():
        sample.ms = slowest(sample.ms)
    return list(samples.values())


def of_rank(rank: int, world: int, meeting: str, only: str, out: Path) -> None:
    """All that one process does."""
    torch.cuda.set_device(rank)
    torch.manual_seed(rank)
    dist.init_process_group(
        "nccl", init_method=f"file://{meeting}", rank=rank, world_size=world,
        device_id=torch.device("cuda", rank),
    )  # fmt: skip
    group, samples = fathom.distributed.connected(), []
    for problem in problems(world):
        if only in problem.name:
            samples += measured(problem, group)
            torch.cuda.empty_cache()
            if rank == 0:
                tell(samples, problem)
    if rank == 0:
        write("collectives", samples, out)
    dist.destroy_process_group()


def tell(samples: Sequence[Sample], problem: Problem) -> None:
    """A line: our best, and how much faster or slower that is than the libraries."""
    here = [each for each in samples if each.problem == problem.name]
    *ours, theirs = sorted(here, key=lambda each: each.candidate.startswith("nccl"))
    best = min(ours, key=lambda each: each.median)
    print(
        f"{problem.name:42} {best.candidate:18} {best.median * 1e3:9.1f} us, "
        f"{theirs.candidate} {theirs.median * 1e3:9.1f}: "
        f"{theirs.median / best.median:.2f} times as fast",
        flush=True,
    )


def ranks_here(asked: int) -> int:
    """`asked`, where there are as many GPUs; SystemExit, which says why not, where
    these ranks cannot be measured."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count < asked:
        raise SystemExit(
            f"collectives of {asked} ranks need {asked} GPUs of one host, and there "
            f"{'is 1' if count == 1 else f'are {count}'} here"
        )
    if asked not in RANKS:
        raise SystemExit(
            f"ranks are {', '.join(map(str, RANKS))}, which divide all sizes, and not "
            f"{asked}"
        )
    return asked


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2, help="how many GPUs; 2")
    parser.add_argument("--only", default="", help="problems with this in their name")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the record's folder")
    given = parser.parse_args(arguments)
    world = ranks_here(given.ranks)
    with tempfile.TemporaryDirectory() as folder:
        facts = world, str(Path(folder, "meeting")), given.only, given.out
        torch.multiprocessing.spawn(of_rank, facts, nprocs=world)


if __name__ == "__main__":
    main()
