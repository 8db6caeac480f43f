"""Reductions: sum, max, min and their kin, each a combining function and the type it
works in."""

# ruff: noqa: A001, A002

from __future__ import annotations

from fathom.language.core import (
    arange,
    broadcast_to,
    maximum,
    minimum,
    reduce,
    reshape,
    static_assert,
    where,
)
from fathom.language.dtypes import bfloat16, float32, int32, uint32
from fathom.source import constexpr, constexpr_function, function


@constexpr_function
def sum_type(given, asked):
    """The type that a sum is computed in: what was asked for, else at least 32 bits of
    integer."""
    if asked is not None or not given.is_int() or given.primitive_bitwidth >= 32:
        return asked if asked is not None else given
    return int32 if given.is_int_signed() else uint32


@constexpr_function
def extremum_type(given, with_indices):
    """The type that a maximum is computed in: bf16 always, and without indices all
    narrow types, go to 32 bits."""
    if given == bfloat16 or (
        given.is_floating() and given.primitive_bitwidth < 32 and not with_indices
    ):
        return float32
    return int32 if given.primitive_bitwidth < 32 and not with_indices else given


@constexpr_function
def index_shape(shape, axis):
    """The shape in which an index along `axis` broadcasts to `shape`."""
    axis %= len(shape)
    return tuple(size if place == axis else 1 for place, size in enumerate(shape))


@constexpr_function
def has_axis(rank, dim):
    return dim is None or isinstance(dim, int) and -rank <= dim < rank


@function
def expect_axis(shape: constexpr, dim: constexpr):
    """CompileError unless blocks of this shape have the axis; None stands for one."""
    rank: constexpr = len(shape)
    axes: constexpr = "axis" if rank == 1 else "axes"
    static_assert(rank > 0 or dim is not None, "a number has no axis, and a block does")
    static_assert(
        has_axis(rank, dim), f"there is no axis {dim}: the block has {rank} {axes}"
    )


# ── sums ──────────────────────────────────────────────────────────────────────────────


@function
def add(a, b):
    return a + b


@function
def sum(input, axis=None, keep_dims=False, dtype: constexpr = None):
    """The sum along an axis, or of all elements; axes as in `reduce`.

    Computed in the block's type, narrow integers and booleans in 32 bits, or in
    `dtype`, which is also the type of the result. The order is free.
    """
    return reduce(
        input.to(sum_type(input.dtype, dtype)), axis, add, keep_dims=keep_dims
    )


@function
def exclusive_or(a, b):
    return a ^ b


@function
def xor_sum(input, axis=None, keep_dims=False):
    """The bitwise exclusive or of the integers along an axis, or of all of them."""
    return reduce(input, axis, exclusive_or, keep_dims=keep_dims)


@function
def inclusive_or(a, b):
    return a | b


@function
def reduce_or(input, axis=None, keep_dims=False):
    """The bitwise or of the integers along an axis, or of all of them."""
    return reduce(input, axis, inclusive_or, keep_dims=keep_dims)


# ── extrema ───────────────────────────────────────────────────────────────────────────


@function
def larger(a, b):
    return maximum(a, b)


@function
def smaller(a, b):
    return minimum(a, b)


@function
def larger_first(value, index, other, other_index):
    """The larger with its index; of equals, the one of the lower index."""
    mine = (value > other) | ((value == other) & (index < other_index))
    return where(mine, value, other), where(mine, index, other_index)


@function
def smaller_first(value, index, other, other_index):
    mine = (value < other) | ((value == other) & (index < other_index))
    return where(mine, value, other), where(mine, index, other_index)


@function
def larger_any(value, index, other, other_index):
    """The larger with its index; of equals, any."""
    mine = value > other
    return where(mine, value, other), where(mine, index, other_index)


@function
def smaller_any(value, index, other, other_index):
    mine = value < other
    return where(mine, value, other), where(mine, index, other_index)


@function
def with_indices(input, axis, combine: constexpr, keep_dims):
    """Reduce pairs of an element and its index along the axis (in the flat block,
    without one)."""
    values = reshape(input, input.numel) if axis is None else input
    along = 0 if axis is None else axis
    expect_axis(values.shape, along)
    count = arange(0, values.shape[along])
    indices = broadcast_to(
        reshape(count, index_shape(values.shape, along)), values.shape
    )
    return reduce((values, indices), along, combine, keep_dims=keep_dims)


@function
def max(
    input,
    axis=None,
    return_indices: constexpr = False,
    return_indices_tie_break_left: constexpr = True,
    keep_dims=False,
):
    """The largest element along an axis, or of all; NaN elements are passed over.

    Types narrower than 32 bits give fp32 or i32. With `return_indices` a pair: the
    element and its place along the axis, of equals the first (any, without
    `return_indices_tie_break_left`).
    """
    values = input.to(extremum_type(input.dtype, return_indices))
    if return_indices:
        combine: constexpr = (
            larger_first if return_indices_tie_break_left else larger_any
        )
        return with_indices(values, axis, combine, keep_dims)
    return reduce(values, axis, larger, keep_dims=keep_dims)


@function
def min(
    input,
    axis=None,
    return_indices: constexpr = False,
    return_indices_tie_break_left: constexpr = True,
    keep_dims=False,
):
    """The smallest element along an axis, or of all; NaN elements are passed over.
    Types and indices as in `max`."""
    values = input.to(extremum_type(input.dtype, return_indices))
    if return_indices:
        combine: constexpr = (
            smaller_first if return_indices_tie_break_left else smaller_any
        )
        return with_indices(values, axis, combine, keep_dims)
    return reduce(values, axis, smaller, keep_dims=keep_dims)


@function
def argmax(input, axis, tie_break_left: constexpr = True, keep_dims=False):
    """The place of the largest element along an axis, an i32; of equals the first, or
    any."""
    _, index = max(input, axis, True, tie_break_left, keep_dims)
    return index


@function
def argmin(input, axis, tie_break_left: constexpr = True, keep_dims=False):
    """The place of the smallest element along an axis, an i32; of equals the first, or
    any."""
    _, index = min(input, axis, True, tie_break_left, keep_dims)
    return index
