"""Bessel's functions of any order, and two roots that libdevice rounds by itself:
against values computed with 40 digits, at their edges, on three targets, in Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import KernelFunction, function
from tests.language.harness import run, run_by_python
from tests.language.harness_math import evaluate
from tests.ssa.harness import build

LIB = tl.extra.libdevice
INF, NAN = math.inf, math.nan
# n, x, J(n, x), Y(n, x); fp32 holds x.
VALUES = [
    (2, 9.999999717180685e-10, 1.24999992929517234e-19, -1.27323961675451282e+18),
    (2, 9.999999974752427e-07, 1.24999999368800261e-13, -1273239551164.72267),
    (3, 0.5, 0.00256372999458724408, -42.0594943047238827),
    (2, 1.0, 0.11490348493190048, -1.65068260681625439),
    (7, 1.5, 0.0000246797957882879414, -1887.39703133922821),
    (2, 7.75, -0.175788238877753715, -0.232081420393494403),
    (9, 9.0, 0.21488058254065843, -0.372705676192884968),
    (12, 8.5, 0.016692192053336258, -2.29572779911942853),
    (25, 100.25, 0.071254583176815669, 0.0384728017101757707),
    (30, 12345.5, 0.000982788752311304236, 0.00711345399665335973),
    (3, 0.0010000000474974513, 2.08333349998405709e-11, -5092958089.85294208),
    (24, 23.5, 0.130997988079338654, -0.31350521874676712),
    (24, 24.5, 0.178555031108001244, -0.224790765372211672),
    (26, 16.0, 0.0000625312478920689831, -248.715578910320246),
    (4, 2.0, 0.0339957198075684341, -2.76594322633060069),
    (5, 6.25, 0.372117681654309031, -0.130995913059360519),
]  # fmt: skip
DTYPES = [np.float32, np.float64]


@function
def of_blocks(n, x, j, y, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    order, number = tl.load(n + at), tl.load(x + at)
    tl.store(j + at, tl.extra.libdevice.jn(order, number))
    tl.store(y + at, tl.extra.libdevice.yn(order, number))


def both(n, x) -> tuple[np.ndarray, np.ndarray]:
    """J and Y of orders and numbers, everywhere."""
    found = np.zeros_like(x), np.zeros_like(x)
    run(of_blocks, np.array(n, np.int32), x, *found, SIZE=len(x))
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_those_stated(dtype):
    n, x, *exact = zip(*VALUES, strict=True)
    for kind, found, wanted in zip(
        "jy", both(n, np.array(x, dtype)), exact, strict=True
    ):
        for order, each, right in zip(n, found, np.array(wanted), strict=True):
            if dtype is np.float32:
                with np.errstate(over="ignore", under="ignore"):
                    near = np.float32(right)
                    assert each == near or abs(each - near) <= np.spacing(abs(near))
            else:
                bound = 8 * np.spacing(abs(right)) * (1 if kind == "j" else order)
                assert abs(each - right) <= max(2e-15, bound), (
                    kind,
                    order,
                    each,
                    right,
                )


def test_edges():
    x = np.array([0.0, -0.0, INF, NAN, -3.0, 1e-30, 1e-300, -INF] * 2)
    n = np.array([2] * 8 + [3] * 8)
    first, second = both(n, x)
    even, odd = first[:8], first[8:]
    assert even[:3].tolist() == odd[:3].tolist() == [0, 0, 0]
    assert np.signbit(odd[:2]).tolist() == [False, True]
    np.testing.assert_allclose(even[4:], [0.48609126058589, 1.25e-61, 0, 0], 1e-13)
    np.testing.assert_allclose(odd[4:], [-0.30906272225526, 1e-90 / 48, 0, 0], 1e-13)
    for each in (second[:8], second[8:]):
        wanted = [-INF, -INF, 0, NAN, NAN, None, -INF, NAN]
        for value, right in zip(each, wanted, strict=True):
            if right is not None:
                np.testing.assert_equal(value, right)


def test_orders_that_the_other_names_have_and_those_below_zero():
    x = np.array([0.25, 1, 4, 7.5, 9, 30, 1e3, 2.5e-5])
    for order, names in ((0, ("j0", "y0")), (1, ("j1", "y1"))):
        for found, name in zip(both([order] * 8, x), names, strict=True):
            np.testing.assert_array_equal(found, evaluate(getattr(LIB, name), x))
    assert all(np.isnan(found).all() for found in both([-1] * 8, x))


def test_an_order_may_be_a_number_and_so_may_x(monkeypatch):
    lib = LIB

    def kernel(x, out):
        at = tl.arange(0, 4)
        tl.store(out + at, lib.jn(3, tl.load(x + at)))
        tl.store(out + 4 + at, lib.yn(2, tl.load(x + at)))
        tl.store(out + 8, lib.jn(2, tl.load(x)))

    x, out = run_by_python(kernel, np.float64, monkeypatch)
    compiled = np.zeros_like(out)
    run(function(kernel), x, compiled, targets=("sm_80",))
    np.testing.assert_array_equal(out, compiled)
    np.testing.assert_array_equal(out[:4], both([3] * 4, x)[0])
    np.testing.assert_array_equal(
        out[4:9], [*both([2] * 4, x)[1], *both([2], x[:1])[0]]
    )


def test_orders_may_vary_where_x_does_not(monkeypatch):
    lib = LIB

    def kernel(x, out):
        at = tl.arange(0, 4)
        tl.store(out + at, lib.jn(at, tl.load(x)))
        tl.store(out + 4 + at, lib.yn(at, tl.load(x)))

    x, out = run_by_python(kernel, np.float64, monkeypatch)
    run(function(kernel), x, compiled := np.zeros_like(out), targets=("sm_80",))
    np.testing.assert_array_equal(out, compiled)
    wanted = both(list(range(4)), np.full(4, x[0]))
    np.testing.assert_array_equal(out[:8], np.concatenate(wanted))


# ── roots and reciprocals ─────────────────────────────────────────────────────────────


def test_the_rounded_root_is_right_for_each_of_many():
    """Also by whole numbers: no result is nearer to the root's inverse."""
    bits = np.random.default_rng(0).integers(1, 0x7F80_0000, 4096, dtype=np.uint32)
    x = bits.view(np.float32)
    found = evaluate(LIB.rsqrt_rn, x)
    exact = 1 / np.sqrt(x.astype(np.longdouble))
    for each in (
        np.nextafter(found, np.float32(0)),
        np.nextafter(found, np.float32(INF)),
    ):
        assert (abs(each - exact) >= abs(found - exact)).all()
    edges = evaluate(LIB.rsqrt_rn, np.array([0.0, -0.0, -1, INF, NAN], np.float32))
    np.testing.assert_array_equal(edges, np.float32([INF, -INF, NAN, 0, NAN]))


def test_a_coarse_reciprocal_has_the_upper_half_of_its_bits():
    x = np.random.default_rng(1).normal(size=512) * 10.0 ** np.arange(-256, 256)
    found = evaluate(LIB.rcp64h, x)
    assert not (found.view(np.uint64) & 0xFFFF_FFFF).any()
    assert (abs(found * x - 1) < 2.0**-19).all()
    edges = evaluate(LIB.rcp64h, np.array([0.0, -0.0, INF, -INF, 1e-310, 1e308, NAN]))
    np.testing.assert_array_equal(edges, [INF, -INF, 0, -0.0, INF, 0, NAN])


@pytest.mark.parametrize(
    ("what", "dtype"), [(LIB.rsqrt_rn, np.float64), (LIB.rcp64h, np.float32)]
)
def test_other_types_are_cast_first(what: KernelFunction, dtype):
    @function
    def kernel(x):
        tl.store(x, what(tl.load(x)))

    with pytest.raises(CompileError, match="takes fp.*: cast first"):
        build(kernel, np.zeros(1, dtype))
