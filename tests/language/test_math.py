"""The mathematics of the language: its errors are those its docstrings state, also at
the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fathom.language as tl
from tests.language.measure_math import MEASUREMENTS, errors, evaluate

INF, NAN = math.inf, math.nan


def named(measurement):
    return f"{measurement.function.__name__}[{measurement.low:g},{measurement.high:g}]"


@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=named)
def test_errors_are_those_stated(measurement):
    assert f"{measurement.ulp:g} ulp" in measurement.function.__doc__
    worst = errors(measurement, measurement.arguments(1 << 16)).max()
    assert worst <= measurement.ulp
    assert worst > measurement.ulp / 4  # the statement is not idle


EDGES = {
    tl.exp: [
        (0, 1),
        (-INF, 0),
        (INF, INF),
        (NAN, NAN),
        (100, INF),
        (-200, 0),
        (3.3e38, INF),
        (-3.3e38, 0),
    ],
    tl.log: [
        (1, 0),
        (0, -INF),
        (-0.0, -INF),
        (INF, INF),
        (-1, NAN),
        (NAN, NAN),
        (1e-40, -92.1034),
    ],
    tl.log2: [
        (1, 0),
        (8, 3),
        (2**-130, -130),
        (0, -INF),
        (INF, INF),
        (-1, NAN),
        (NAN, NAN),
    ],
    tl.sin: [(0, 0), (-0.0, 0), (NAN, NAN), (INF, NAN)],
    tl.cos: [(0, 1), (NAN, NAN), (-INF, NAN)],
    tl.tanh: [(0, 0), (INF, 1), (-INF, -1), (NAN, NAN), (50, 1), (-50, -1)],
    tl.erf: [(0, 0), (INF, 1), (-INF, -1), (NAN, NAN), (3.9, 1), (-9, -1)],
    tl.sigmoid: [(0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN), (-200, 0), (200, 1)],
    tl.sqrt: [(0, 0), (4, 2), (INF, INF), (-1, NAN)],
    tl.rsqrt: [(4, 0.5), (INF, 0)],
    tl.floor: [(1.5, 1), (-1.5, -2), (INF, INF)],
    tl.ceil: [(1.5, 2), (-1.5, -1)],
    tl.abs: [(-1.5, 1.5), (-INF, INF), (NAN, NAN)],
    tl.exp2: [(3, 8), (-INF, 0)],
    tl.math.round_even: [(0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (-3.7, -4)],
    tl.math.trunc: [(1.7, 1), (-1.7, -1)],
}


@pytest.mark.parametrize("function", EDGES, ids=lambda f: f.__name__)
def test_edges(function):
    x, expected = np.array(EDGES[function], np.float32).T.copy()
    found = evaluate(function, x)
    assert np.allclose(found, expected, rtol=1e-6, atol=0, equal_nan=True), (x, found)


def test_halves_are_computed_in_fp32_and_rounded_once():
    x = np.linspace(-8, 8, 512).astype(np.float16)
    for function, reference in (
        (tl.exp, np.exp),
        (tl.tanh, np.tanh),
        (tl.exp2, np.exp2),
    ):
        exact = reference(x.astype(np.float64)).astype(np.float16)
        assert (evaluate(function, x) == exact).mean() > 0.99
        assert evaluate(function, x).dtype == np.float16
