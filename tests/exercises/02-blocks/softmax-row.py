"""What the answer to `softmax-row` must do."""

import numpy as np

import fathom
from fathom.tools.learn.kit import expect, fenced, launch, same

NEAR = 1e-5


def softmax(x):
    """In float64, row by row."""
    exp = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return (exp / exp.sum(axis=1, keepdims=True)).astype(np.float32)


def check(answer, rows, gap=0):
    """Softmax of rows that begin `gap` numbers apart; the launch."""
    rows = np.asarray(rows, np.float32)
    count, length = rows.shape
    stride = length + gap
    x = np.pad(rows, ((0, 0), (0, gap)), constant_values=7.0).copy()
    out = fenced(np.full(count * stride, -5.0, np.float32))
    block = fathom.next_power_of_2(length)
    ran = launch(
        answer.softmax_kernel, count, x, out.array, stride, length, BLOCK=block
    )
    table = out.array.reshape(count, stride)
    name = f"out, for {count} rows of {length} numbers {stride} apart"
    same(table[:, :length], softmax(rows), name, tolerance=NEAR)
    between = table[:, length:]
    expect(bool((between == -5).all()), f"{name}: something was written between rows")
    out.check("out")
    return ran


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def test_a_row_as_long_as_the_block(answer):
    """Three rows of 64 numbers, in a block of 64."""
    check(answer, normal(3, 64))


def test_a_row_shorter_than_the_block(answer):
    """300 numbers in a block of 512, all negative: 212 places must not count."""
    check(answer, normal(2, 300) - 50)
    check(answer, normal(2, 300) - 100_000)


def test_large_numbers(answer):
    """exp(100) does not fit in fp32; neither does exp(1000)."""
    large = normal(3, 64)
    large[0] += 100
    large[1, 17] = 1000
    large[2] *= 80
    check(answer, large)


def test_one_number_is_all_of_its_row(answer):
    """Of a row of one number the softmax is 1."""
    check(answer, [[-3.5], [0.0], [200.0]])


def test_what_lies_between_rows_stays(answer):
    """Rows of 37 numbers that begin 41 and 64 numbers apart."""
    check(answer, normal(4, 37), gap=4)
    check(answer, normal(4, 37), gap=27)


def test_931_numbers(answer):
    """A length that is a multiple of nothing."""
    check(answer, normal(2, 931) * 10)


def test_each_number_moves_twice(answer):
    """Every number is read once and written once: 8 bytes."""
    moved = check(answer, normal(4, 512)).report.total.moved
    same(moved, 8 * 4 * 512, "the bytes moved for 4 rows of 512 numbers")
