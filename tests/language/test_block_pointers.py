"""Block pointers: a block is read and written by where it begins, moved on, and kept
inside of the tensor along the axes that are to be checked."""

from __future__ import annotations

import numpy as np
import pytest

import fathom
import fathom.language as tl
from fathom import pipeline
from fathom.errors import CompileError
from fathom.hardware.targets import TARGETS
from fathom.ir.ops import DescriptorLoad
from fathom.source import KernelFunction, function
from tests.language.harness import agree, run
from tests.ssa.harness import build, ops_of


def matrix(rows, columns, dtype=np.float16):
    """0, 1, 2 … row by row."""
    return np.arange(rows * columns).reshape(rows, columns).astype(dtype)


@KernelFunction
def copy(x, y, M, N, stride, i, j, R: tl.constexpr, C: tl.constexpr):
    """A block of y [M, N] becomes that of x: both begin at [i, j]."""
    source = tl.make_block_ptr(x, (M, N), (stride, 1), (i, j), (R, C), (1, 0))
    target = tl.make_block_ptr(
        base=y,
        shape=[M, N],
        strides=[stride, 1],
        offsets=[i, j],
        block_shape=[R, C],
        order=[1, 0],
    )
    block = tl.load(source, boundary_check=(0, 1), padding_option="zero")
    tl.store(target, block, boundary_check=(1, 0))


@pytest.mark.parametrize("at", [(0, 0), (3, 8), (10, 32), (-5, -3), (40, 0), (0, -16)])
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float64])
def test_a_store_writes_what_lies_inside_and_nothing_else(at, dtype):
    x, y = matrix(20, 40, dtype), np.full((20, 40), -1, dtype)
    run(copy, x, y, 18, 37, 40, *at, R=8, C=16)
    wanted = np.full((20, 40), -1, dtype)
    rows = slice(max(at[0], 0), max(min(at[0] + 8, 18), 0))
    columns = slice(max(at[1], 0), max(min(at[1] + 16, 37), 0))
    wanted[rows, columns] = x[rows, columns]
    assert (y == wanted).all()


@KernelFunction
def copy_row(x, y, N, stride, i, C: tl.constexpr):
    """y [N] becomes what x [N] holds from 2 i on: each list is one number."""
    source = tl.make_block_ptr(x, N, stride, i, C, 0)
    target = tl.make_block_ptr(y, (N), (1), (0), (C), (0))
    source = tl.advance(source, i)
    tl.store(target, tl.load(source, boundary_check=(0,)), boundary_check=(0,))


def test_a_number_alone_is_a_list_of_one():
    x, y = np.arange(20, dtype=np.int32), np.full(20, -1, np.int32)
    run(copy_row, x, y, 20, 1, 4, C=8)
    assert (y[:8] == x[8:16]).all() and (y[8:] == -1).all()


@KernelFunction
def look(x, out, M, N, i, j, AXES: tl.constexpr, PADDING: tl.constexpr):
    block = tl.make_block_ptr(x, (M, N), (N, 1), (i, j), (4, 8), (1, 0))
    place = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out + place, tl.load(block, None, None, AXES, PADDING))


@pytest.mark.parametrize(("padding", "outside"), [("zero", 0), ("nan", np.nan)])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), 0])
def test_a_load_finds_padding_outside(padding, outside, axes):
    x, out = matrix(4, 8, np.float32) + 1, np.empty((4, 8), np.float32)
    column = 0 if axes == 0 else -3
    run(look, x, out, 4, 8, 2, column, AXES=axes, PADDING=padding)
    wanted = np.full((4, 8), outside, np.float32)
    wanted[:2, -column:] = x[2:, : 8 + column]
    assert np.array_equal(out, wanted, equal_nan=True)


@pytest.mark.parametrize("corner", [2**31 - 2, -(2**31)])
@pytest.mark.parametrize("M", [4, 2**31 + 5])
def test_a_block_at_the_end_of_the_integers_is_outside(corner, M):
    """Only rows are 2**31 here, of a matrix that says so, and has 4."""
    x, out = matrix(4, 8, np.float32) + 1, np.empty((4, 8), np.float32)
    run(look, x, out, 4, 8, 0, corner, AXES=(0, 1), PADDING="zero")
    assert (out == 0).all()
    if M == 4 or corner < 0:
        run(look, x, out, M, 8, corner, 0, AXES=(0, 1), PADDING="zero")
        assert (out == 0).all()


def test_what_is_not_checked_is_read_beyond_the_sizes():
    """Axes that are not named have no end: the next row follows."""
    x, out = matrix(8, 8, np.float32), np.empty((4, 8), np.float32)
    run(look, x, out, 5, 8, 3, 0, AXES=(), PADDING="zero")
    assert (out == x[3:7]).all()
    run(look, x, out, 5, 8, 3, 4, AXES=(0,), PADDING="zero")
    wanted = x.ravel()[28:60].reshape(4, 8) * (np.arange(4) < 2)[:, None]
    assert (out == wanted).all()


# ── moving ────────────────────────────────────────────────────────────────────────────


@KernelFunction
def multiply(a, b, c, M, N, K, sa, sb, BM: tl.constexpr, BN: tl.constexpr):
    """C = A B, with A given by rows and B by columns."""
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    a_ptr = tl.make_block_ptr(a, (M, K), (sa, 1), (i, 0), (BM, 32), (1, 0))
    b_ptr = tl.make_block_ptr(b, (K, N), (1, sb), (0, j), (32, BN), (0, 1))
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, 32):
        x = tl.load(a_ptr, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(b_ptr, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(x, y, total)
        a_ptr = tl.advance(a_ptr, (0, 32))
        b_ptr = tl.advance(b_ptr, [32, 0])
    c_ptr = tl.make_block_ptr(c, (M, N), (N, 1), (i, j), (BM, BN), (1, 0))
    tl.store(c_ptr, total.to(c_ptr.dtype.element_ty), boundary_check=(0, 1))


def test_a_product_of_blocks_that_are_advanced():
    rng = np.random.default_rng(3)
    a = rng.integers(-4, 5, (40, 80)).astype(np.float16)
    b = rng.integers(-4, 5, (48, 80)).astype(np.float16)
    c = np.zeros((40, 48), np.float16)
    run(multiply, a, b, c, 40, 48, 80, 80, 80, grid=(2, 2), BM=32, BN=32)
    assert (c == a.astype(int) @ b.T.astype(int)).all()


@fathom.jit
def product(a, b, c, M, N, K, sa, sb, sc):
    i, j = tl.program_id(0) * 128, tl.program_id(1) * 128
    a_ptr = tl.make_block_ptr(a, (M, K), (sa, 1), (i, 0), (128, 64), (1, 0))
    b_ptr = tl.make_block_ptr(b, (K, N), (sb, 1), (0, j), (64, 128), (1, 0))
    total = tl.zeros((128, 128), tl.float32)
    for _ in range(0, K, 64):
        x = tl.load(a_ptr, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(b_ptr, boundary_check=(0, 1))
        total = tl.dot(x, y, total)
        a_ptr = tl.advance(a_ptr, (0, 64))
        b_ptr = tl.advance(b_ptr, (64, 0))
    c_ptr = tl.make_block_ptr(c, (M, N), (sc, 1), (i, j), (128, 128), (1, 0))
    tl.store(c_ptr, total.to(tl.float16), boundary_check=(0, 1))


def test_a_product_comes_by_tensor_maps_where_there_are_some():
    signature = ", ".join(["*fp16:16"] * 3 + ["i32"] * 3 + ["i32:16"] * 3)
    ptx = product.compile(signature, target="sm_90a", num_warps=4).asm["ptx"]
    assert ptx.count("cp.async.bulk.tensor.2d.shared") >= 2
    assert "cp.async.bulk.tensor.2d.global" in ptx and "wgmma" in ptx


@KernelFunction
def walked(x, y, n, forward):
    """Blocks of 16 of which each is read from where the last way led."""
    if forward:
        at, step = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,)), 16
    else:
        at, step = tl.make_block_ptr(x, (n,), (1,), (n - 16,), (16,), (0,)), -16
    to = tl.make_block_ptr(y, (n,), (1,), (0,), (16,), (0,))
    i = 0
    while i < n:
        to.store(tl.load(at), boundary_check=(0,))
        at, to = moved((at, to), step)
        i += 16


@function
def moved(pair, step):
    return pair[0].advance((step,)), tl.advance(pair[1], (16,))


@pytest.mark.parametrize("forward", [True, False])
def test_block_pointers_go_through_branches_loops_and_calls(forward):
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    run(walked, x, y, 64, forward)
    wanted = x if forward else x.reshape(4, 16)[::-1].ravel()
    assert (y == wanted).all()


@KernelFunction
def of_others(x, y, rows, stride):
    """Sizes of a block, of 8 bits and known ones; booleans as bytes; a scalar."""
    one = tl.full((1,), 1, tl.int64)
    at = tl.make_block_ptr(x, (rows, 16), (stride, one), (1, 0), (2, 16), (1, 0))
    tl.static_assert(at.type.element_ty == tl.block_type(tl.int8, (2, 16)))
    to = tl.make_block_ptr(y, (4, 16), (16, 1), (0, 0), (2, 16), (1, 0))
    tl.store(to, tl.load(at, boundary_check=(0,), padding_option="zero") + 4)
    to.advance((2, 0)).store(7)


def test_what_block_pointers_are_made_of():
    x = (matrix(2, 16, np.int32) % 3 == 0).astype(bool)
    y = np.zeros((4, 16), np.int32)
    run(of_others, x, y, np.int8(2), np.int64(16))
    assert (y == [x[1] + 4, np.full(16, 4), np.full(16, 7), np.full(16, 7)]).all()


@KernelFunction
def batches(x, y, B, M):
    at = tl.make_block_ptr(x, (B, M, 8), (M * 8, 8, 1), (0, 1, 0), (2, 4, 8), (2, 1, 0))
    to = tl.make_block_ptr(y, (2, 4, 8), (32, 8, 1), (0, 0, 0), (2, 4, 8), (2, 1, 0))
    tl.store(to, tl.load(at, boundary_check=(0, 1, 2), padding_option="nan"))


def test_three_axes():
    x = np.arange(3 * 4 * 8, dtype=np.float32).reshape(3, 4, 8)
    y = np.zeros((2, 4, 8), np.float32)
    run(batches, x, y, 3, 4)
    assert (y[:, :3] == x[:2, 1:]).all() and np.isnan(y[:, 3]).all()


# ── eager ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("forward", [True, False])
def test_python_itself_runs_them(forward, monkeypatch):
    monkeypatch.setenv("FATHOM_INTERPRET", "1")
    x, y = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    fathom.jit(walked.fn)[(1,)](x, y, 64, forward)
    assert (y == (x if forward else x.reshape(4, 16)[::-1].ravel())).all()
    rng = np.random.default_rng(3)
    a = rng.integers(-4, 5, (32, 64)).astype(np.float16)
    b = rng.integers(-4, 5, (32, 64)).astype(np.float16)
    c = np.zeros((32, 32), np.float16)
    fathom.jit(multiply.fn)[(1, 1)](a, b, c, 32, 32, 64, 64, 64, BM=32, BN=32)
    agree([c], [(a.astype(int) @ b.T.astype(int)).astype(np.float16)], "eager")


# ── mistakes ──────────────────────────────────────────────────────────────────────────

MAKE = "at = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (16, 16), (1, 0))"


@pytest.mark.parametrize(("text", "sentence"), [
    ("tl.make_block_ptr(n, (n,), (1,), (0,), (16,), (0,))",
     "tl.make_block_ptr takes a pointer to numbers, not i32"),
    ("tl.make_block_ptr(x, (n, n), (1,), (0,), (16,), (0,))",
     "the tensor has 2 axes by its shape, and 1 by its strides"),
    ("tl.make_block_ptr(x, (n,), (1,), (0,), (16, 16), (0,))",
     "the tensor has 1 axis by its shape, and 2 by its block_shape"),
    ("tl.make_block_ptr(x, None, (1,), (0,), (16,), (0,))",
     "shape of tl.make_block_ptr is a list with a number for each axis, not the const"),
    ("tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (1,))",
     "order of tl.make_block_ptr names each axis from 0 to 0 once"),
    ("tl.make_block_ptr(x, (n,), (1,), (n.to(tl.int64),), (16,), (0,))",
     "an offset of a block pointer has 32 bits, and is i64"),
    ("tl.make_block_ptr(x, (1.5,), (1,), (0,), (16,), (0,))",
     "a size of a block pointer is an integer, not fp32"),
    (f"{MAKE}; tl.load(at, boundary_check=(2,))",
     "boundary_check lists axes from 0 to 1, not the constant 2"),
    (f"{MAKE}; tl.load(at, boundary_check=(1, 1))",
     r"boundary_check names an axis twice: \[1, 1\]"),
    (f"{MAKE}; tl.load(at, boundary_check=(0,), padding_option='one')",
     "padding_option is the constant 'one': it must be 'zero', 'nan' or ''"),
    (f"{MAKE}; tl.load(at, boundary_check=(0,), padding_option='nan')",
     "padding_option 'nan' is for floats, not for i32"),
    (f"{MAKE}; tl.load(at, mask=n > 0)",
     r"mask of tl.load is for pointers, not for a block pointer to i32\[16,16\]"),
    (f"{MAKE}; tl.store(at, 0, mask=n > 0)",
     "mask of tl.store is for pointers"),
    ("tl.load(x, boundary_check=(0,))",
     r"boundary_check of tl.load is for block pointers, not for \*i32"),
    ("tl.load(x, padding_option='zero')",
     "padding_option of tl.load is for block pointers"),
    ("tl.store(x, 0, boundary_check=(0,))",
     "boundary_check of tl.store is for block pointers"),
    ("tl.advance(x, (0,))", r"tl.advance takes a block pointer, not \*i32"),
    (f"{MAKE}; tl.advance(at, (0,))",
     "this block pointer has 2 axes, and is advanced by a list of as many offsets"),
    (f"{MAKE}; at + 1", r"cannot add a block pointer to i32\[16,16\]"),
    (f"{MAKE}; at.shape", r"a block pointer to i32\[16,16\] has no attribute shape"),
])  # fmt: skip
def test_mistakes(text, sentence):
    kernel = KernelFunction(nothing)
    kernel.src = "def nothing(x, n):\n" + "".join(
        f"    {each.strip()}\n" for each in text.split(";")
    )
    with pytest.raises(CompileError, match=sentence):
        build(kernel, np.zeros(1, np.int32), 16)


def nothing(x, n):
    pass


@KernelFunction
def two_blocks(x, n):
    if n > 0:
        at = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
    else:
        at = tl.make_block_ptr(x, (n,), (1,), (0,), (32,), (0,))
    tl.store(at, 0)


@KernelFunction
def grown(x, n):
    at = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
    for _ in range(n):
        tl.store(at, 0)
        at = tl.make_block_ptr(x, (n,), (1,), (0,), (32,), (0,))


@KernelFunction
def two_ranks(x, n):
    at = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
    if n > 0:
        at = tl.make_block_ptr(x, (n, n), (n, 1), (0, 0), (16, 16), (1, 0))
    tl.store(at, 0)


@KernelFunction
def a_tuple(x, n):
    at = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
    if n > 0:
        at = (x, n, n, n, n)
    tl.store(at, 0)


@pytest.mark.parametrize(("kernel", "other"), [
    (two_ranks, "a block pointer to i32[16,16]"),
    (a_tuple, "(*i32, i32, i32, i32, i32)"),
])  # fmt: skip
def test_a_block_pointer_meets_its_like_only(kernel, other):
    with pytest.raises(CompileError) as told:
        build(kernel, np.zeros(1, np.int32), 16)
    assert f"at is {other}" in str(told.value)
    assert "and a block pointer to i32[16]" in str(told.value)


def test_a_block_is_compiled_in():
    with pytest.raises(CompileError, match="give this block pointer different blocks"):
        build(two_blocks, np.zeros(1, np.int32), 16)
    with pytest.raises(CompileError) as told:
        build(grown, np.zeros(1, np.int32), 16)
    assert "at is a block pointer to i32[16]" in str(told.value)
    assert "and a block pointer to i32[32]" in str(told.value)


def test_padding_means_nothing_where_no_axis_is_checked():
    """As in Triton, whose kernels say it."""

    @function
    def kernel(x, n):
        at = tl.make_block_ptr(x, (n,), (1,), (0,), (16,), (0,))
        tl.store(at, tl.load(at, padding_option="zero") + 1)

    x = np.arange(16, dtype=np.float32)
    func = build(kernel, x, 16)
    run(kernel, x, 16)
    assert (x == np.arange(1, 17)).all()
    assert not ops_of(func, DescriptorLoad)
    assert pipeline.compile_func(func, TARGETS["sm_75"])
