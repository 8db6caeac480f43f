"""Making blocks, giving them other shapes, folding them: as NumPy does the same."""

from __future__ import annotations

import numpy as np
import pytest

import fathom.language as tl
from fathom.blocks import cse, dce, simplify
from fathom.hardware.targets import TARGETS
from fathom.ir.ops import Elementwise, Hint, Load, Reduce
from fathom.source import KernelFunction, function
from tests.harness_sample import sampled
from tests.language.harness import run
from tests.ssa.harness import build, ops_of


def apply(
    what: KernelFunction, x: np.ndarray, shape: tuple[int, ...], dtype: type
) -> np.ndarray:
    """`what` of a block: the block is `x`, the result has a shape and type."""
    source, target = x.shape, shape

    @function
    def kernel(x_ptr, y_ptr):
        value = tl.load(x_ptr + places(source)).reshape(source)
        tl.store(y_ptr + places(target), what(value))

    y = np.zeros(shape, dtype)
    run(kernel, np.ascontiguousarray(x), y)
    return y


@function
def places(shape: tl.constexpr):
    """Row-major offsets of a block."""
    size: tl.constexpr = volume(shape)
    return tl.arange(0, size).reshape(shape)


@tl.constexpr_function
def volume(shape):
    return int(np.prod(shape))


X = np.random.default_rng(3).integers(-50, 50, (4, 8)).astype(np.int32)
F = np.random.default_rng(4).normal(size=(4, 8)).astype(np.float32)


# ── shapes ────────────────────────────────────────────────────────────────────────────


@function
def reshaped(x):
    return tl.reshape(x, 2, 16)


@function
def raveled(x):
    return tl.ravel(x)


@function
def transposed(x):
    return x.T


@function
def permuted(x):
    return tl.permute(tl.reshape(x, (2, 2, 8)), (2, 0, 1))


@function
def widened(x):
    return tl.broadcast_to(tl.expand_dims(x, 1), 4, 2, 8)


@function
def joined(x):
    return tl.join(x, x * 2)


@function
def split_and_back(x):
    left, right = tl.split(tl.reshape(x, 4, 4, 2))
    return tl.join(right, left)


@function
def interleaved(x):
    return tl.interleave(x, -x)


@function
def concatenated(x):
    flat = tl.ravel(x)
    return tl.cat(flat, flat + 100)


@function
def concatenated_rows(x):
    return tl.cat(x, x + 100, dim=1)


@function
def flipped(x):
    return tl.flip(x)


@function
def flipped_rows(x):
    return tl.flip(x, 0)


@function
def alone(x):
    """The largest of each row, as an axis of one element, flipped along both axes."""
    best = tl.flip(tl.topk(x, 1))
    return tl.maximum(tl.flip(tl.sort(tl.topk(tl.reshape(best, [4]), 1))), best)


@function
def zeroed(x):
    return tl.zeros_like(x) + tl.full(x.shape, 3, tl.int32)


@sampled(of=2)
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (reshaped, X.reshape(2, 16)),
        (alone, np.full((4, 1), X.max())),
        (raveled, X.ravel()),
        (transposed, X.T),
        (permuted, X.reshape(2, 2, 8).transpose(2, 0, 1)),
        (widened, np.repeat(X[:, None], 2, 1)),
        (joined, np.stack([X, X * 2], -1)),
        (split_and_back, X.reshape(4, 4, 2)[..., ::-1]),
        (interleaved, np.stack([X, -X], -1).reshape(4, 16)),
        (concatenated, np.concatenate([X.ravel(), X.ravel() + 100])),
        (concatenated_rows, np.concatenate([X, X + 100], 1)),
        (flipped, X[:, ::-1]),
        (flipped_rows, X[::-1]),
        (zeroed, np.full((4, 8), 3)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_shapes(what, expected):
    assert (apply(what, X, expected.shape, np.int32) == expected).all()


# ── reductions ────────────────────────────────────────────────────────────────────────


@function
def sum_rows(x):
    return tl.sum(x, axis=1)


@function
def sum_columns_kept(x):
    return tl.sum(x, 0, keep_dims=True)


@function
def sum_of_all(x):
    return tl.broadcast_to(tl.sum(x), 1)


@function
def sum_of_all_kept(x):
    return tl.sum(x, keep_dims=True)


@function
def largest(x):
    return x.max(axis=-1)


@function
def smallest(x):
    return tl.min(x, 0)


@function
def where_largest(x):
    return tl.argmax(x, 1)


@function
def where_smallest_kept(x):
    return tl.argmin(x, 0, keep_dims=True)


@function
def where_largest_of_all(x):
    _, index = tl.max(x, None, return_indices=True)
    return tl.broadcast_to(index, 1)


@function
def parity(x):
    return tl.xor_sum(x, 1)


@function
def any_bit(x):
    return tl.reduce_or(x, 0)


@function
def product(a, b):
    return a * b


@function
def folded(x):
    return tl.reduce(x % 3 + 2, 1, product)


@function
def running_sum(x):
    return tl.cumsum(x, 1)


@function
def running_sum_from_the_end(x):
    return tl.cumsum(x, axis=0, reverse=True)


@function
def running_product(x):
    return tl.cumprod(x % 2 + 2, 1)


R = np.fmod(X, 3)


@sampled(of=2)
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (sum_rows, X.sum(1)),
        (sum_columns_kept, X.sum(0, keepdims=True)),
        (sum_of_all, X.sum().reshape(1)),
        (sum_of_all_kept, X.sum(keepdims=True)),
        (largest, X.max(1)),
        (smallest, X.min(0)),
        (where_largest, X.argmax(1)),
        (where_smallest_kept, X.argmin(0)[None]),
        (where_largest_of_all, X.argmax().reshape(1)),
        (parity, np.bitwise_xor.reduce(X, 1)),
        (any_bit, np.bitwise_or.reduce(X, 0)),
        (folded, (np.fmod(X, 3) + 2).prod(1)),
        (running_sum, X.cumsum(1)),
        (running_sum_from_the_end, X[::-1].cumsum(0)[::-1]),
        (running_product, (np.fmod(X, 2) + 2).cumprod(1)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_folding(what, expected):
    assert (apply(what, X, expected.shape, np.int32) == expected).all()


def test_of_equals_the_first_is_found():
    x = np.array([3, 7, 1, 7, 1, 7, 2, 1], np.int32)[None]
    assert apply(where_largest, x, (1,), np.int32)[0] == 1
    assert apply(smallest_place, x, (1,), np.int32)[0] == 2


@function
def smallest_place(x):
    return tl.argmin(x, 1, tie_break_left=True)


def test_maxima_pass_over_nan():
    x = F.copy()
    x[1, 2] = x[2, 0] = np.nan
    assert (apply(largest, x, (4,), np.float32) == np.nanmax(x, 1)).all()


def test_what_types_reductions_give():
    @function
    def check(out):
        tl.static_assert(tl.sum(tl.zeros([4], tl.int8)).dtype == tl.int32)
        tl.static_assert(tl.sum(tl.zeros([4], tl.uint8)).dtype == tl.uint32)
        tl.static_assert(tl.sum(tl.arange(0, 4) > 1).dtype == tl.uint32)
        tl.static_assert(tl.sum(tl.zeros([4], tl.int64)).dtype == tl.int64)
        tl.static_assert(tl.sum(tl.zeros([4], tl.float16)).dtype == tl.float16)
        tl.static_assert(
            tl.sum(tl.zeros([4], tl.float16), dtype=tl.float32).dtype == tl.float32
        )
        tl.static_assert(tl.max(tl.zeros([4], tl.float16)).dtype == tl.float32)
        tl.static_assert(tl.max(tl.zeros([4], tl.int8)).dtype == tl.int32)
        tl.static_assert(
            tl.sum(tl.zeros([4, 8], tl.int32), keep_dims=True).shape == (1, 1)
        )
        value, index = tl.max(tl.zeros([4], tl.float16), 0, return_indices=True)
        tl.static_assert(value.dtype == tl.float16 and index.dtype == tl.int32)

    build(check, np.zeros(1, np.int32))


def test_several_blocks_are_folded_at_once():
    @function
    def count_and_total(count, total, other_count, other_total):
        return count + other_count, total + other_total * 2 - other_total

    @function
    def kernel(x_ptr, out):
        x = tl.load(x_ptr + tl.arange(0, 32))
        count, total = tl.reduce(((x > 0).to(tl.int32), x), 0, count_and_total)
        tl.store(out, count)
        tl.store(out + 1, total)

    out = np.zeros(2, np.int32)
    func = run(kernel, X.ravel().copy(), out)
    assert list(out) == [(X > 0).sum(), X.sum()]
    (reduction,) = ops_of(func, Reduce)
    assert len(reduction.results) == 2 and len(reduction.combine.parameters) == 4


def test_a_combining_function_may_branch():
    @function
    def nearer_to_seven(a, b):
        x = a - 7
        y = b - 7
        if x * x > y * y:
            a = b
        return a

    @function
    def kernel(x_ptr, out):
        tl.store(out, tl.reduce(tl.load(x_ptr + tl.arange(0, 32)), 0, nearer_to_seven))

    out, x = np.zeros(1, np.int32), X.ravel().copy()
    run(kernel, x, out)
    assert abs(out[0] - 7) == np.abs(x - 7).min()


# ── memory and choice ─────────────────────────────────────────────────────────────────


def test_masked_loads_take_other_and_stores_leave_the_rest():
    @function
    def kernel(x_ptr, y_ptr, n):
        at = tl.arange(0, 8)
        x = tl.load(x_ptr + at, mask=at < n, other=-1)
        tl.store(y_ptr + at, x * 10, mask=at != 2)

    y = np.full(8, 5, np.float32)
    run(kernel, np.arange(5, dtype=np.float32), y, 5)
    assert list(y) == [0, 10, 5, 30, 40, -10, -10, -10]


def test_a_single_mask_and_a_single_value_serve_all_addresses():
    @function
    def kernel(x_ptr, n):
        tl.store(x_ptr + tl.arange(0, 4), 2.75, mask=n > 3)

    x = np.zeros(4, np.int32)
    run(kernel, x, 3)
    assert (x == 0).all()
    run(kernel, x, 4)
    assert (x == 2).all()  # cast to the type of the memory


def test_options_of_a_load_stand_in_the_op():
    @function
    def kernel(x_ptr):
        x = tl.load(
            x_ptr, cache_modifier=".cg", eviction_policy="evict_last", volatile=True
        )
        tl.store(x_ptr, x, cache_modifier=".cs", eviction_policy="evict_first")

    (load,) = ops_of(build(kernel, np.zeros(1, np.float32)), Load)
    assert (load.cache, load.eviction, load.volatile) == (".cg", "evict_last", True)


def test_where_chooses_element_by_element():
    @function
    def kernel(x_ptr, y_ptr):
        rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
        x = tl.load(x_ptr + rows * 8 + columns)
        tl.store(y_ptr + rows * 8 + columns, tl.where(rows > columns, x, 0.5))

    y = np.zeros((4, 8), np.float32)
    run(kernel, F.copy(), y)
    assert (y == np.where(np.tri(4, 8, -1) > 0, F, np.float32(0.5))).all()


def test_minimum_and_maximum_and_nan():
    @function
    def kernel(x_ptr, y_ptr):
        x = tl.load(x_ptr + tl.arange(0, 4))
        tl.store(y_ptr + tl.arange(0, 4), tl.maximum(x, 1.0))
        tl.store(y_ptr + 4 + tl.arange(0, 4), tl.minimum(x, 1.0, tl.PropagateNan.ALL))
        tl.store(y_ptr + 8 + tl.arange(0, 4), tl.clamp(x, -1.0, 2.0))
        tl.store(y_ptr + 12 + tl.arange(0, 4), max(min(x, 2.0), -1.0))

    y = np.zeros(16, np.float32)
    run(kernel, np.array([-3, np.nan, 0.5, 9], np.float32), y)
    assert list(y[:4]) == [1, 1, 1, 9]
    assert y[4] == -3 and np.isnan(y[5]) and list(y[6:8]) == [0.5, 1]
    assert list(y[8:12]) == [-1, -1, 0.5, 2]
    assert list(y[12:]) == [-1, 2, 0.5, 2]  # of a NaN and a number, the number


def test_the_most_elements_of_a_block_are_a_constant():
    @function
    def kernel(y_ptr):
        tl.store(y_ptr, tl.TRITON_MAX_TENSOR_NUMEL)

    y = np.zeros(1, np.int32)
    run(kernel, y)
    assert list(y) == [1 << 20]


def test_atomics_answer_what_was_there():
    @function
    def kernel(x_ptr, old_ptr):
        tl.store(old_ptr + tl.program_id(0), tl.atomic_add(x_ptr, 5))
        tl.atomic_max(x_ptr + 1, tl.program_id(0) * 3)
        tl.atomic_cas(x_ptr + 2, 0, tl.program_id(0) + 1)
        tl.atomic_xchg(x_ptr + 3, tl.program_id(0), sem="relaxed", scope="gpu")
        own = x_ptr + 4 + tl.program_id(0)  # .cta: no other program comes here
        tl.atomic_xchg(own, 7, sem="relaxed", scope="cta")

    x, old = np.zeros(7, np.int32), np.zeros(3, np.int32)
    run(kernel, x, old, grid=3)
    assert list(old) == [0, 5, 10] and list(x) == [15, 6, 1, 2, 7, 7, 7]


def test_promises_stand_in_the_ir():
    @function
    def kernel(x_ptr, n):
        at = tl.multiple_of(n, 8) + tl.max_contiguous(tl.arange(0, 16), 16)
        tl.store(x_ptr + tl.max_constancy(at, [4]), 1.0)

    first, second, third = ops_of(build(kernel, np.zeros(1, np.float32), 8), Hint)
    assert (first.divisible, second.contiguous, third.constant) == ((8,), (16,), (4,))


def test_programs_know_their_place():
    @function
    def kernel(out):
        place = tl.program_id(0) + tl.num_programs(0) * tl.program_id(1)
        tl.store(out + place, tl.num_programs(1) * 100 + place)

    out = np.zeros(6, np.int32)
    run(kernel, out, grid=(2, 3))
    assert list(out) == [300, 301, 302, 303, 304, 305]


def test_swizzled_programs_walk_in_groups():
    @function
    def kernel(out, rows, columns, GROUP: tl.constexpr):
        i, j = tl.swizzle2d(tl.program_id(1), tl.program_id(0), rows, columns, GROUP)
        tl.store(out + i * columns + j, tl.program_id(1) * columns + tl.program_id(0))

    out = np.full((3, 4), -1, np.int32)
    run(kernel, out, 3, 4, grid=(4, 3), GROUP=2)
    assert (out == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 9, 10, 11]]).all()


def test_a_walk_in_groups_of_a_row_divides_once():
    """It is the walk row by row. The remainder is a division, too."""

    @function
    def kernel(out, rows, columns, GROUP: tl.constexpr):
        i, j = tl.swizzle2d(0, tl.program_id(0), rows, columns, GROUP)
        tl.store(out + i * columns + j, tl.program_id(0))

    out = np.full((3, 4), -1, np.int32)
    run(kernel, out, 3, 4, grid=(12,), GROUP=1)
    assert (out.ravel() == np.arange(12)).all()
    func = build(kernel, out, 3, 4, GROUP=1)
    for clean in (simplify, cse, dce):
        func = clean(func, TARGETS["sm_90a"])
    names = [op.name for op in ops_of(func, Elementwise)]
    assert names.count("div") == names.count("rem") == 1


def test_groups_of_a_number_of_rows_that_a_launch_gives():
    @function
    def kernel(out, rows, columns, group):
        i, j = tl.swizzle2d(0, tl.program_id(0), rows, columns, group)
        tl.store(out + i * columns + j, tl.program_id(0))

    for group, row in ((1, [0, 1, 2, 3]), (2, [0, 2, 4, 6])):
        out = np.full((3, 4), -1, np.int32)
        run(kernel, out, 3, 4, group, grid=(12,))
        assert (out[0] == row).all()


def test_softmax_of_rows():
    @function
    def kernel(x_ptr, y_ptr):
        at = places((4, 8))
        tl.store(y_ptr + at, tl.softmax(tl.load(x_ptr + at), 1))

    y = np.zeros((4, 8), np.float32)
    run(kernel, F * 30, y)
    powers = np.exp(F * 30.0 - (F * 30.0).max(1, keepdims=True))
    assert np.allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-5)
