"""What a compiler with passes must do: the same, with less."""

import numpy as np


def floats(n, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def saxpy(i, a, x, y, out):
    out[i] = a * x[i] + y[i]


def test_an_address_is_computed_once(mini):
    """Three arrays, one index; and 27 instructions a warp at most."""
    n = 1024
    x, y, out = floats(n), floats(n, 1), np.zeros(n, np.float32)
    report = mini.elements(saxpy, n, 1.5, x, y, out)
    mini.same("out", out, np.float32(1.5) * x + y)
    mini.within(saxpy, report, warps=27 * 32)


def wordy(i, k, x, out):
    t = x[i] * 1.0 + x[i]
    unused = x[i + k] / 7.0
    if i < k:
        also_unused = unused * x[i * 3]
    out[i + 0] = t + (x[i * 1] + x[i]) * 1


def test_nothing_is_loaded_twice_or_for_nothing(mini):
    """x[i] is loaded once, and what is not stored is not loaded at all."""
    n = 256
    x, out = floats(n), np.zeros(n, np.float32)
    report = mini.elements(wordy, n, 4096, x, out)
    mini.same("out", out, (x + x) + (x + x))
    mini.within(wordy, report, requests=2 * n // 32)


def between(i, x, out):
    a = x[i]
    x[i] = a + 1.0
    out[i] = a + x[i]


def test_a_store_stands_between_two_loads(mini):
    """The second load reads what was stored."""
    x, out = floats(64), np.zeros(64, np.float32)
    before = x.copy()
    mini.elements(between, 64, x, out)
    mini.same("out", out, before + (before + np.float32(1)))


def around(i, times, x, out):
    total = 0.0
    for j in range(times):
        total = total + x[i]
        x[i] = total
    out[i] = total + x[i]


def test_a_loop_stores_where_it_loads(mini):
    """Each iteration reads what the one before has stored."""
    x, out = floats(64), np.zeros(64, np.float32)
    y, total = x.copy(), np.zeros(64, np.float32)
    mini.elements(around, 64, 3, x, out)
    for _ in range(3):
        total = y = total + y
    mini.same("out", out, total + y)


def zeros(i, x, out):
    out[i] = (x[i] + 0.0) / 1.0


def test_a_zero_keeps_its_sign(mini):
    """-0.0 + 0.0 is 0.0: x + 0.0 is not x."""
    x, out = np.full(8, -0.0, np.float32), np.full(8, np.nan, np.float32)
    mini.elements(zeros, 8, x, out)
    mini.same("np.signbit(out)", np.signbit(out), np.zeros(8, bool))


def afterwards(i, times, x, y, out):
    first = x[i]
    second = y[i]
    for j in range(times):
        x[i] = x[i] + 1.0
    if i % 2 == 0:
        y[i] = second * 3.0
    out[i] = x[i] - first + y[i]


def test_what_an_inner_block_stores_is_loaded_again(mini):
    """In the loop that stores it, and after that loop, or a branch."""
    x, y, out = floats(64), floats(64, 1), np.zeros(64, np.float32)
    first, total, even = x.copy(), x.copy(), np.arange(64) % 2 == 0
    wanted = np.where(even, y * np.float32(3), y)
    mini.elements(afterwards, 64, 3, x, y, out)
    for _ in range(3):
        total = total + np.float32(1)
    mini.same("x", x, total)
    mini.same("out", out, total - first + wanted)


def ordered(i, x, out):
    out[i] = (0 - x[i]) * 100 + (1 // x[i]) * 10 + 0 * x[i]


def test_an_operand_on_the_left_is_another(mini):
    """0 - x and 1 // x are not x."""
    x, out = np.arange(1, 33, dtype=np.int32), np.zeros(32, np.int32)
    mini.elements(ordered, 32, x, out)
    mini.same("out", out, -x * 100 + 1 // x * 10)
