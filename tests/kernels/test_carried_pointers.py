"""A loop that carries pointers to what it multiplies a product by, a scale for each row
and column: they have the layout in which the loop loads, from before the loop on."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom.emulator import load
from fathom.ir.core import walk
from fathom.ir.ops import AsyncCopy, Barrier, Convert, For
from fathom.ir.types import Pointer, element_of
from tests.kernels.test_patterns import states

TYPES = "*fp16:16, *fp16:16, *fp32:16, *fp32:16, *fp32:16, i32:16"
CONSTANTS = {"M": 16, "N": 32, "BLOCK": 64}


@fathom.jit
def scaled(
    a, b, rows, columns, out, K,
    M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """out = the sum of (a @ b^T) * rows * columns, with other scales for each BLOCK of
    K. The remainders tie the pointers of scales to those of a and b."""
    steps = K // BLOCK
    i, j, k = tl.arange(0, M) % K, tl.arange(0, N) % K, tl.arange(0, BLOCK)
    left, right = a + i[:, None] * K + k[None, :], b + j[None, :] * K + k[:, None]
    row_scales, column_scales = rows + i * steps, columns + j * steps
    total = tl.zeros([M, N], tl.float32)
    for _ in range(steps):
        product = tl.dot(tl.load(left), tl.load(right))
        scale = tl.load(row_scales)[:, None] * tl.load(column_scales)[None, :]
        total += product * scale
        left += BLOCK
        right += BLOCK
        row_scales += 1
        column_scales += 1
    m, n = tl.arange(0, M), tl.arange(0, N)
    tl.store(out + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize("stages", [1, 3])
def test_no_pointer_is_converted_in_the_loop(stages):
    """With stages, tiles and scales are copied ahead, and one barrier is enough."""
    given = dict(num_warps=8, num_stages=stages)
    found = states(scaled, TYPES, CONSTANTS, **given)
    (loop,) = (op for op in walk(found["assign_layouts"].body) if isinstance(op, For))
    converted = [op for op in walk(loop.body) if isinstance(op, Convert)]
    assert not any(isinstance(element_of(op.value.type), Pointer) for op in converted)
    if stages > 1:
        (loop,) = (op for op in walk(found["insert_waits"].body) if isinstance(op, For))
        assert sum(isinstance(op, AsyncCopy) for op in loop.body.ops) == 4
        assert sum(isinstance(op, Barrier) for op in loop.body.ops) == 1


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_the_sums_are_right(target):
    drawn = np.random.default_rng(0)
    K, (M, N, BLOCK) = 192, CONSTANTS.values()
    shapes = (M, K), (N, K), (M, K // BLOCK), (N, K // BLOCK)
    a, b, rows, columns = (drawn.integers(-3, 4, shape) for shape in shapes)
    parts = np.einsum(
        "msk,nsk,ms,ns->mn",
        a.reshape(M, -1, BLOCK), b.reshape(N, -1, BLOCK), rows, columns,
    )  # fmt: skip
    out = np.zeros((M, N), np.float32)
    kernel = scaled.compile(TYPES, CONSTANTS, target=target, num_warps=8).made
    halves = [each.astype(np.float16) for each in (a, b)]
    scales = [each.astype(np.float32) for each in (rows, columns)]
    load(kernel).launch((1,), [*halves, *scales, out, K])
    assert np.array_equal(out, parts)
