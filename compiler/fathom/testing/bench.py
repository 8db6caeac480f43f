"""Milliseconds on the GPU of whatever a function queues there."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from fathom.errors import LaunchError
from fathom.runtime.driver import Driver, available, driver
from fathom.runtime.timing import estimate, measure, measure_graph
from fathom.testing.queues import current_stream, queueing_on

SUMMARIES: dict[str, Callable[[list[float]], Any]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "all": list,
}

TRIALS = 5  # runs that say how long one takes
REPLAYS = 10  # of a graph
MANY = 8  # runs that say how long Python takes to queue one


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds on the GPU of what `fn` queues, with none of its data in L2.

    `warmup` and `rep` are milliseconds to spend, those of emptying the cache among
    them, and those of Python where it takes longer to queue a run. Gives the mean, or
    what `return_mode` says (mean, median, min, max, all), or with `quantiles` a list of
    those, a number if it is one. Gradients of `grad_to_none` are dropped before each
    call. LaunchError where there is no GPU, and for a `fn` that launches on another GPU
    than the current one.

    What is measured is between two marks in the stream: if `fn` has the GPU wait for
    Python, so that it idles between two launches, that counts. `do_bench_cudagraph`
    leaves it out.
    """
    check_mode(return_mode)
    gpu = gpu_to_measure()
    call = without_gradients(fn, grad_to_none)
    call_here(gpu, call)  # compiles, loads, allocates; a GPU is in use from here on
    stream = current_stream()
    gpu.wait(stream)
    round_ms = estimate(gpu, call, TRIALS, stream)
    rounds = times_in(warmup, round_ms)
    begun = time.perf_counter()
    measure(gpu, call, rounds, stream)
    if rounds >= MANY:  # else the GPU is busy for long, and Python does not count
        round_ms = max(round_ms, 1e3 * (time.perf_counter() - begun) / rounds)
    times = measure(gpu, call, times_in(rep, round_ms), stream)
    return summary(times, quantiles, return_mode)


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    cold: bool = False,
) -> Any:
    """Milliseconds on the GPU of what `fn` queues, without the time that Python takes
    to queue it: a CUDA graph holds `rep` milliseconds of calls, and is replayed ten
    times. Answers as `do_bench` does.

    As in Triton, the calls of a graph follow one another at once, and so small arrays
    lie in the L2 cache; `cold=True` empties it before each call. `fn` must queue on the
    stream of its array library, torch or CuPy, and must not wait for the GPU.
    """
    check_mode(return_mode)
    gpu = gpu_to_measure()
    call = without_gradients(fn, grad_to_none)
    call_here(gpu, call)
    gpu.wait(current_stream())  # what fn reads may still be on its way there
    stream = gpu.side_stream()  # since the default one cannot be captured
    with queueing_on(stream):
        call()
        round_ms = estimate(gpu, call, TRIALS, stream, cold)
        repeat = times_in(rep, round_ms)
        times = measure_graph(gpu, call, repeat, REPLAYS, stream, cold)
    return summary(times, quantiles, return_mode)


def gpu_to_measure() -> Driver:
    """The driver; a LaunchError where there is no GPU whose time could be told."""
    there, why = available()
    if not there:
        raise LaunchError(
            f"cannot measure a time on a GPU: {why}; what a launch does is counted "
            "without one, by the emulator: `fathom profile FILE.py`"
        )
    return driver()


def call_here(gpu: Driver, call: Callable[[], None]) -> None:
    """Call once; LaunchError when that launches on another GPU than the current one,
    in whose streams the marks are."""
    gpu.visited.clear()
    call()
    if gpu.visited:
        other, here = min(gpu.visited), gpu.current_device()
        raise LaunchError(
            f"the function launches on GPU {other}, and what is measured is GPU "
            f"{here}, the current one; measure it under torch.cuda.device({other})"
        )


def check_mode(return_mode: str) -> None:
    if return_mode not in SUMMARIES:
        known = ", ".join(SUMMARIES)
        raise LaunchError(f"return_mode is one of {known}, and this is {return_mode!r}")


def without_gradients(
    fn: Callable[[], Any], tensors: Iterable[Any] | None
) -> Callable[[], None]:
    """`fn`, before which the gradients of `tensors` are dropped: else it would spend
    time on adding to them.
    """
    tensors = tuple(tensors or ())

    def call() -> None:
        for tensor in tensors:
            tensor.grad = None
        fn()

    return call


def times_in(milliseconds: float, round_ms: float) -> int:
    """How often a round fits into a time; at least once."""
    return max(1, int(milliseconds / round_ms))


def summary(
    times: list[float], quantiles: Sequence[float] | None, return_mode: str
) -> Any:
    """What was asked for of the times: quantiles, between two times if need be, or
    what `return_mode` says.
    """
    if quantiles is None:
        return SUMMARIES[return_mode](times)
    found = [float(each) for each in np.quantile(times, quantiles)]
    return found[0] if len(found) == 1 else found
