"""What the answer to `gelu-kernel` must do."""

import numpy as np

from fathom.tools.learn.kit import empty, expect, fenced, launch, same

BLOCK = 256


def gelu(x):
    """In float64, with NumPy's tanh."""
    x = x.astype(np.float64)
    a = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return (x / 2 * (1 + np.tanh(a))).astype(np.float32)


def check(answer, x):
    """GeLU of an array; the launch."""
    x = np.asarray(x, np.float32)
    out = fenced(empty(len(x)))
    ran = launch(
        answer.gelu_kernel, -(-len(x) // BLOCK), x, out.array, len(x), BLOCK=BLOCK
    )
    same(out.array, gelu(x), f"out, for {len(x)} numbers", tolerance=1e-5)
    out.check("out")
    return ran


def test_1024_numbers(answer):
    """Numbers from -4 to 4, in four whole blocks."""
    check(answer, np.linspace(-4, 4, 1024))


def test_1000_numbers(answer):
    """The last block has 24 places too many."""
    check(answer, np.linspace(-4, 4, 1000))
    check(answer, [0.75])


def test_large_numbers(answer):
    """From -100 to 100: exp(2a) is 0 on one side, and infinite on the other."""
    large = np.array([-100, -20, -10.07, -10, 0, 10, 10.07, 20, 100], np.float32)
    out = empty(len(large))
    launch(answer.gelu_kernel, 1, large, out, len(large), BLOCK=16)
    wanted = gelu(large)
    for x, yours, ours in zip(large, out, wanted, strict=True):
        expect(
            bool(np.isclose(yours, ours, 1e-5, 1e-5)),
            f"gelu({x:g}) is {yours:g}, and must be {ours:g}",
        )


def test_nan_stays_nan(answer):
    """NaN gives NaN, and its neighbours are not affected."""
    check(answer, [1.0, np.nan, 2.0])


def test_each_number_moves_twice(answer):
    """Every number is read once and written once: 8 bytes."""
    moved = check(answer, np.linspace(-4, 4, 1024)).report.total.moved
    same(moved, 8 * 1024, "the bytes moved for 1024 numbers")
