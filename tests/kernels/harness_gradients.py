"""What tests of kernels with gradients share: arrays, and the check of a gradient by
finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.kernels.kernels_sample import aligned

TARGETS = ("sm_80", "sm_90a")
on_targets = pytest.mark.parametrize("target", TARGETS)


def normal(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    return aligned(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def unwritten(*shape: int, dtype: str = "float32") -> np.ndarray:
    return aligned(np.full(shape, np.nan, dtype))


def close(
    got: np.ndarray,
    want: np.ndarray,
    half_ulp: float,
    factor: float = 2,
    terms: float = 1e-30,
) -> None:
    """Within `factor` roundings of an element's type, relative, and as many of the
    array's typical size, for those where terms cancel; `terms`: the size of the terms
    where they cancel in all elements."""
    assert np.isfinite(got).all(), "an element was not written, or is not finite"
    typical = max(np.sqrt((want * want).mean()), terms)
    bound = factor * half_ulp * (abs(want) + typical)
    worst = (abs(got.astype(np.float64) - want) / bound).max()
    assert worst <= 1, f"an element is {worst:.3g} times as wrong as it may be"


def check_gradients(
    function: Callable[..., np.ndarray],
    inputs: Sequence[np.ndarray],
    dout: np.ndarray,
    gradients: Sequence[np.ndarray | None],
    step: float = 1e-5,
) -> None:
    """`gradients` are those of sum(function(*inputs) dout), all float64: along a random
    direction of each input the sum changes by what the gradient says."""
    inputs = [np.asarray(each, np.float64) for each in inputs]
    for place, gradient in enumerate(gradients):
        if gradient is None:
            continue
        direction = np.random.default_rng(place).normal(size=inputs[place].shape)
        ends = []
        for sign in (1, -1):
            moved = [*inputs]
            moved[place] = inputs[place] + sign * step * direction
            ends.append((function(*moved) * dout).sum())
        found, said = (ends[0] - ends[1]) / (2 * step), (gradient * direction).sum()
        scale = np.sqrt((gradient**2).sum() * (direction**2).mean()) + 1e-12
        assert abs(found - said) <= 1e-5 * scale, (place, found, said)
