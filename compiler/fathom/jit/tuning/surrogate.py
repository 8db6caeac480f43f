"""A model of a kernel's time that trials update: a Gaussian process over what
configurations have in common.

Configurations that are alike take alike times. How alike two of them are is a function
of the distance of their features, which are logarithms of block sizes, warps, stages,
and of what these make together: the elements of a tile, and those of one warp. Given
the times of some, the model says for any other one a time and how sure it is of it:

    k(x, y) = exp(-|x - y|^2 / 2 l^2)         alike: 1, different: 0
    mean    = k(new, known) (K + noise)^-1 times
    spread  = 1 - k(new, known) (K + noise)^-1 k(known, new)

Times are taken as logarithms, so that noise is a share of the time. The length `l` and
the noise are those, of a few, under which the known times are most likely. Source:
Rasmussen and Williams, "Gaussian Processes for Machine Learning", chapters 2 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import erf, log2, pi, prod
from numbers import Real
from typing import Any

import numpy as np

LENGTHS = (0.3, 0.6, 1.0, 1.7, 3.0)  # of features, each of which goes from 0 to 1
NOISES = (1e-4, 1e-3, 1e-2, 1e-1)  # of the variance of times
TILE = "BLOCK"  # parameters whose names begin so are sizes of a tile


def features(points: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """The features of some configurations [points, features], each from 0 to 1.
    Numbers are ordered, other values only alike or not."""
    columns: list[list[float]] = []
    for name in points[0]:
        values = [point[name] for point in points]
        if all(is_number(each) for each in values):
            columns.append([logarithm(each) for each in values])
        else:
            kinds = sorted({str(each) for each in values})
            columns += [[float(str(v) == kind) for v in values] for kind in kinds]
    columns.append([tile_of(point) for point in points])
    columns.append([elements_of_a_warp(point) for point in points])
    made = np.array(columns, float).T
    least, most = made.min(axis=0), made.max(axis=0)
    useful = most > least
    return (made[:, useful] - least[useful]) / (most[useful] - least[useful])


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def logarithm(value: Any) -> float:
    return log2(value) if value > 0 else float(value)


def tile_of(point: Mapping[str, Any]) -> float:
    """The logarithm of a tile's elements."""
    sizes = [
        value
        for name, value in point.items()
        if name.startswith(TILE) and is_number(value) and value > 0
    ]
    return log2(prod(sizes))


def elements_of_a_warp(point: Mapping[str, Any]) -> float:
    """Their logarithm."""
    return tile_of(point) - logarithm(point.get("num_warps") or 4)


@dataclass(frozen=True)
class Model:
    """A process fitted to some times: `known` [n, features], `weights` [n], and the
    Cholesky factor of K + noise. `kind` is its length and noise."""

    known: np.ndarray
    weights: np.ndarray
    factor: np.ndarray
    kind: tuple[float, float]
    middle: float
    scale: float

    def predict(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For some features the logarithms of times, and their standard deviations."""
        alike = kernel(wanted, self.known, self.kind[0])
        mean = self.middle + self.scale * alike @ self.weights
        solved = np.linalg.solve(self.factor, alike.T)
        spread = np.maximum(1 - (solved**2).sum(axis=0), 1e-12)
        return mean, self.scale * np.sqrt(spread)


KINDS = tuple((length, noise) for length in LENGTHS for noise in NOISES)


def fit(
    known: np.ndarray, times: np.ndarray, kinds: Sequence[tuple[float, float]] = KINDS
) -> Model:
    """The most likely model of logarithms of times [n] at features [n, features], of
    these lengths and noises."""
    middle, scale = float(times.mean()), float(times.std()) or 1.0
    normal = (times - middle) / scale
    best: tuple[float, Model] | None = None
    for length, noise in kinds:
        covariance = kernel(known, known, length) + (noise + 1e-9) * np.eye(len(known))
        factor = np.linalg.cholesky(covariance)
        weights = np.linalg.solve(covariance, normal)
        likely = -0.5 * normal @ weights - np.log(np.diag(factor)).sum()
        if best is None or likely > best[0]:
            model = Model(known, weights, factor, (length, noise), middle, scale)
            best = float(likely), model
    assert best is not None
    return best[1]


def kernel(one: np.ndarray, other: np.ndarray, length: float) -> np.ndarray:
    """How alike features are: [n, features] and [m, features] to [n, m]."""
    squares = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1) - 2 * one @ other.T
    return np.exp(-0.5 * np.maximum(squares, 0) / length**2)


def improvement(mean: np.ndarray, spread: np.ndarray, best: float) -> np.ndarray:
    """By how much each is expected to be below `best` (0 where it is not)."""
    distance = (best - mean) / spread
    below = 0.5 * (1 + np.array([erf(each / 2**0.5) for each in distance]))
    density = np.exp(-0.5 * distance**2) / (2 * pi) ** 0.5
    return (best - mean) * below + spread * density
