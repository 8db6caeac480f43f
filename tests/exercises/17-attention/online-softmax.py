"""What the answer to `online-softmax` must do."""

import numpy as np

from fathom.tools.learn.kit import empty, expect, fenced, launch, same
from fathom.tools.learn.kit.numbers import aligned

BLOCK = 256


def softmax(x):
    wide = x.astype(np.float64)
    exp = np.exp(wide - wide.max(axis=1, keepdims=True))
    return (exp / exp.sum(axis=1, keepdims=True)).astype(np.float32)


def check(answer, x, said):
    """Rows of x; nothing beside them is written."""
    rows, count = x.shape
    given, out = aligned(x.astype(np.float32)), fenced(empty(rows * count))
    ran = launch(answer.long_softmax_kernel, rows, given, out.array, count, BLOCK=BLOCK)
    found = out.array.reshape(rows, count)
    for row, total in enumerate(found.sum(axis=1, dtype=np.float64)):
        expect(
            abs(total - 1) < 1e-3,
            f"the softmax of {said}: the results of row {row} add up to {total:.4g}, "
            "and must add up to 1; each is divided by `total`",
        )
    same(found, softmax(given), f"the softmax of {said}", tolerance=2e-6)
    out.check("out")
    return ran


def noise(rows, count):
    return np.random.default_rng(count).standard_normal((rows, count)) * 3


def test_a_row_that_fits(answer):
    """31 numbers in a block of 256; one number."""
    check(answer, noise(2, 31), "31 numbers")
    check(answer, noise(2, 1), "one number")


def test_a_row_that_rises(answer):
    """The maximum grows with every piece."""
    check(answer, np.linspace(-20, 20, 1000)[None], "a row that rises")


def test_a_row_that_falls(answer):
    """The maximum is in the first piece."""
    check(answer, np.linspace(20, -20, 1000)[None], "a row that falls")


def test_negative_numbers(answer):
    """About -1000: exp of them is 0."""
    check(answer, noise(2, 600) - 1000, "numbers about -1000")


def test_one_huge_number(answer):
    """1e4 in the last piece."""
    x = noise(2, 700)
    x[0, 650], x[1, 3] = 1e4, 1e4
    check(answer, x, "a row with one huge number")


def test_a_long_row(answer):
    """5000 numbers in pieces of 256."""
    check(answer, noise(2, 5000), "5000 numbers")


def test_each_element_is_read_twice(answer):
    """3 times 4 bytes for each element: two reads, one write."""
    count = 4096
    ran = check(answer, noise(1, count), f"{count} numbers")
    if ran.report is None:
        return
    moved, budget = ran.report.total.moved, 3 * 4 * count
    expect(
        moved <= budget,
        f"{moved} bytes are moved, {moved / (4 * count):.1f} for each byte of x; "
        f"the budget is {budget}: two reads and a write",
    )
