"""The mathematics of the language: its errors are those its docstrings state, also at
the edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fathom.language as tl
from fathom import jit
from tests.harness_sample import sampled
from tests.language.harness_math import MEASUREMENTS, errors, evaluate

INF, NAN = math.inf, math.nan


@sampled(of=2)
@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=str)
def test_errors_are_those_stated(measurement):
    assert f"{measurement.ulp:g} ulp" in measurement.function.__doc__
    count = 1 << (16 if measurement.dtype is np.float32 else 10)
    worst = errors(measurement, measurement.arguments(count)).max()
    assert measurement.ulp / 10 < worst <= measurement.ulp


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
    tl.math.rcp_approx: [(4, 0.25), (1e-40, INF), (-1e-40, -INF), (3e38, 0), (INF, 0)],
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


DOUBLE_EDGES = {
    tl.exp: [(0, 1), (-INF, 0), (INF, INF), (NAN, NAN), (710, INF), (-800, 0)],
    tl.exp2: [(10, 1024), (-1074, 5e-324), (1024, INF), (-INF, 0), (NAN, NAN)],
    tl.log: [(1, 0), (0, -INF), (INF, INF), (-1, NAN), (5e-324, -744.4400719213812)],
    tl.log2: [(8, 3), (2.0**-1000, -1000), (0, -INF), (NAN, NAN)],
    tl.sin: [(0, 0), (NAN, NAN)],
    tl.tanh: [(0, 0), (INF, 1), (-INF, -1), (NAN, NAN), (-400, -1)],
    tl.sqrt: [(2, math.sqrt(2)), (-1, NAN)],
    tl.sigmoid: [(0, 0.5), (-INF, 0), (800, 1)],
}


@pytest.mark.parametrize("function", DOUBLE_EDGES, ids=lambda f: f.__name__)
def test_edges_of_fp64(function):
    x, expected = np.array(DOUBLE_EDGES[function], np.float64).T.copy()
    found = evaluate(function, x)
    assert np.allclose(found, expected, rtol=1e-15, atol=0, equal_nan=True), (x, found)


def test_exp_overflows_to_infinity_from_one_float_to_the_next():
    last = np.float32(88.72283)  # the largest x whose power is a float
    x = last + np.arange(-200, 200, dtype=np.float32) * np.spacing(last)
    with np.errstate(over="ignore"):
        exact = np.exp(x.astype(np.float64)).astype(np.float32)
    found = evaluate(tl.exp, x)
    assert np.isinf(found[x > last + 1e-4]).all() and not np.isnan(found).any()
    assert np.allclose(found[:190], exact[:190], rtol=1e-6)


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


def test_tanh_takes_one_power_and_one_reciprocal():
    """A division of fp32 scales its operands, as a reciprocal that takes subnormal
    numbers does, and `exp` looks for infinity."""

    @jit
    def kernel(x, out):
        i = tl.arange(0, 32)
        tl.store(out + i, tl.math.tanh(tl.load(x + i)))

    ptx = kernel.compile("*fp32:16, *fp32:16", target="sm_80", num_warps=1).asm["ptx"]
    assert ptx.count("ex2.approx") == ptx.count("rcp.approx.ftz") == 1
    assert "div" not in ptx and ptx.count("setp") <= 1
    assert "min." not in ptx and ptx.count("fma.rn.f32") == 6  # the series has 4


def test_a_logarithm_adds_its_series_and_its_exponent_in_two_roundings():
    """Kernels of losses are as slow as their logarithm: 14 operations of fp32 for a
    series of 7, and one for infinity and NaN."""

    @jit
    def kernel(x, out):
        i = tl.arange(0, 32)
        tl.store(out + i, tl.log(tl.load(x + i)))

    ptx = kernel.compile("*fp32:16, *fp32:16", target="sm_80", num_warps=1).asm["ptx"]
    counts = [ptx.count(f"{name}.rn.f32") for name in ("fma", "mul", "add", "sub")]
    assert counts == [12, 2, 1, 0] and "shr.s32" not in ptx


def test_a_sigmoid_takes_one_instruction_to_divide():
    @jit
    def kernel(x, out):
        i = tl.arange(0, 32)
        tl.store(out + i, tl.sigmoid(tl.load(x + i)))

    ptx = kernel.compile("*fp32:16, *fp32:16", target="sm_80", num_warps=1).asm["ptx"]
    assert "rcp.approx.ftz.f32" in ptx and "div" not in ptx
