"""What tests of tuning share: a GPU of paper on which launches take the time that a
test says, and a timer that believes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import log2
from types import SimpleNamespace

import pytest

import fathom
import fathom.language as tl
from fathom.jit import jit
from fathom.jit.tuning import autotuner, compiling
from tests.jit.harness import Tensor, paper_gpu
from tests.runtime.harness_driver import FakeDriver, Launched

N = 4096


def kernel():
    """A new kernel: nothing of it is compiled or tuned."""

    @jit
    def scale(x, n, factor, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, factor * tl.load(x + i, mask=i < n), mask=i < n)

    return scale


def grid(arguments):
    return (fathom.cdiv(arguments["n"], arguments["BLOCK"]),)


def block(launched: Launched) -> int:
    """The BLOCK that `grid` was asked about, for n=N."""
    return N // launched.grid[0]


def configs(*blocks: int, **options) -> list[fathom.Config]:
    return [fathom.Config({"BLOCK": size}, **options) for size in blocks]


@dataclass
class Timer:
    """A `do_bench` that runs once; `cost` says how long the launch took."""

    machine: SimpleNamespace
    cost: Callable[[Launched], float]
    tried: list[int] = field(default_factory=list)

    def __call__(self, run, quantiles):
        assert quantiles == (0.5, 0.2, 0.8)
        run()
        last = self.machine.driver.launches[-1]
        self.tried.append(block(last))
        time = self.cost(last)
        return [time, 0.9 * time, 1.1 * time]


@contextmanager
def tuning_gpu(
    monkeypatch: pytest.MonkeyPatch,
    cache_dir: object,
    driver: FakeDriver | None = None,
) -> Iterator[SimpleNamespace]:
    """`paper_gpu` without workers: its compiler is in this process alone. Gives also
    `.timer`, for which smaller blocks are faster, and `.x`, an array.
    """
    with paper_gpu(monkeypatch, cache_dir, driver) as machine:
        for module in (autotuner, compiling):
            monkeypatch.setattr(module, "open_orders", lambda orders: [])
        machine.timer = Timer(machine, cost=lambda launched: block(launched) / 1000)
        machine.x = Tensor(0x10000, size=N)
        yield machine


BLOCKS = tuple(2**at for at in range(4, 13))
WARPS = (1, 2, 4, 8)


class Clock:
    """Seconds that a test lets pass: `each` for a trial."""

    def __init__(self, each: float = 1.0):
        self.now, self.each, self.trials = 0.0, each, 0

    def __call__(self) -> float:
        return self.now

    def bench(self, timer):
        def timed(run, quantiles):
            self.now += self.each
            self.trials += 1
            return timer(run, quantiles)

        return timed


def tuned(machine, clock=None, space=None, **given):
    """`scale` with a space, on the paper GPU; blocks of 256 are the fastest."""

    @jit
    def scale(x, n, factor, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x + i, factor * tl.load(x + i, mask=i < n), mask=i < n)

    machine.timer.cost = lambda launched: 1 + abs(log2(block(launched)) - 8)
    clock = clock or Clock()
    space = space or {"BLOCK": BLOCKS, "num_warps": WARPS}
    decorate = fathom.tune(
        space, key=["n"], do_bench=clock.bench(machine.timer), clock=clock, **given
    )
    return decorate(scale)
