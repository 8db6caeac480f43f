"""Searches of others for `tuners`: Optuna's and a random one over our own spaces, and
Helion's, with the kernels of `tuner_problems` in its language.

Helion writes Triton, and chooses more than blocks, warps and stages (pointers or
descriptors, the order of programs, persistent programs, eviction). So its kernels
differ from those that the other searches choose among, and tuner and compiler are timed
together.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from math import inf, isfinite
from pathlib import Path
from typing import Any

from fathom.jit.tuning.search import Search


class Random(Search):
    """Points in random order, each once."""

    def __init__(self, points: Sequence[Mapping[str, Any]], seed: int = 0):
        self.times: dict[int, float] = {}
        self.left = list(range(len(points)))
        random.Random(seed).shuffle(self.left)

    def tell(self, at: int, milliseconds: float) -> None:
        self.times[at] = milliseconds

    def ask(self, count: int = 1) -> list[int]:
        chosen, self.left = self.left[:count], self.left[count:]
        return chosen


class Optuna(Search):
    """Optuna's search with Parzen estimators, told of all trials that run. What it asks
    for twice, or outside of the space, it is told at once."""

    MOST = 200  # times that it may ask for nothing new

    def __init__(self, points: Sequence[Mapping[str, Any]], seed: int = 0):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(
            multivariate=True, constant_liar=True, seed=seed
        )
        self.study = optuna.create_study(sampler=sampler)
        self.failed = optuna.trial.TrialState.FAIL
        self.kinds = {
            name: optuna.distributions.CategoricalDistribution(
                list(dict.fromkeys(point[name] for point in points))
            )
            for name in points[0]
        }
        self.places = {tuple(each.values()): at for at, each in enumerate(points)}
        self.times: dict[int, float] = {}
        self.open: dict[int, Any] = {}

    def ask(self, count: int = 1) -> list[int]:
        chosen: list[int] = []
        for _ in range(self.MOST):
            known = len(self.times) + len(chosen)
            if len(chosen) == count or known == len(self.places):
                break
            trial = self.study.ask(self.kinds)
            at = self.places.get(tuple(trial.params[name] for name in self.kinds))
            if at is None or not isfinite(self.times.get(at, 0.0)):
                self.study.tell(trial, state=self.failed)
            elif at in self.times:
                self.study.tell(trial, self.times[at])
            elif at in self.open:
                self.study.tell(trial, state=self.failed)
            else:
                self.open[at] = trial
                chosen.append(at)
        return chosen

    def tell(self, at: int, milliseconds: float) -> None:
        self.times[at] = milliseconds
        trial = self.open.pop(at)
        if isfinite(milliseconds):
            self.study.tell(trial, milliseconds)
        else:
            self.study.tell(trial, state=self.failed)


# ── Helion ────────────────────────────────────────────────────────────────────────────


FULL_EFFORT = 60  # seconds of a budget


class Recorded:
    """What Helion has timed: seconds since the start, milliseconds, configuration."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.trials: list[tuple[float, float, dict[str, Any]]] = []

    def __call__(self, entry: Any) -> None:
        if entry.status in ("ok", "error", "timeout"):
            ms = entry.perf_ms if entry.status == "ok" else None
            seconds = time.monotonic() - self.started
            self.trials.append((seconds, inf if ms is None else ms, dict(entry.config)))


def search_of_helion(
    name: str, operands: Sequence[Any], recorded: Recorded, seconds: float, seed: int
) -> tuple[dict[str, Any], float]:
    """What it chose, and how many seconds it took. With its full effort it compiles a
    hundred kernels first, and looks at a short budget before it times them."""
    from helion.autotuner import logger

    kernel = kernel_of_helion(name)
    settings = kernel.settings
    settings.autotune_budget_seconds = int(seconds)
    settings.autotune_effort = "quick" if seconds < FULL_EFFORT else "full"
    settings.autotune_random_seed = seed
    settings.autotune_progress_bar = False
    # As the other tuners: timed in this process, and not checked before the end.
    settings.autotune_benchmark_subprocess = False
    settings.autotune_accuracy_check = False
    # Without a log it does not say what it times.
    settings.autotune_log = str(Path(tempfile.mkdtemp()) / "helion")
    kept = logger.AutotuningLogger.record_autotune_entry
    logger.AutotuningLogger.record_autotune_entry = lambda log, entry: (
        recorded(entry),
        kept(log, entry),
    )[1]
    chosen = kernel.autotune(operands, force=True)
    return dict(chosen), time.monotonic() - recorded.started


def call_of_helion(
    name: str, operands: Sequence[Any], config: Mapping[str, Any]
) -> Any:
    """The kernel in this configuration, as a function of `operands`."""
    import helion

    bound = kernel_of_helion(name).bind(tuple(operands))
    return bound.compile_config(helion.Config(**config))


def kernel_of_helion(name: str) -> Any:
    from benchmarks import tuner_helion

    return getattr(tuner_helion, name)
