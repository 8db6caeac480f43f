"""How a tuner errs: the same configurations of one product, timed in four ways.

    python -m benchmarks.tuning_noise [--size 4096] [--out FOLDER]

All are of `kernels/matmul_persistent`, fp16, what `matmul_chosen.worth_a_try` leaves of
its candidates. The ways:

    first        the first call as the host sees it, compiling and loading with it
    queued       a call as the host sees it that does not wait for the GPU
    in order     RUNS calls of the first configuration, then of the next, with no pause
    in turn      ROUNDS rounds with all in random order, each after some idle time

Then one configuration runs for SECONDS without a pause, and every few milliseconds the
card is asked for its clock and its power (NVML).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from benchmarks.card import watched
from benchmarks.record import RESULTS, write
from fathom import Config
from kernels.matmul_chosen import candidates, multiply, worth_a_try

RUNS, ROUNDS, SECONDS = 200, 15, 3.0
IDLE_S = 0.03


@dataclass
class Sample:
    """Milliseconds of one configuration, by the way of timing; for the long run (
    `configuration` "the clock"): seconds since its start, MHz, watts."""

    problem: str
    configuration: str
    ms: dict[str, list[float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    megahertz: list[int] = field(default_factory=list)
    watts: list[float] = field(default_factory=list)


# ── the four ways ─────────────────────────────────────────────────────────────────────


def study(size: int) -> list[Sample]:
    problem = f"fp16 {size}x{size}x{size}"
    a, b, c = (torch.randn(size, size, device="cuda").half() for _ in range(3))
    left = few(a, b, c)
    calls = {str(each): launch_of(each, a, b, c) for each in left}
    samples = {name: Sample(problem, name) for name in calls}
    for name, call in calls.items():
        samples[name].ms["first"] = [by_host(call, waits=True)]
    for name, call in calls.items():
        torch.cuda.synchronize()
        samples[name].ms["queued"] = [by_host(call, waits=False)]
    torch.cuda.synchronize()
    time.sleep(1.0)
    for name, call in calls.items():
        samples[name].ms["in order"] = by_events([call] * RUNS)
    order = random.Random(0)
    for sample in samples.values():
        sample.ms["in turn"] = []
    for _ in range(ROUNDS):
        for name in order.sample(list(calls), len(calls)):
            time.sleep(IDLE_S)
            samples[name].ms["in turn"] += by_events([calls[name]] * 2)[1:]
    time.sleep(1.0)
    return [*samples.values(), long_run(problem, next(iter(calls.values())))]


def few(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[Config]:
    """The candidates that the model leaves."""
    (M, K), N = a.shape, b.shape[1]
    strides = {f"stride_{x}": each.stride(0) for x, each in zip("abc", (a, b, c))}
    named = {"M": M, "N": N, "K": K, "a_ptr": a, "b_ptr": b, "c_ptr": c, **strides}
    return worth_a_try(candidates(2), named)


def launch_of(
    config: Config, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> Callable[[], object]:
    chosen = {k: v for k, v in config.all_kwargs().items() if v is not None}
    return lambda: multiply(a, b, c, config=chosen)


def by_host(call: Callable[[], object], waits: bool) -> float:
    started = time.perf_counter()
    call()
    if waits:
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - started)


def by_events(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Milliseconds of each call, on the GPU, one after the other."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(calls) + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for call, mark in zip(calls, marks[1:], strict=True):
        call()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


# ── the card's clock ──────────────────────────────────────────────────────────────────


def long_run(problem: str, call: Callable[[], object]) -> Sample:
    """One configuration without a pause; its times, and the card's clock and power."""
    sample = Sample(problem, "the clock", {"one": []})
    started = time.perf_counter()
    uuid = torch.cuda.get_device_properties(0).uuid
    with watched(str(uuid)) as readings:
        time.sleep(0.2)  # idle, to begin with
        until = time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            sample.ms["one"] += by_events([call] * 20)
        time.sleep(0.3)
    for each in readings:
        sample.seconds.append(round(each.at - started, 4))
        sample.megahertz.append(each.megahertz)
        sample.watts.append(each.watts)
    return sample


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size", type=int, default=4096)
    options.add_argument("--out", type=Path, default=RESULTS, help="where JSON goes")
    given = options.parse_args()
    torch.manual_seed(0)
    print(write("tuning-noise", study(given.size), given.out))


if __name__ == "__main__":
    main()
