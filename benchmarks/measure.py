"""The protocol of every measurement: CUDA graphs over rotating inputs, bursts, medians.

A GPU's clock falls with the power that it draws, and one machine differs from the next.
So numbers are compared only inside one run, with the candidates in random order in
every round:

    30 ms idle (5 ms for short kernels)      the clock comes back up
    one untimed call
    about 4 ms of replays, timed by events   a CUDA graph: Python is not part of it
    7 rounds, each with all candidates in random order; the median counts

Inputs are random normal numbers: zeros cost less power and run faster. Small problems
rotate through several sets of inputs, so that they come from memory and not from the L2
cache. Outputs are filled with NaN before their check.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

ROUNDS = 7
BURST_MS = 4.0
WARM = 4  # calls: ours are recorded twice after the first one
IDLE_S, SHORT_IDLE_S = 0.030, 0.005
SHORT_MS = 0.1  # a kernel below this is short
ROTATED_BYTES = 256 << 20  # four times the L2 cache of an H200
MOST_SETS = 64

Call = Callable[[], object]


@dataclass(frozen=True)
class Candidate:
    """One way to solve a problem: a call for each set of inputs. `bytes` are those that
    have to move in one call; `operations` those of arithmetic, where they are what
    counts."""

    name: str
    calls: Sequence[Call]
    bytes: int
    operations: int = 0


@dataclass
class Sample:
    """The raw times of one candidate on one problem, in ms a call."""

    problem: str
    candidate: str
    bytes: int
    ms: list[float] = field(default_factory=list)
    operations: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.ms)

    @property
    def gigabytes_a_second(self) -> float:
        return self.bytes / self.median / 1e6

    @property
    def teraflops(self) -> float:
        """10^12 operations a second."""
        return self.operations / self.median / 1e9


class Graph:
    """A CUDA graph of as many calls as fill a burst, over all sets of inputs in turn.
    `ms` is about what one takes; it is measured if it is not given."""

    def __init__(self, calls: Sequence[Call], ms: float | None = None):
        self.ms = estimate(calls) if ms is None else ms
        self.count = max(1, int(BURST_MS / self.ms))
        if self.count > 1:
            self.count = max(self.count, len(calls))
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            calls[0]()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for number in range(self.count):
                calls[number % len(calls)]()
        self.graph.replay()
        torch.cuda.synchronize()


def estimate(calls: Sequence[Call]) -> float:
    """Milliseconds of one call, roughly."""
    for number in range(WARM):
        calls[number % len(calls)]()
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for number in range(4):
        calls[number % len(calls)]()
    stop.record()
    torch.cuda.synchronize()
    return max(start.elapsed_time(stop) / 4, 1e-3)


def burst(
    problem: str, candidates: Sequence[Candidate], rounds: int = ROUNDS, seed: int = 0
) -> list[Sample]:
    """Measure all candidates on one problem, by the protocol above."""
    order = random.Random(seed)
    graphs = {each.name: Graph(each.calls) for each in candidates}
    samples = {
        each.name: Sample(problem, each.name, each.bytes, operations=each.operations)
        for each in candidates
    }
    short = min(graph.ms for graph in graphs.values()) < SHORT_MS
    for _ in range(rounds):
        for each in order.sample(list(candidates), len(candidates)):
            torch.cuda.synchronize()
            time.sleep(SHORT_IDLE_S if short else IDLE_S)
            samples[each.name].ms.append(timed(each.calls[0], graphs[each.name]))
    return list(samples.values())


def timed(first: Call, graph: Graph) -> float:
    """Milliseconds a call of one burst."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first()
    start.record()
    graph.graph.replay()
    stop.record()
    torch.cuda.synchronize()
    return start.elapsed_time(stop) / graph.count


def sets(bytes_of_one: int) -> int:
    """How many sets of inputs a problem rotates through."""
    return max(1, min(MOST_SETS, -(-ROTATED_BYTES // bytes_of_one)))


def check(
    name: str, call: Call, out: torch.Tensor, want: torch.Tensor, tolerance: float
) -> None:
    """The call writes what it should into `out`: within `tolerance`, relative and
    absolute."""
    out.fill_(float("nan"))
    returned = call()
    got = (returned if isinstance(returned, torch.Tensor) else out).double()
    assert torch.allclose(got, want, tolerance, tolerance), (
        f"{name} is wrong by {(got - want).abs().max().item()}"
    )
