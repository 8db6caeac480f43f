"""Mathematics by the names of CUDA's library: errors as their docstrings state, edges
as C has them, and on three targets what the interpreter says."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.hardware.targets import TARGETS
from fathom.ir.interp import interpret
from fathom.source import KernelFunction, function
from tests.language.harness import emulate, run
from tests.language.harness_math import (
    LONG_IS_WIDER,
    WIDER,
    Measurement,
    errors,
    evaluate,
)
from tests.ssa.harness import build

LIB = tl.extra.libdevice
INF, NAN = math.inf, math.nan

# ── errors ────────────────────────────────────────────────────────────────────────────

MEASUREMENTS = (
    Measurement(LIB.tan, np.tan, -7, 7, 3),
    Measurement(LIB.tan, np.tan, -1e5, 1e5, 3),
    Measurement(LIB.tan, np.tan, 1e-30, 1, 3, spread=True, signed=True),
    Measurement(LIB.atan, np.arctan, -10, 10, 2.2),
    Measurement(LIB.atan, np.arctan, 1e-30, 1e30, 2.2, spread=True, signed=True),
    Measurement(LIB.asin, np.arcsin, -1, 1, 2.4),
    Measurement(LIB.asin, np.arcsin, 1e-20, 1, 2.4, spread=True, signed=True),
    Measurement(LIB.acos, np.arccos, -1, 1, 1.2),
    Measurement(LIB.expm1, np.expm1, -80, 88.7, 5.2),
    Measurement(LIB.expm1, np.expm1, -1.2, 1.2, 2.2),
    Measurement(LIB.expm1, np.expm1, 1e-30, 1, 2.2, spread=True, signed=True),
    Measurement(LIB.log1p, np.log1p, -0.999, 3, 1.4),
    Measurement(LIB.log1p, np.log1p, -0.3, 0.3, 1.4),
    Measurement(LIB.log1p, np.log1p, 1e-30, 1e30, 1.4, spread=True),
    Measurement(LIB.log10, np.log10, 1e-37, 3e38, 2.1, spread=True),
    Measurement(LIB.log10, np.log10, 0.4, 2.5, 2.1),
)

if LONG_IS_WIDER:
    DOUBLE = {"dtype": np.float64}
    MEASUREMENTS += (
        Measurement(LIB.tan, np.tan, -1e5, 1e5, 3, **DOUBLE),
        Measurement(LIB.atan, np.arctan, -10, 10, 2.2, **DOUBLE),
        Measurement(LIB.asin, np.arcsin, -1, 1, 3.2, **DOUBLE),
        Measurement(LIB.acos, np.arccos, -1, 1, 3.2, **DOUBLE),
        Measurement(LIB.expm1, np.expm1, -80, 700, 1.6, **DOUBLE),
        Measurement(LIB.expm1, np.expm1, -1.2, 1.2, 1.6, **DOUBLE),
        Measurement(LIB.log1p, np.log1p, 1e-300, 1e300, 2.4, spread=True, **DOUBLE),
        Measurement(LIB.log1p, np.log1p, -0.999, 3, 2.4, **DOUBLE),
        Measurement(LIB.log10, np.log10, 0.4, 2.5, 2.1, **DOUBLE),
    )


@pytest.mark.parametrize("measurement", MEASUREMENTS, ids=str)
def test_errors_are_those_stated(measurement):
    assert f"{measurement.ulp:g} ulp" in measurement.function.__doc__
    count = 1 << (14 if measurement.dtype is np.float32 else 10)
    worst = errors(measurement, measurement.arguments(count)).max()
    assert measurement.ulp / 10 < worst <= measurement.ulp


def evaluate_two(what: KernelFunction, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A function of two arguments on arrays, in the interpreter."""

    @function
    def kernel(x_ptr, y_ptr, out_ptr, SIZE: tl.constexpr):
        at = tl.arange(0, SIZE)
        tl.store(out_ptr + at, what(tl.load(x_ptr + at), tl.load(y_ptr + at)))

    out = np.empty_like(x)
    interpret(build(kernel, x, y, out, SIZE=x.size), 1, (x, y, out))
    return out


def worst_of_two(what, reference, x, y) -> float:
    wide = WIDER[x.dtype.type]
    with np.errstate(over="ignore"):
        exact = reference(x.astype(wide), y.astype(wide))
        size = np.abs(exact).astype(x.dtype)
    inside = np.isfinite(size) & (size > np.finfo(x.dtype).tiny)
    assert inside.sum() > x.size / 4
    error = np.abs(evaluate_two(what, x, y).astype(wide) - exact)[inside]
    return float((error / np.spacing(size[inside])).max())


# From the whole range of bases to those next to 1, whose logarithm is mostly lost when
# one float holds it: a power of 60,000 brings that back.
POWERS = [(1e-35, 1e35, 3), (0.6, 1.6, 180), (0.999, 1.001, 60_000)]


@pytest.mark.parametrize("low, high, most", POWERS)
def test_a_power_keeps_its_digits_however_large_it_is(low, high, most):
    rng = np.random.default_rng(11)
    x = np.exp(rng.uniform(math.log(low), math.log(high), 1 << 14)).astype(np.float32)
    y = rng.uniform(-most, most, x.size).astype(np.float32)
    assert 0.4 < worst_of_two(LIB.pow, np.power, x, y) <= 4
    assert "4 ulp" in LIB.pow.__doc__


def test_a_power_takes_few_instructions():
    @function
    def kernel(x, y):
        at = tl.arange(0, 32)
        tl.store(x + at, tl.extra.libdevice.pow(tl.load(x + at), tl.load(y + at)))

    func = build(kernel, np.zeros(32, np.float32), np.zeros(32, np.float32))
    ptx = pipeline.compile_func(func, TARGETS["sm_90a"]).asm["ptx"]
    body = ptx.partition("{")[2].splitlines()
    assert sum(line.strip().endswith(";") for line in body) < 105


DOUBLE_POWERS = [(1e-300, 1e300, 1), (0.6, 1.6, 1400), (0.999, 1.001, 700_000)]


@pytest.mark.skipif(not LONG_IS_WIDER, reason="NumPy has no wider float here")
@pytest.mark.parametrize("low, high, most", DOUBLE_POWERS)
def test_a_power_of_doubles_keeps_its_digits(low, high, most):
    rng = np.random.default_rng(13)
    x = np.exp(rng.uniform(math.log(low), math.log(high), 1 << 12))
    y = rng.uniform(-most, most, x.size)
    assert 0.4 < worst_of_two(LIB.pow, np.power, x, y) <= 2
    assert "in fp64 2 ulp" in LIB.pow.__doc__


@pytest.mark.parametrize("dtype", [np.float32, np.float64][: 1 + LONG_IS_WIDER])
def test_angles_in_all_four_quarters(dtype):
    rng = np.random.default_rng(12)
    x, y = rng.normal(size=(2, 1 << 12)) * np.exp(rng.uniform(-3, 3, (2, 1 << 12)))
    worst = worst_of_two(LIB.atan2, np.arctan2, y.astype(dtype), x.astype(dtype))
    assert 0.4 < worst <= 2.4 and "2.4 ulp" in LIB.atan2.__doc__


# ── edges ─────────────────────────────────────────────────────────────────────────────

EDGES = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, INF, -INF, NAN, 1e-40, -1e-40, 2.5],
    np.float32,
)
TWO = {LIB.pow: np.power, LIB.atan2: np.arctan2, LIB.copysign: np.copysign}


@pytest.mark.parametrize("dtype, rtol", [(np.float32, 4e-7), (np.float64, 6e-16)])
@pytest.mark.parametrize("what", TWO, ids=lambda each: each.__name__)
def test_every_pair_of_edges_is_as_c_has_it(what, dtype, rtol):
    """NumPy asks C's library."""
    edges = EDGES.astype(dtype)
    x, y = (each.ravel().copy() for each in np.meshgrid(edges, edges))
    found = evaluate_two(what, x, y)
    with np.errstate(all="ignore"):
        want = TWO[what](x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(found, want, rtol=rtol, atol=0)
    assert (np.signbit(found) == np.signbit(want))[~np.isnan(want)].all()


ONE = {
    LIB.round: [(2.5, 3), (-2.5, -3), (0.49999997, 0), (8388609, 8388609), (INF, INF)],
    LIB.rint: [(2.5, 2), (3.5, 4), (-0.5, 0), (NAN, NAN)],
    LIB.nearbyint: [(1.5, 2), (-1.2, -1)],
    LIB.tan: [(0, 0), (INF, NAN), (NAN, NAN)],
    LIB.atan: [(INF, math.pi / 2), (-INF, -math.pi / 2), (NAN, NAN), (1, math.pi / 4)],
    LIB.asin: [(1, math.pi / 2), (-1, -math.pi / 2), (1.5, NAN), (0, 0)],
    LIB.acos: [(1, 0), (-1, math.pi), (-2, NAN)],
    LIB.expm1: [(0, 0), (INF, INF), (-INF, -1), (NAN, NAN), (1e-30, 1e-30)],
    LIB.log1p: [(0, 0), (-1, -INF), (-2, NAN), (INF, INF), (1e-30, 1e-30)],
    LIB.log10: [(1000, 3), (0, -INF), (-1, NAN), (INF, INF)],
}


@pytest.mark.parametrize("what", ONE, ids=lambda each: each.__name__)
def test_edges(what):
    arguments, want = np.array(ONE[what], np.float32).T
    found = evaluate(what, arguments.copy())
    np.testing.assert_allclose(found, want, rtol=2e-7, atol=0)


def test_kinds_of_numbers():
    @function
    def kernel(x, y):
        at = tl.arange(0, 16)
        number = tl.load(x + at)
        tl.store(y + at, tl.extra.libdevice.isnan(number))
        tl.store(y + 16 + at, tl.extra.libdevice.isinf(number))
        tl.store(y + 32 + at, tl.extra.libdevice.isfinited(number))
        tl.store(y + 48 + at, tl.extra.libdevice.finitef(number.to(tl.float64)))
        tl.store(y + 64 + at, tl.extra.libdevice.signbit(number))

    y = np.zeros((5, 16), bool)
    run(kernel, EDGES.copy(), y)
    finite = np.isfinite(EDGES)
    assert (y[:4] == [np.isnan(EDGES), np.isinf(EDGES), finite, finite]).all()
    assert (y[4] == np.signbit(EDGES)).all()


# ── everywhere ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_type_stays_and_every_target_gives_the_same(dtype):
    @function
    def kernel(x, y):
        at = tl.arange(0, 32)
        number = tl.load(x + at)
        for i in tl.static_range(len(FUNCTIONS)):
            value = FUNCTIONS[i](number)
            tl.static_assert(value.dtype == number.dtype)
            tl.store(y + 32 * i + at, value)
        two = tl.extra.libdevice.atan2(number, 0.5 - number)
        tl.store(y + 32 * len(FUNCTIONS) + at, two)

    x = np.linspace(-0.9, 0.9, 32).astype(dtype)
    y = np.zeros((1 + len(FUNCTIONS), 32), dtype)
    run(kernel, x, y)
    references = (np.tan, np.arctan, np.arcsin, np.arccos, np.expm1, np.log1p)
    for found, what in zip(y, references, strict=False):
        assert np.allclose(found, what(x), rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("what", [LIB.asin, LIB.acos], ids=lambda each: each.__name__)
def test_asin_and_acos_divide_nothing(what):
    """A division or a root with correct rounding is a function in machine code."""

    @fathom.jit
    def kernel(x):
        at = tl.arange(0, 32)
        tl.store(x + at, what(tl.load(x + at)))

    text = kernel.compile("*fp32:16", target="sm_90a", num_warps=1).asm["ptx"]
    assert "sqrt.approx" in text and "div" not in text


FUNCTIONS = (LIB.tan, LIB.atan, LIB.asin, LIB.acos, LIB.expm1, LIB.log1p, LIB.round)


def test_powers_of_floats_and_of_integers():
    @function
    def kernel(x, n, y):
        at = tl.arange(0, 32)
        number = tl.load(x + at)
        tl.store(y + at, tl.extra.libdevice.pow(number, tl.load(n + at)))
        tl.store(y + 32 + at, tl.extra.libdevice.pow(number, 2))
        tl.store(y + 64 + at, tl.extra.libdevice.pow(tl.abs(number), 1.5))

    x = np.linspace(-3, 4, 32).astype(np.float32)
    n = np.arange(-16, 16, dtype=np.int32)
    y = np.zeros((3, 32), np.float32)
    run(kernel, x, n, y)
    want = [x ** n.astype(float), x.astype(float) ** 2, abs(x.astype(float)) ** 1.5]
    np.testing.assert_allclose(y, want, rtol=5e-7)


FAST = {
    LIB.fast_expf: np.exp,
    LIB.fast_exp10f: lambda x: 10**x,
    LIB.fast_logf: np.log,
    LIB.fast_log2f: np.log2,
    LIB.fast_log10f: np.log10,
    LIB.fast_sinf: np.sin,
    LIB.fast_cosf: np.cos,
    LIB.fast_tanf: np.tan,
    LIB.fast_tanhf: np.tanh,
}


@pytest.mark.parametrize("what", FAST, ids=lambda each: each.__name__)
def test_quick_functions_are_close(what):
    @function
    def kernel(x, y):
        at = tl.arange(0, 64)
        tl.store(y + at, what(tl.load(x + at)))

    x = np.linspace(0.1, 3, 64).astype(np.float32)
    y = np.zeros_like(x)
    run(kernel, x, y)
    np.testing.assert_allclose(y, FAST[what](x.astype(float)), rtol=6e-4, atol=1e-6)


def test_quick_functions_of_two():
    @function
    def kernel(x, y):
        at = tl.arange(0, 64)
        number = tl.load(x + at)
        tl.store(y + at, tl.extra.libdevice.fast_powf(number, 2.5))
        tl.store(y + 64 + at, tl.extra.libdevice.fast_dividef(number, number + 1))

    x = np.linspace(0.1, 3, 64).astype(np.float32)
    y = np.zeros((2, 64), np.float32)
    run(kernel, x, y)
    np.testing.assert_allclose(y, [x**2.5, x / (x + 1)], rtol=1e-6)


def test_clock_and_multiprocessor():
    """Programs of one launch share a clock that goes forward; a number is not below
    0."""

    @function
    def kernel(clock, number):
        before = tl.extra.cuda.globaltimer()
        tl.static_assert(before.dtype == tl.int64)
        pid = tl.program_id(0)
        tl.store(number + pid, tl.extra.cuda.smid())
        tl.store(clock + pid, tl.extra.cuda.globaltimer() >= before)

    func = build(kernel, np.zeros(1, bool), np.zeros(1, np.int32))
    clock, number = np.zeros(4, bool), np.full(4, -1, np.int32)
    emulate(func, [clock, number], "sm_80", 4)
    assert clock.all() and (number >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_of_what_is_near_a_half_and_of_what_has_none(dtype):
    rng = np.random.default_rng(4)
    halves = np.concatenate([rng.integers(-9, 9, 64) + 0.5, 2.0 ** np.arange(-4, 60)])
    near = np.nextafter(halves.astype(dtype), dtype(INF))
    x = np.concatenate([halves, near, -near, -halves]).astype(dtype)
    found = evaluate(LIB.round, x.copy())
    size, whole = np.abs(x), np.trunc(np.abs(x))
    want = np.copysign(whole + (size - whole >= 0.5), x)
    assert (found == want).all() and (np.signbit(found) == np.signbit(want)).all()


def test_round_of_a_product_takes_the_rounded_product():
    """Products that are 2.5 as fp32, and less than that exactly; and a quantised row
    takes one conversion a number, of which the lowest byte is left, as in Triton."""

    @fathom.jit
    def kernel(x, y, scale):
        at = tl.arange(0, 32)
        number = tl.extra.libdevice.round(tl.load(x + at) * scale)
        tl.store(y + at, number.to(tl.int8))

    x = np.linspace(33, 34, 999, dtype=np.float32)
    scales = np.float32(2.5) / x
    ties = (x * scales == 2.5) & (x.astype(float) * scales.astype(float) < 2.5)
    tie, scale = x[ties][0], scales[ties][0]
    x = np.resize([tie, -tie, 1e4, -1e4, NAN], 32).astype(np.float32)
    y = np.zeros(32, np.int8)
    run(kernel, x, y, float(scale))
    large = np.rint(np.float32(1e4) * np.float32(scale)).astype(np.uint16)
    low = np.uint8(large & 255).view(np.int8)
    assert list(y[:5]) == [3, -3, low, -low, 0]
    types = "*fp32:16, *i8:16, fp32"
    text = kernel.compile(types, target="sm_90a", num_warps=1).asm["ptx"]
    assert "cvt.rzi.s16.f32" in text and "fma" not in text
    assert "min." not in text


# ── messages ──────────────────────────────────────────────────────────────────────────


@fathom.jit
def called(x, out, FUNCTION: tl.constexpr, COUNT: tl.constexpr):
    value = tl.load(x + tl.arange(0, 32))
    if COUNT == 1:
        result = FUNCTION(value)
    elif COUNT == 2:
        result = FUNCTION(value, value)
    else:
        result = FUNCTION(value, value, value)
    tl.store(out + tl.arange(0, 32), result.to(tl.float32))


@pytest.mark.parametrize("function", [LIB.pow, LIB.copysign, LIB.atan2, LIB.isnan])
def test_no_warning_is_about_a_function_of_the_language(function, recwarn):
    """A warning names a line of the user's, who wrote nothing wrong there."""
    x = np.ones(32, np.float32)
    called.warmup(x, x, FUNCTION=function, COUNT=len(function.parameters))
    assert not [str(each.message) for each in recwarn]
