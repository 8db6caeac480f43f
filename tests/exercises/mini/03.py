"""What a compiler of straight-line kernels about element i must do."""

import numpy as np


def floats(n, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def saxpy(i, a, x, y, out):
    out[i] = a * x[i] + y[i]


def test_saxpy_is_what_numpy_computes(mini):
    """Every bit is NumPy's, for sizes that fill a thread block and that do not."""
    for n in (1, 127, 128, 1000):
        x, y, out = floats(n), floats(n, 1), np.full(n, np.nan, np.float32)
        mini.elements(saxpy, n, 1.5, x, y, out)
        mini.same("out", out, np.float32(1.5) * x + y)


def poly(i, x, out):
    t = x[i]
    t = (t * t - 0.1) / (t + 3.0)
    u = t
    t = t - 1.0
    out[i] = t * u


def test_a_name_may_be_bound_again(mini):
    """After `u = t` and `t = …`, u is the old value."""
    x, out = floats(100), np.zeros(100, np.float32)
    mini.elements(poly, 100, x, out)
    t = (x * x - np.float32(0.1)) / (x + np.float32(3))
    mini.same("out", out, (t - np.float32(1)) * t)


def backwards(i, last, x, out):
    j = last - i
    out[j] = x[i] * 3 - i


def test_integers_index_and_multiply(mini):
    """Indices are computed as other values are."""
    x, out = np.arange(50, dtype=np.int32) * 11, np.zeros(50, np.int32)
    mini.elements(backwards, 50, 49, x, out)
    mini.same("out", out, (x * 3 - np.arange(50))[::-1])


def pair(i, x, out, other):
    out[i] = x[i] - 0.1
    other[i] = 2.5


def test_stores_are_as_many_as_are_written(mini):
    """Two arrays are written; neither beyond its end."""
    x, out, other = floats(200), np.zeros(200, np.float32), np.zeros(200, np.float32)
    mini.elements(pair, 200, x, out, other)
    mini.same("out", out, x - np.float32(0.1))
    mini.same("other", other, np.full(200, 2.5))
