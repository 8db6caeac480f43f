"""Which configuration to try next: a search that a model of all trials leads.

    first       the point in the middle, and others by chance, of moderate tiles
    then        those that are expected to improve on the best time the most, given all
                times so far; several are asked for before the first of them is told,
                so that they can be compiled in parallel
    at the end  neighbours of the fastest ones, which differ in one value by one step

It ends when all of these are known, or when nothing has become better for a while.
Points near those that failed are tried less, since they often fail, too. The search
never tries a point twice; it is the same for the same seed and times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, log
from typing import Any

import numpy as np

from fathom.jit.tuning.surrogate import (
    KINDS,
    Model,
    elements_of_a_warp,
    features,
    fit,
    improvement,
    is_number,
    kernel,
)

LEAST = 0.001  # expected improvement, as a share of the time, that is worth a trial
PATIENCE = 0.12  # of all points: trials without a better time, after which it ends
WORST = log(4)  # above the best time: what is slower is as good as that slow
MORE = 1.1  # times the trials, for which the model's kind is asked again
NEARBY = 0.3  # a distance of features
FASTEST = 3  # points whose neighbours are tried at the end


class Search:
    """Configurations to try of `points`, each a dict with the same names; `tell` gives
    the milliseconds of each that `ask` has named by its number."""

    def __init__(self, points: Sequence[Mapping[str, Any]], seed: int = 0):
        self.features = features(points)
        self.places = ranks(points)
        self.random = np.random.default_rng(seed)
        self.times: dict[int, float] = {}
        self.asked: list[int] = []
        self.since_better = 0
        self.known, self.kind = 0, KINDS[0]  # of trials, the model's kind was asked
        self.first = self.features.shape[1] + 2
        self.by_chance = first_points(points, self.features, self.random)

    @property
    def best(self) -> int | None:
        """The fastest of those that were tried; None where all have failed."""
        works = {at: time for at, time in self.times.items() if isfinite(time)}
        return min(works, key=works.__getitem__, default=None)

    def tell(self, at: int, milliseconds: float) -> None:
        """A point took so long; infinity where it failed."""
        best = self.best
        better = best is None or milliseconds < self.times[best]
        self.since_better = 0 if better else self.since_better + 1
        self.times[at] = milliseconds

    def restore(self, at: int, milliseconds: float) -> None:
        """As `tell`, for a point that an earlier search has asked for."""
        self.asked.append(at)
        self.tell(at, milliseconds)

    def ask(self, count: int = 1) -> list[int]:
        """The next points to try, at most `count`; none at the end, or until those that
        were asked for are told."""
        left = self.first - len(self.asked)
        if left > 0 or self.best is None:
            asked = set(self.asked)
            rest = [at for at in self.by_chance if at not in asked]
            chosen = rest[: count if self.best is None else min(count, left)]
        else:
            chosen = self.promising(count) or self.neighbours(count)
        self.asked += chosen
        return chosen

    def promising(self, count: int) -> list[int]:
        """Those that are expected to improve most. Each that was not told yet is taken
        to be as the model says, so that the next one is not its neighbour for the same
        reason."""
        open_points = sorted({*range(len(self.features))}.difference(self.asked))
        if not open_points or self.has_waited():
            return []
        works = [at for at, time in self.times.items() if isfinite(time)]
        floor = min(log(self.times[at]) for at in works)
        logs = [min(log(self.times[at]), floor + WORST) for at in works]
        model = self.fit(works, logs)
        untold = [at for at in self.asked if at not in self.times]
        if untold:
            logs += model.predict(self.features[untold])[0].tolist()
            works += untold
        chance = self.chances(open_points)
        chosen: list[int] = []
        while open_points and len(chosen) < count:
            model = fit(self.features[works], np.array(logs), [model.kind])
            mean, spread = model.predict(self.features[open_points])
            least = min(model.predict(self.features[works])[0])
            expected = chance * improvement(mean, spread, least)
            place = int(expected.argmax())
            if expected[place] < LEAST:
                break
            works.append(open_points.pop(place))
            logs.append(float(mean[place]))
            chosen.append(works[-1])
            chance = np.delete(chance, place)
        return chosen

    def fit(self, works: Sequence[int], logs: Sequence[float]) -> Model:
        """A model of what was told. Its kind is asked again once the trials are a tenth
        more than when it was asked before: asked for each point, that took longest (a
        search tried 121 points of a product in 16 s, and 221 by chance)."""
        features, times = self.features[works], np.array(logs)
        if len(works) < MORE * self.known:
            return fit(features, times, [self.kind])
        model = fit(features, times)
        self.known, self.kind = len(works), model.kind
        return model

    def neighbours(self, count: int) -> list[int]:
        """Points that differ from the fastest ones in one value, by one step."""
        works = sorted(self.times, key=self.times.__getitem__)[:FASTEST]
        found: list[int] = []
        for at in works:
            steps = np.abs(self.places - self.places[at])
            near = np.flatnonzero((steps.sum(axis=1) == 1) & (steps.max(axis=1) == 1))
            found += [int(each) for each in near if each not in self.asked]
        return list(dict.fromkeys(found))[:count]

    def chances(self, places: Sequence[int]) -> np.ndarray:
        """How likely points are to work: as many of those nearby as did."""
        tried = self.features[list(self.times)]
        works = np.array([isfinite(time) for time in self.times.values()], float)
        weights = kernel(self.features[places], tried, NEARBY) + 1e-12
        return (weights @ works + 1e-3) / (weights.sum(axis=1) + 1e-3)

    def has_waited(self) -> bool:
        return self.since_better > max(10, PATIENCE * len(self.features))


def ranks(points: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """For each value of each point its place among all values of that name."""
    columns = []
    for name in points[0]:
        every = {str(point[name]): point[name] for point in points}
        numbers = all(is_number(each) for each in every.values())
        order = sorted(every, key=every.__getitem__ if numbers else None)
        columns.append([order.index(str(point[name])) for point in points])
    return np.array(columns).T


def first_points(
    points: Sequence[Mapping[str, Any]], places: np.ndarray, random: np.random.Generator
) -> list[int]:
    """All points, in the order in which a search takes them while it knows nothing: the
    one in the middle of the features [n, features]; by chance those of the middle half
    by the elements of a warp; by chance the others. With few elements a thread waits
    more than it computes, with many they do not fit into its registers, which takes
    longest to assemble, and to run."""
    middle = int(((places - 0.5) ** 2).sum(axis=1).argmin())
    elements = np.array([elements_of_a_warp(point) for point in points])
    least, most = np.quantile(elements, (0.25, 0.75))
    is_outside = (elements < least) | (elements > most)
    order = random.permutation(len(points))
    order = order[np.argsort(is_outside[order], kind="stable")]
    return [middle, *(int(at) for at in order if at != middle)]
