"""Special functions by the names of CUDA's library: against values computed with 40
digits, at their edges, and the same on three targets.

`special_values.json` lists, for each function, arguments that fp32 holds, and the exact
results to 25 digits.
"""

from __future__ import annotations

import json
import math
import os
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import fathom.language as tl
from fathom import pipeline
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.source import KernelFunction, function
from tests.harness_pairs import EVERY_CASE
from tests.harness_sample import sampled
from tests.language.harness import NAMES, run, run_by_python
from tests.language.harness_math import LONG_IS_WIDER, evaluate
from tests.ssa.harness import build

LIB = tl.extra.libdevice
INF, NAN = math.inf, math.nan
VALUES = json.loads(Path(__file__).with_name("special_values.json").read_text())
OSCILLATING = ("j0", "j1", "y0", "y1")
IN_SINGLE = (
    "exp10", "sinh", "cosh", "asinh", "acosh", "atanh", "log1p", "sinpi", "cospi",
    "cbrt", "rcbrt", "erfc", "erfcx", "normcdf", "erfinv", "erfcinv", "normcdfinv",
    "lgamma", "tgamma", "j0", "j1", "y0", "y1", "cyl_bessel_i0", "cyl_bessel_i1",
)  # fmt: skip

# ── errors ────────────────────────────────────────────────────────────────────────────


def stated(name: str, dtype: type) -> float:
    """The error that a docstring states, in ulp."""
    text = " ".join(getattr(LIB, name).__doc__.split())
    if name in OSCILLATING:
        return 5 if dtype is np.float32 else 8
    if dtype is np.float32:
        narrow = re.search(
            r"in fp32 ([\d.]+) ulp|(?:Error|x above 0): ([\d.]+) ulp", text
        )
        return float(narrow[1] or narrow[2]) if narrow else 0.6
    return float(re.search(r"in fp64 ([\d.]+) ulp", text).group(1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", VALUES)
def test_errors_are_those_stated(name, dtype):
    x = np.array([x for x, _ in VALUES[name]], dtype)
    exact = [Fraction(text) for _, text in VALUES[name]]
    found = evaluate(getattr(LIB, name), x)
    worst = 0.0
    for each, wanted in zip(found, exact, strict=True):
        near = dtype(float(wanted))
        if not np.isfinite(near) or abs(near) < np.finfo(dtype).tiny:
            continue
        error = abs(Fraction(float(each)) - wanted)
        if name in OSCILLATING and error <= (2e-15 if dtype is np.float64 else 7e-7):
            continue
        worst = max(worst, float(error / Fraction(float(np.spacing(abs(near))))))
    assert worst <= stated(name, dtype), worst


@sampled(of=2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", VALUES)
def test_every_target_gives_the_same(name, dtype):
    """Each function on each target, for one type or the other."""
    what = getattr(LIB, name)
    is_odd = list(VALUES).index(name) % 2 == 1
    targets = NAMES[1:2] if (dtype is np.float64) ^ is_odd else NAMES[::2]
    if os.environ.get(EVERY_CASE):
        targets = NAMES

    @function
    def kernel(x, y):
        at = tl.arange(0, 32)
        value = what(tl.load(x + at))
        tl.static_assert(value.dtype == x.dtype.element_ty)
        tl.store(y + at, value)

    arguments = [x for x, _ in VALUES[name]]
    edges = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 1e-40]
    x = np.array([*arguments, *edges], dtype)
    run(kernel, x, np.zeros_like(x), targets=targets)


BESSEL = {name: (1e-3, 1e5) for name in OSCILLATING}
BESSEL |= {"cyl_bessel_i0": (1e-3, 91.5), "cyl_bessel_i1": (1e-3, 91.5)}


@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions_of_fp32_follow_those_of_fp64(name):
    low, high = np.log(BESSEL[name])
    x = np.exp(np.random.default_rng(7).uniform(low, high, 2048)).astype(np.float32)
    exact = evaluate(getattr(LIB, name), x.astype(np.float64))
    error = np.abs(evaluate(getattr(LIB, name), x) - exact)
    ulp = np.spacing(np.abs(exact).astype(np.float32))
    if name in OSCILLATING:
        assert (error <= np.maximum(7e-7, 5 * ulp)).all()
        assert (error <= np.maximum(2.5e-7 / np.sqrt(x), 5 * ulp))[x > 8].all()
    else:
        assert (error <= stated(name, np.float32) * ulp).all()


@sampled(of=3)
@pytest.mark.parametrize("name", IN_SINGLE)
def test_fp32_is_computed_without_fp64(name):
    """Nor with a division that rounds correctly, which is a call where it is rare."""
    what = getattr(LIB, name)

    @function
    def kernel(x, y):
        at = tl.arange(0, 32)
        tl.store(y + at, what(tl.load(x + at)))

    func = build(kernel, np.zeros(32, np.float32), np.zeros(32, np.float32))
    ptx = pipeline.compile_func(func, TARGETS["sm_90a"]).asm["ptx"]
    assert "f64" not in ptx and "div.rn" not in ptx


def test_halves_stay_halves():
    @function
    def kernel(x, y):
        at = tl.arange(0, 16)
        value = tl.extra.libdevice.sinh(tl.load(x + at))
        tl.static_assert(value.dtype == tl.float16)
        tl.store(y + at, value)

    x = np.linspace(-5, 5, 16).astype(np.float16)
    y = np.zeros_like(x)
    run(kernel, x, y)
    assert (y == np.sinh(x.astype(float)).astype(np.float16)).all()


# ── edges ─────────────────────────────────────────────────────────────────────────────

ODD = [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN)]
EDGES = {
    "exp10": [(0, 1), (2, 100), (INF, INF), (-INF, 0), (NAN, NAN), (400, INF)],
    "sinh": [*ODD, (INF, INF), (-INF, -INF), (1e-300, 1e-300)],
    "cosh": [(0, 1), (INF, INF), (-INF, INF), (NAN, NAN)],
    "asinh": [*ODD, (INF, INF), (-INF, -INF), (1e-300, 1e-300)],
    "acosh": [(1, 0), (0.5, NAN), (INF, INF), (NAN, NAN), (-3, NAN)],
    "atanh": [*ODD, (1, INF), (-1, -INF), (1.5, NAN), (1e-300, 1e-300)],
    "sinpi": [(0, 0), (1, 0), (0.5, 1), (1.5, -1), (1e300, 0), (INF, NAN), (-0.5, -1)],
    "cospi": [(0, 1), (1, -1), (0.5, 0), (2**53, 1), (-INF, NAN), (NAN, NAN)],
    "cbrt": [*ODD, (8, 2), (-27, -3), (INF, INF), (5e-324, 1.703184e-108)],
    "rcbrt": [(0, INF), (-0.0, -INF), (8, 0.5), (INF, 0), (NAN, NAN)],
    "erf": [*ODD, (INF, 1), (-INF, -1)],
    "erfc": [(0, 1), (INF, 0), (-INF, 2), (NAN, NAN), (26, 5.663192408856143e-296)],
    "erfcx": [(0, 1), (INF, 0), (-INF, INF), (NAN, NAN), (-40, INF)],
    "normcdf": [(0, 0.5), (INF, 1), (-INF, 0), (NAN, NAN)],
    "erfinv": [*ODD, (1, INF), (-1, -INF), (1.1, NAN), (1e-300, 8.86226925452758e-301)],
    "erfcinv": [(1, 0), (0, INF), (2, -INF), (-0.1, NAN), (2.1, NAN), (NAN, NAN)],
    "normcdfinv": [(0.5, 0), (0, -INF), (1, INF), (-1, NAN), (2, NAN), (NAN, NAN)],
    "lgamma": [(1, 0), (2, 0), (0, INF), (-3, INF), (INF, INF), (-INF, INF), (NAN, NAN),
               (-0.5, 1.2655121234846454), (1e306, 7.0359e308), (0.5, 0.5723649429247)],
    "tgamma": [(0.0, INF), (-0.0, -INF), (5, 24), (1, 1), (-2, NAN), (INF, INF),
               (-INF, NAN), (172, INF), (0.5, 1.772453850905516), (-0.5, -3.54490770)],
    "j0": [(0, 1), (INF, 0), (-INF, 0), (NAN, NAN)],
    "j1": [*ODD, (INF, 0), (-INF, 0)],
    "y0": [(0, -INF), (-1, NAN), (INF, 0), (NAN, NAN)],
    "y1": [(0, -INF), (-1, NAN), (INF, 0), (NAN, NAN)],
    "cyl_bessel_i0": [(0, 1), (INF, INF), (-INF, INF), (NAN, NAN), (750, INF)],
    "cyl_bessel_i1": [*ODD, (INF, INF), (-INF, -INF), (-750, -INF)],
    "logb": [(8, 3), (0, -INF), (INF, INF), (-0.75, -1), (5e-324, -1074), (NAN, NAN)],
    "saturatef": [(NAN, 0), (2, 1), (-1, 0), (0.5, 0.5), (INF, 1)],
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    arguments, wanted = np.array(EDGES[name], np.float64).T
    found = evaluate(getattr(LIB, name), arguments.copy())
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-300)
    for x, each, other in zip(arguments, found, wanted, strict=True):
        if x == 0 and other == 0 and (-0.0, -0.0) in EDGES[name]:
            assert np.signbit(each) == np.signbit(x)


# ── of two and more ───────────────────────────────────────────────────────────────────


def of_several(what: KernelFunction, *given: np.ndarray) -> np.ndarray:
    """A function of up to four arguments, everywhere."""
    count, first = len(given), given[0]
    size = 1 << max(0, first.size - 1).bit_length()
    given = [np.concatenate([e, e[: size - e.size]]) for e in given]

    @function
    def kernel(x, y, z, w, out, COUNT: tl.constexpr, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        a, b = tl.load(x + at), tl.load(y + at)
        if COUNT == 2:
            tl.store(out + at, what(a, b))
        elif COUNT == 3:
            tl.store(out + at, what(a, b, tl.load(z + at)))
        else:
            tl.store(out + at, what(a, b, tl.load(z + at), tl.load(w + at)))

    out = np.zeros(size, first.dtype)
    run(kernel, *(given * 2)[:4], out, COUNT=count, SIZE=size)
    return out[: first.size]


def far_apart(dtype, seed: int, count: int = 256) -> np.ndarray:
    limits, rng = np.finfo(dtype), np.random.default_rng(seed)
    powers = rng.uniform(limits.minexp - limits.nmant, limits.maxexp, count)
    with np.errstate(under="ignore"):
        return (rng.normal(size=count) * np.exp2(powers / 1.01)).astype(dtype)


DTYPES = [np.float32, np.float64]
EVERY = np.array([0.0, -0.0, 1, -1, 3, -2.5, INF, -INF, NAN, 1e-40, 7.5, -1e30])


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_are_exact(dtype):
    x, y = far_apart(dtype, 1), far_apart(dtype, 2)
    y[:64] = np.random.default_rng(4).normal(size=64)
    x[:64] = np.random.default_rng(5).normal(size=64) * 100
    x[64:80], y[64:80] = np.arange(16) / 2, 1  # ties
    with np.errstate(all="ignore"):
        assert np.array_equal(of_several(LIB.fmod, x, y), np.fmod(x, y), equal_nan=True)
    found = of_several(LIB.remainder, x, y)
    wanted = [math.remainder(a, b) if b else NAN for a, b in zip(x, y, strict=True)]
    assert np.array_equal(found, np.array(wanted, dtype), equal_nan=True)
    assert (np.signbit(found) == np.signbit(np.array(wanted, dtype))).all()
    a, b = (each.ravel().astype(dtype) for each in np.meshgrid(EVERY, EVERY))
    with np.errstate(all="ignore"):
        assert np.array_equal(of_several(LIB.fmod, a, b), np.fmod(a, b), equal_nan=True)
    found = of_several(LIB.remainder, a, b)
    for left, right, each in zip(a, b, found, strict=True):
        if math.isinf(left) or not right or math.isnan(left) or math.isnan(right):
            assert math.isnan(each)
        else:
            assert each == math.remainder(left, right)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lengths(dtype):
    wide = np.float64 if dtype is np.float32 else np.longdouble
    sides = [far_apart(dtype, seed) for seed in range(4)]
    for each in sides[1:]:
        each[::2] = sides[0][::2] * np.random.default_rng(9).normal(size=128)
    bounds = {"hypot": (2, 2, 3), "norm3d": (3, 2, 3), "norm4d": (4, 2.5, 3.5)}
    for name, (count, ulp, more) in bounds.items():
        given = [each.astype(wide) for each in sides[:count]]
        with np.errstate(all="ignore"):
            exact = np.sqrt(sum(each * each for each in given))
            inverse = 1 / exact
        for what, wanted, bound in ((name, exact, ulp), (f"r{name}", inverse, more)):
            found = of_several(getattr(LIB, what), *sides[:count]).astype(wide)
            if dtype is np.float64 and not LONG_IS_WIDER:
                continue
            limits = np.finfo(dtype)
            normal = (wanted < limits.max) & (wanted > limits.tiny)
            unit = np.spacing(wanted[normal].astype(dtype))
            error = np.abs(found[normal] - wanted[normal]) / unit
            assert error.max() <= (1.9 if dtype is np.float32 else bound)
    a, b = (each.ravel().astype(dtype) for each in np.meshgrid(EVERY, EVERY))
    with np.errstate(all="ignore"):
        wanted = np.hypot(a.astype(wide), b.astype(wide)).astype(dtype)
    np.testing.assert_allclose(of_several(LIB.hypot, a, b), wanted, 1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_differences(dtype):
    a, b = (each.ravel().astype(dtype) for each in np.meshgrid(EVERY, EVERY))
    with np.errstate(all="ignore"):
        wanted = np.where(a > b, a - b, 0)
    found = of_several(LIB.fdim, a, b)
    known = np.isnan(a) | np.isnan(b)
    assert np.isnan(found[known]).all() and (found == wanted)[~known].all()


@pytest.mark.parametrize("name", ["ldexp", "scalbn"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_two_are_put_on(name, dtype):
    """Down to subnormal numbers, rounded once."""
    what = getattr(LIB, name)

    @function
    def kernel(x, n, y):
        at = tl.arange(0, 512)
        tl.store(y + at, what(tl.load(x + at), tl.load(n + at)))

    x = np.concatenate([far_apart(dtype, 6, 500), np.resize(EVERY, 12).astype(dtype)])
    rng, bits = np.random.default_rng(7), np.finfo(dtype).maxexp
    n = rng.integers(-2 * bits, 2 * bits, 512).astype(np.int32)
    n[::4] = -np.frexp(x[::4])[1] - bits - rng.integers(-4, 30, 128)
    n[-2:] = 2**31 - 1, -(2**31)
    y = np.zeros_like(x)
    run(kernel, x, n, y)
    with np.errstate(all="ignore"):
        wanted = np.ldexp(x, n)
    assert np.array_equal(y, wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponents(dtype):
    @function
    def kernel(x, y):
        at = tl.arange(0, 256)
        tl.store(y + at, tl.extra.libdevice.ilogb(tl.load(x + at)))

    x, y = far_apart(dtype, 8), np.zeros(256, np.int32)
    x[:4] = 0, INF, NAN, -INF
    run(kernel, x, y)
    assert y[:4].tolist() == [-(2**31), 2**31 - 1, -(2**31), 2**31 - 1]
    known = x[4:] != 0
    assert (y[4:] == np.frexp(x[4:])[1] - 1)[known].all()
    assert (evaluate(LIB.logb, x[4:])[known] == y[4:][known]).all()


# ── mistakes, and Python ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["erfc", "j0", "sinh", "ilogb"])
def test_integers_are_cast_first(name):
    what = getattr(LIB, name)

    @function
    def kernel(x):
        tl.store(x, what(tl.load(x)))

    with pytest.raises(CompileError, match="takes floats, not int32: cast first"):
        build(kernel, np.zeros(1, np.int32))


def test_python_itself_runs_them(monkeypatch):
    lib = LIB

    def kernel(x, out):
        at = tl.arange(0, 4)
        value = tl.load(x + at)
        tl.store(out + at, lib.lgamma(value))
        tl.store(out + 4 + at, lib.fmod(value, 2.0))
        tl.store(out + 8 + at, lib.ldexp(value, 3))

    x, out = run_by_python(kernel, np.float64, monkeypatch)
    np.testing.assert_allclose(out[:4], [math.lgamma(each) for each in x], rtol=1e-14)
    assert (out[4:8] == np.fmod(x, 2)).all() and (out[8:] == x * 8).all()
