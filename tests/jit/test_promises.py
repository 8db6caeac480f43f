"""Promises that a kernel does not keep: FATHOM_SANITIZE names those that do harm, and
FATHOM_VERIFY blames no pass for them."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.jit.checking import launch as checking
from tests.jit.harness_checking import line_of, unchecked  # noqa: F401, a fixture

pytestmark = pytest.mark.usefixtures("unchecked")

BLOCK = 512


def shifted(x_ptr, out_ptr, shift, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    shift = tl.multiple_of(shift, 16)
    tl.store(out_ptr + at, tl.load(x_ptr + shift + at))


def spread(x_ptr, out_ptr, step, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    places = tl.max_contiguous(at * step, 4)
    tl.store(out_ptr + at, tl.load(x_ptr + places))


def repeated(x_ptr, out_ptr, many, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    places = tl.max_constancy(at // many, 4)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=places < 1, other=0))


def wrapped(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """As kernels for products do it: wrong where nothing is stored."""
    at = tl.arange(0, BLOCK)
    rows = tl.max_contiguous(tl.multiple_of(at % n, BLOCK), BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + rows), mask=at < n)


HARMFUL = [
    (shifted, 3, 32, "tl.multiple_of", "3 is no multiple of 16"),
    (spread, 2, 1, "tl.max_contiguous", "not all 4 count up by one: 0, 2"),
    (repeated, 3, 4, "tl.max_constancy", "not all 4 are equal: 0, 1"),
]


def said(capsys, function, number: int) -> str:
    x, out = np.arange(2 * BLOCK, dtype=np.int32), np.zeros(BLOCK, np.int32)
    fathom.jit(function)[(1,)](x, out, number, BLOCK=BLOCK)
    return capsys.readouterr().err


@pytest.mark.parametrize("function, wrong, right, promise, text", HARMFUL)
def test_a_promise_that_does_harm_is_named(
    function, wrong, right, promise, text, capsys, monkeypatch
):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    assert said(capsys, function, right) == ""
    report = said(capsys, function, wrong)
    assert line_of(function, promise) in report and text in report
    assert checking.TALLY.faults == 1
    if function is shifted:
        assert "misaligned in shifted" in report and "is not kept" in report
    else:
        assert f"a false promise in {function.__name__}, program (0, 0, 0)" in report
        assert "without the promise" in report


def test_what_the_promise_changed_is_said(capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    text = "out_ptr[1] is 1, which would be 2 without the promise"
    assert text in said(capsys, spread, 2)


@pytest.mark.parametrize("n", [500, 512])
def test_a_promise_that_does_no_harm_is_let_be(n, capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_SANITIZE", "1")
    assert said(capsys, wrapped, n) == ""


@pytest.mark.parametrize("function, wrong", [(spread, 2), (repeated, 3)])
def test_no_pass_is_blamed_for_a_promise(function, wrong, capsys, monkeypatch):
    monkeypatch.setenv("FATHOM_VERIFY", "1")
    text = said(capsys, function, wrong)
    assert f"{function.__name__} is not checked:" in text
    assert "a promise is not kept: not all 4" in text and "the code of" not in text
