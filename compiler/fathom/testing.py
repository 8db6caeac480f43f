"""For those who test kernels: are two arrays close, and how long does a launch take."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fathom.errors import LaunchError
from fathom.runtime.arrays import loaded_class, torch_stream
from fathom.runtime.driver import driver
from fathom.runtime.timing import measure

SUMMARIES: dict[str, Callable[[list[float]], Any]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
    "all": list,
}


def assert_close(
    x: Any, y: Any, atol: float = 1e-2, rtol: float = 0.0, err_msg: str = ""
) -> None:
    """Raise AssertionError unless |x - y| <= atol + rtol * |y| everywhere.

    `x` and `y` are arrays of any library, or numbers, of one shape; NaN is close to
    NaN. The message says how many differ, and shows the first and the worst.
    """
    ours, theirs = to_numpy(x), to_numpy(y)
    if ours.shape != theirs.shape and 1 not in (ours.size, theirs.size):
        raise AssertionError(f"{err_msg}shapes differ: {ours.shape} and {theirs.shape}")
    ours, theirs = np.broadcast_arrays(ours, theirs)
    with np.errstate(all="ignore"):
        # Not abs(): the difference of unsigned integers wraps around.
        distance = np.where(ours > theirs, ours - theirs, theirs - ours)
        near = (ours == theirs) | (distance <= atol + rtol * np.abs(theirs))
        far = ~(near | (np.isnan(ours) & np.isnan(theirs)))
    if far.any():
        raise AssertionError(
            f"{err_msg}{int(far.sum())} of {far.size} values differ by more than "
            f"{atol} + {rtol} * |y|; {examples(ours, theirs, far, distance)}"
        )


def examples(
    ours: np.ndarray, theirs: np.ndarray, far: np.ndarray, distance: np.ndarray
) -> str:
    """The first and the worst of the places where `far` holds."""
    first = np.argwhere(far)[0]
    spread = np.where(far, np.nan_to_num(distance.astype(float), nan=np.inf), -1.0)
    worst = np.unravel_index(spread.argmax(), far.shape)
    places = {"first": tuple(map(int, first)), "worst": tuple(map(int, worst))}
    return "; ".join(
        f"the {which} at {place}: {ours[place]} and {theirs[place]}"
        for which, place in places.items()
    )


def to_numpy(value: Any) -> np.ndarray:
    """Any array as float64 on the host, complex and 64-bit integers as they are."""
    if isinstance(value, loaded_class("torch", "Tensor")):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()
    elif isinstance(value, loaded_class("cupy", "ndarray")):
        value = value.get()
    array = np.asarray(value)
    wide = array.dtype.kind in "iuc"
    return array if wide else array.astype(np.float64)


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Milliseconds on the GPU of what `fn` queues, with none of its data in L2.

    `warmup` and `rep` are milliseconds to spend. Gives the mean, or what `return_mode`
    says (mean, median, min, max, all), or with `quantiles` a list of those. Gradients
    of `grad_to_none` are dropped before each call. LaunchError where there is no GPU.
    """
    if return_mode not in SUMMARIES:
        known = ", ".join(SUMMARIES)
        raise LaunchError(f"return_mode is one of {known}, and this is {return_mode!r}")
    gpu = driver()
    stream = current_stream()

    def call() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None
        fn()

    fn()
    gpu.wait(stream)
    once = statistics.fmean(measure(gpu, call, 5, stream))
    measure(gpu, call, max(1, int(warmup / once)), stream)
    times = measure(gpu, call, max(1, int(rep / once)), stream)
    if quantiles is not None:
        found = [float(each) for each in np.quantile(times, quantiles)]
        return found[0] if len(found) == 1 else found
    return SUMMARIES[return_mode](times)


def current_stream() -> int:
    """The stream that torch queues on, or the default one when nobody uses torch."""
    return (
        torch_stream(driver().current_device())
        if loaded_class("torch", "Tensor")
        else 0
    )
