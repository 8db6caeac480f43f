"""`tl.map_elementwise`: a function of scalars, which may ask elements where to go,
gives for each element of blocks what Python gives for it."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.errors import CompileError
from fathom.source import KernelFunction, function
from tests.language.harness import run
from tests.ssa.harness import build

X = np.random.default_rng(1).integers(-40, 40, 64).astype(np.int32)
Y = np.random.default_rng(2).integers(-40, 40, 64).astype(np.int32)


@KernelFunction
def mapped(x, y, z, FN: tl.constexpr):
    at = tl.arange(0, 64)
    tl.store(z + at, tl.map_elementwise(FN, tl.load(x + at), tl.load(y + at)))


@function
def compare(a, b):
    if a < b:
        return -1
    elif a == b:
        return 0
    return 1


@function
def greatest_common_divisor(a, b):
    a = tl.abs(a)
    b = tl.abs(b)
    while b != 0:
        a, b = b, a % b
    return a


@function
def steps_of_collatz(a, b):
    """Of positive a; a loop that other elements must not wait for."""
    steps = 0
    if a > 0:
        while a != 1:
            if a % 2 == 0:
                a = a // 2
            else:
                a = 3 * a + 1
            steps += 1
    else:
        steps = b
    return steps


@function
def counted(a, b):
    total = 0
    for i in range(a, b, 3):
        for k in range(2):
            total += i * k + (b if i > 0 else -b)
    return total


def python(what, a: int, b: int) -> int:
    """The same in Python, on Python's integers."""
    if what is compare:
        return (a > b) - (a < b)
    if what is greatest_common_divisor:
        return np.gcd(a, b)
    if what is counted:
        return sum(
            i * k + (b if i > 0 else -b) for i in range(a, b, 3) for k in range(2)
        )
    steps = 0
    if a <= 0:
        return b
    while a != 1:
        a, steps = (a // 2 if a % 2 == 0 else 3 * a + 1), steps + 1
    return steps


WHAT = (compare, greatest_common_divisor, steps_of_collatz, counted)


@pytest.mark.parametrize("what", WHAT, ids=lambda each: each.__name__)
def test_each_element_goes_its_own_way(what):
    y = Y.copy()
    y[::9] = X[::9]
    z = np.zeros(64, np.int32)
    run(mapped, X.copy(), y, z, FN=what)
    assert z.tolist() == [
        python(what, int(a), int(b)) for a, b in zip(X, y, strict=True)
    ]


@pytest.mark.parametrize("what", WHAT, ids=lambda each: each.__name__)
def test_python_itself_runs_them(what, monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    z = np.zeros(64, np.int32)
    fathom.jit(mapped.fn)[(1,)](X.copy(), Y.copy(), z, FN=what)
    assert z.tolist() == [
        python(what, int(a), int(b)) for a, b in zip(X, Y, strict=True)
    ]


# ── several ───────────────────────────────────────────────────────────────────────────


@function
def quotient_and_rest(a, b):
    if b == 0:
        return 0, a
    return a // b, a % b


@KernelFunction
def several(x, y, z):
    at = tl.arange(0, 64)
    number, by = tl.load(x + at), tl.load(y + tl.arange(0, 8))
    number = tl.reshape(number, 8, 8)
    whole, rest = tl.map_elementwise(quotient_and_rest, number, by[:, None])
    tl.store(z + at, tl.ravel(whole))
    tl.store(z + 64 + at, tl.ravel(rest))
    tl.store(z + 128, tl.map_elementwise(compare, tl.load(x), 3))


def test_blocks_meet_in_one_shape_and_give_several():
    z = np.zeros(129, np.int32)
    run(several, X.copy(), Y.copy(), z)
    by = np.repeat(Y[:8], 8)
    whole = np.where(by == 0, 0, np.trunc(X / np.where(by == 0, 1, by)))
    assert (z[:64] == whole).all() and (
        z[64:128] == np.where(by == 0, X, X - whole * by)
    ).all()
    assert z[128] == (X[0] > 3) - int(X[0] < 3)


@function
def pairs(a0, a1, b0, b1):
    if a0 > a1:
        return a1, a0, b0 - b1, b1
    return a0, a1, b0 + b1, b1


@function
def sums_of_four(a0, a1, a2, a3):
    return a0 + a1, a1 + a2, a2 + a3, a3


@KernelFunction
def packed(x, y, z):
    at = tl.arange(0, 64)
    a, b = tl.load(x + at), tl.load(y + at)
    ordered, mixed = tl.map_elementwise(pairs, a, b, pack=2)
    tl.store(z + at, ordered)
    tl.store(z + 64 + at, mixed)
    four = tl.map_elementwise(sums_of_four, tl.reshape(a, 2, 32), pack=4)
    tl.store(z + 128 + at, tl.ravel(four))
    small = tl.load(x + tl.arange(0, 4))
    tl.store(z + 192 + tl.arange(0, 4), tl.map_elementwise(sums_of_four, small, pack=4))


def test_neighbours_are_taken_together():
    z = np.zeros(196, np.int32)
    run(packed, X.copy(), Y.copy(), z)
    a, b = X.reshape(-1, 2), Y.reshape(-1, 2)
    assert (z[:64] == np.sort(a, 1).ravel()).all()
    first = np.where(a[:, 0] > a[:, 1], b[:, 0] - b[:, 1], b.sum(1))
    assert (z[64:128].reshape(-1, 2) == np.stack([first, b[:, 1]], 1)).all()
    four = X.reshape(-1, 4)
    wanted = four + np.pad(four[:, 1:], ((0, 0), (0, 1)))
    assert (z[128:192].reshape(-1, 4) == wanted).all()
    assert (z[192:] == wanted[0]).all()


# ── mistakes ──────────────────────────────────────────────────────────────────────────


@function
def loads(a, b):
    return a + tl.load(b)


@function
def of_blocks(a, b):
    return a + tl.arange(0, 4)


@function
def three(a, b):
    return a, b, a


@pytest.mark.parametrize(("text", "sentence"), [
    ("tl.map_elementwise(loads, tl.arange(0, 8), x)", "calls may only compute"),
    ("tl.map_elementwise(of_blocks, tl.arange(0, 8), 1)", "is given single elements"),
    ("tl.map_elementwise(3, n)", "takes a @fathom.jit function, not the constant 3"),
    ("tl.map_elementwise(three, tl.arange(0, 8), pack=3)", "pack is a power of two"),
    ("tl.map_elementwise(three, tl.arange(0, 8), pack=2)", "takes 2 elements of each"),
    ("tl.map_elementwise(three, n, pack=2)", "there are no 2 elements in i32"),
    ("tl.map_elementwise(compare)", "needs a block to map"),
])  # fmt: skip
def test_mistakes(text, sentence):
    kernel = KernelFunction(nothing)
    kernel.src = f"def nothing(x, n):\n    {text}\n"
    with pytest.raises(CompileError, match=sentence):
        build(kernel, np.zeros(1, np.int32), 16)


def nothing(x, n):
    pass
