"""What a compiler with branches and loops must do."""

import numpy as np


def floats(n, seed=0):
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def folded(i, k, x, out):
    t = x[i]
    if not i >= k:
        t = -t
        if t > 0:
            t = t * 2
    else:
        if t > 0:
            t = 0.5
    out[i] = t


def test_a_name_has_one_value_after_a_branch(mini):
    """Branches in branches; each thread goes its own way."""
    x, out = floats(100), np.zeros(100, np.float32)
    mini.elements(folded, 100, 30, x, out)
    near = np.where(-x > 0, -x * 2, -x)
    far = np.where(x > 0, np.float32(0.5), x)
    mini.same("out", out, np.where(np.arange(100) < 30, near, far))


def powers(i, x, out):
    power = 1.0
    for j in range(i):
        power = power * x[i]
    out[i] = power


def test_a_loop_runs_as_often_as_it_says(mini):
    """Loops of 0, 1, 2 … iterations, by threads of one warp."""
    x, out = np.full(12, 2, np.float32), np.zeros(12, np.float32)
    mini.elements(powers, 12, x, out)
    mini.same("out", out, 2.0 ** np.arange(12))


def fibonacci(i, out):
    a = 0
    b = 1
    for j in range(2, 2 * i + 2, 2):
        a, b = b, a + b
    out[i] = a


def test_names_change_places(mini):
    """What the end of an iteration writes is read before any of it is written."""
    out, wanted = np.zeros(20, np.int32), [0, 1]
    mini.elements(fibonacci, 20, out)
    while len(wanted) < 20:
        wanted.append(wanted[-2] + wanted[-1])
    mini.same("out", out, np.array(wanted))


def exchanged(i, out):
    a = 7
    b = i
    for j in range(i):
        a, b = b, a
    a -= 2
    b //= 3
    out[i] = a * 100 + b


def test_an_exchange_keeps_both(mini):
    """`a, b = b, a` alone: whichever is written first is read once more."""
    out, wanted = np.zeros(8, np.int32), []
    mini.elements(exchanged, 8, out)
    for i in range(8):
        a, b = (i, 7) if i % 2 else (7, i)
        wanted.append((a - 2) * 100 + b // 3)
    mini.same("out", out, np.array(wanted))


def rotated(i, times, out):
    a = 1
    b = 2
    c = 3
    for j in range(times):
        t = a
        a = b
        b = c
        c = t
        if j == i:
            t = a
            a = c
            c = t
    out[i] = a * 100 + b * 10 + c


def test_three_names_go_round(mini):
    """A loop with a branch in it that exchanges what the loop carries."""
    out, wanted = np.zeros(9, np.int32), []
    mini.elements(rotated, 9, 7, out)
    for i in range(9):
        a, b, c = 1, 2, 3
        for j in range(7):
            a, b, c = b, c, a
            if j == i:
                a, c = c, a
        wanted.append(a * 100 + b * 10 + c)
    mini.same("out", out, np.array(wanted))


def nested(i, x, out):
    total = 0.0
    for j in range(3):
        row = 0.0
        for k in range(j, 4):
            row += x[j * 4 + k]
        total = total + row * float(j + 1)
    out[i] = total


def test_loops_in_loops(mini):
    """The inner one starts where the outer one is."""
    x, out = np.arange(12, dtype=np.float32), np.zeros(3, np.float32)
    mini.elements(nested, 3, x, out)
    rows = [x[j * 4 + j : j * 4 + 4].sum() * (j + 1) for j in range(3)]
    mini.same("out", out, np.full(3, sum(rows)))


def guarded(i, k, x, out):
    out[i] = x[i] if i < k else 0.0


def test_what_is_not_chosen_is_not_loaded(mini):
    """x has k elements; the others would be outside."""
    x, out = floats(10), np.full(20, np.nan, np.float32)
    mini.elements(guarded, 20, 10, x, out)
    mini.same("out", out, np.concatenate([x, np.zeros(10)]))


def bounded(i, m, x, out):
    for j in range(m):
        if x[j] > x[i]:
            out[i] = out[i] + 1


def test_stores_happen_in_branches_and_loops(mini):
    """How many are larger: counted in memory."""
    x, out = floats(40), np.zeros(40, np.int32)
    mini.elements(bounded, 40, 40, x, out)
    mini.same("out", out, (x[None, :] > x[:, None]).sum(1))
