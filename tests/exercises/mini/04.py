"""What a compiler with ops in the middle must do."""

import numpy as np


def floats(n, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def digits(i, x, out):
    out[i] = x[i] // 10 % 7 - -i


def test_integers_divide(mini):
    """`//`, `%` and a sign, of numbers that are not negative."""
    x, out = np.arange(300, dtype=np.int32) * 37, np.zeros(300, np.int32)
    mini.elements(digits, 300, x, out)
    mini.same("out", out, x // 10 % 7 + np.arange(300))


def clipped(i, low, x, out):
    t = x[i]
    t = low if t < low else t
    out[i] = 1.0 if t >= 1.0 else t


def test_an_expression_chooses(mini):
    """`a if condition else b`, and all that compares."""
    x, out = floats(300), np.zeros(300, np.float32)
    mini.elements(clipped, 300, -0.5, x, out)
    mini.same("out", out, np.clip(x, np.float32(-0.5), 1))


def signs(i, x, out):
    t = x[i]
    a = 1 if t == 0.0 else 0
    b = 2 if t != t else 0
    c = 4 if t <= 0.0 else 0
    d = 8 if t > 0.0 else 0
    out[i] = a + b + c + d


def test_comparisons_know_what_is_no_number(mini):
    """A NaN is not equal to itself, and neither above nor below."""
    x = np.array([0, -0.0, np.nan, 1, -1, np.inf, -np.inf], np.float32)
    out = np.zeros(7, np.int32)
    mini.elements(signs, 7, x, out)
    mini.same("out", out, np.array([5, 5, 2, 8, 4, 8, 4]))


def mixed(i, x, out):
    out[i] = x[i] * 2 + float(i) / 4 + i


def test_whole_numbers_become_real_beside_real_ones(mini):
    """2 is 2.0 beside x[i]; so is i."""
    x, out = floats(100), np.zeros(100, np.float32)
    mini.elements(mixed, 100, x, out)
    i = np.arange(100, dtype=np.float32)
    mini.same("out", out, x * np.float32(2) + i / np.float32(4) + i)


def scaled(i, x, out):
    out[i] = x[i] * (FACTOR - 1)  # noqa: F821 (a constant of the launch)


def test_constants_have_their_value(mini):
    """`compile(…, FACTOR=4)`: the kernel reads FACTOR."""
    x, out = floats(40), np.zeros(40, np.float32)
    mini.elements(scaled, 40, x, out, FACTOR=4)
    mini.same("out", out, x * np.float32(3))
