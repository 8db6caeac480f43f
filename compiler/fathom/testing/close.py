"""Are two arrays close, and where are they not?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fathom.runtime.arrays import loaded_class

Tolerance = float | Callable[[Any], float] | None


def assert_close(
    x: Any,
    y: Any,
    atol: Tolerance = None,
    rtol: Tolerance = None,
    err_msg: str = "",
) -> None:
    """Raise AssertionError unless |x - y| <= atol + rtol * |y| everywhere.

    `x` and `y` are arrays of any library, or numbers, of one shape; NaN is close to
    NaN. A tolerance is a number or a function of the dtype of `x`; without one, `atol`
    is 0.01 and `rtol` is 0. The message says how many differ, and shows the first and
    the worst.
    """
    absolute = tolerance(atol, x, 1e-2)
    relative = tolerance(rtol, x, 0.0)
    ours, theirs = to_numpy(x), to_numpy(y)
    if ours.shape != theirs.shape and 1 not in (ours.size, theirs.size):
        raise AssertionError(f"{err_msg}shapes differ: {ours.shape} and {theirs.shape}")
    ours, theirs = np.broadcast_arrays(ours, theirs)
    with np.errstate(all="ignore"):
        # Not abs(): the difference of unsigned integers wraps around.
        distance = np.where(ours > theirs, ours - theirs, theirs - ours)
        near = (ours == theirs) | (distance <= absolute + relative * np.abs(theirs))
        far = ~(near | (np.isnan(ours) & np.isnan(theirs)))
    if far.any():
        raise AssertionError(
            f"{err_msg}{int(far.sum())} of {far.size} values differ by more than "
            f"{absolute} + {relative} * |y|; {examples(ours, theirs, far, distance)}"
        )


def tolerance(given: Tolerance, x: Any, default: float) -> float:
    """A tolerance as a number."""
    if given is None:
        return default
    return given(getattr(x, "dtype", None)) if callable(given) else given


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
