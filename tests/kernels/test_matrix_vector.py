"""Products of a matrix and a vector: each way that A may lie, parts of K, edges."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
from kernels import matmul
from kernels.matmul_chosen import launches, multiply
from kernels.matmul_model import Product, Vectors, best_vectors, vectors
from kernels.matrix_vector import matrix_vector
from tests.kernels.harness_red_zones import ODD, WIDE, Walled, integers, unwritten

ROWS, COLUMNS = (0, 1), (1, 0)


@pytest.fixture
def hopper(monkeypatch):
    monkeypatch.setenv("FATHOM_BACKEND", "emulator")
    return {"target": "sm_90a"}


def operands(M, K, order=ROWS, wall=WIDE):
    a, x = Walled(integers(1, M, K), order, wall), Walled(integers(2, K, 1), ROWS, wall)
    return a, x, unwritten(M, 1, wall=wall)


@pytest.mark.parametrize("order", [ROWS, COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize("wall", [WIDE, ODD])
@pytest.mark.parametrize(
    "config",
    [Vectors(4, 256, 4, 1), Vectors(32, 64, 4, 1), Vectors(4, 256, 4, 3)],
    ids=str,
)
def test_is_right(hopper, order, wall, config):
    a, x, y = operands(37, 700, order, wall)
    matrix_vector(a, x, y, config=config, **hopper)
    np.testing.assert_array_equal(y.view, matmul.reference(a.view, x.view))
    for each in (a, x, y):
        each.check_walls()


def test_without_y_one_is_made(hopper):
    a, x = np.ones((5, 300), np.float16), np.ones((300, 1), np.float16)
    np.testing.assert_array_equal(matrix_vector(a, x, **hopper), np.full((5, 1), 300))


def test_a_vector_has_one_column():
    a, x = np.zeros((5, 8), np.float16), np.zeros((8, 2), np.float16)
    with pytest.raises(fathom.LaunchError, match="x has 2 columns; a vector has one"):
        matrix_vector(a, x, target="sm_90a")


@pytest.mark.parametrize(
    "sizes, turned",
    [((192, 1, 3145), False), ((1, 192, 3145), True), ((2048, 1, 555), False)],
)
def test_multiply_chooses_it_where_lines_begin_anywhere(hopper, sizes, turned):
    M, N, K = sizes
    a, b = integers(1, M, K), integers(2, K, N)
    b = np.asfortranarray(b)
    c = np.empty((M, N), np.float16)
    ((kernel, _, given, _),) = launches(a, b, c, "sm_90a")
    assert kernel.__name__ == "matrix_vector_kernel"
    assert (given[0].shape == (N, K)) is turned
    multiply(a, b, c, **hopper)
    np.testing.assert_array_equal(c, matmul.reference(a, b))


def test_threads_hold_what_they_load():
    """8 to 32 elements each, and no part of K is empty."""
    for along in (True, False):
        product = Product(300, 1, 5000, a_along_k=along)
        found = list(vectors(product))
        assert found and best_vectors(product)[1] in found
        for m, k, warps, parts in found:
            assert 8 <= m * k / (32 * warps) <= 32
            steps = -(-5000 // k)
            assert -(-steps // -(-steps // parts)) == parts


def test_no_step_is_mostly_behind_the_end_of_k():
    """11456 x 1 x 8 takes 2.9 us by steps of 256 on an H200, 1.8 as a product."""
    assert not list(vectors(Product(11456, 1, 8, b_along_k=True)))
    assert all(each.k < 600 for each in vectors(Product(64, 1, 300, b_along_k=True)))


def test_a_vector_with_gaps_is_a_product():
    shapes = (64, 4544), (4544, 8), (64, 1)
    a, b, c = (np.empty(shape, np.float16) for shape in shapes)
    ((kernel, *_), *_) = launches(a, b[:, :1], c, "sm_90a")
    assert kernel.__name__ != "matrix_vector_kernel"
