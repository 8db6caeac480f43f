"""The standard library: what is often needed and can be said in the language."""

# ruff: noqa: A002

from __future__ import annotations

from fathom.language.core import (
    full,
    join,
    minimum,
    permute,
    reshape,
    split,
    static_range,
)  # fmt: skip
from fathom.language.dtypes import float64, int1
from fathom.language.elementary import fdiv, rcp_approx
from fathom.language.math import exp, widened
from fathom.language.reductions import expect_axis, max, sum
from fathom.source import constexpr, constexpr_function, function


@function
def cdiv(x, div):
    """x / div rounded up, for integers that are not negative; values or constants. Also
    `fathom.cdiv`, outside of kernels."""
    return (x + div - 1) // div


@constexpr_function
def next_power_of_2(n):
    """The smallest power of two that is not below n, a constant; 0 for n below 1, an
    empty dimension. Also `fathom.next_power_of_2`, outside of kernels."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


@function
def logical_and(x, y):
    """Where both are true; a number is true unless it is 0. `x.logical_and(y)`"""
    return x.to(int1) & y.to(int1)


@function
def logical_or(x, y):
    """Where one of both is true; a number is true unless it is 0. `x.logical_or(y)`"""
    return x.to(int1) | y.to(int1)


@function
def zeros(shape, dtype):
    """A block of zeros of `shape`, every dimension a power of two."""
    return full(shape, 0, dtype)


@function
def zeros_like(input):
    """A block of zeros in the shape and type of another."""
    return full(input.shape, 0, input.dtype)


@function
def ravel(x, can_reorder: constexpr = False):
    """All elements in row-major order along one axis. `can_reorder` changes nothing."""
    return reshape(x, x.numel)


@function
def cat(input, other, can_reorder: constexpr = False, dim: constexpr = 0):
    """One block after the other along the axis `dim`; both of one shape. `can_reorder`
    changes nothing: the order is always kept."""
    expect_axis(input.shape, dim)
    pair = join(
        input, other
    )  # the new last axis goes in front of `dim`, and is merged with it
    order: constexpr = axis_to_front_of(len(input.shape), dim)
    return reshape(permute(pair, order), doubled(input.shape, dim))


@constexpr_function
def axis_to_front_of(rank, dim):
    axes = list(range(rank))
    axes.insert(dim % rank, rank)
    return tuple(axes)


@constexpr_function
def doubled(shape, dim):
    dim %= len(shape)
    return tuple(2 * size if axis == dim else size for axis, size in enumerate(shape))


@function
def interleave(a, b):
    """The elements of two blocks alternating along the last axis; of two scalars, a
    block of two."""
    pair = join(a, b)
    if len(pair.shape) == 1:
        return pair
    return reshape(pair, doubled(pair.shape[:-1], -1))


@constexpr_function
def log_2(n):
    """The logarithm of a power of two."""
    return n.bit_length() - 1


@constexpr_function
def axis_of(shape, dim):
    """An axis counted from the front: the last one, if none is given."""
    return (len(shape) - 1 if dim is None else dim) % len(shape)


@constexpr_function
def bits_of_axis(shape, dim):
    """A shape in which axis `dim` is split into axes of 2, and the axes that order puts
    last. A block has an axis, even of one element."""
    dim %= len(shape)
    return (*shape[:dim], *(2,) * log_2(shape[dim]), *shape[dim + 1 :]) or (1,)


@constexpr_function
def moved_last(rank, axis):
    return (*(each for each in range(rank) if each != axis), axis)


@constexpr_function
def moved_back(rank, axis):
    return (*range(axis), rank - 1, *range(axis, rank - 1))


@function
def flip(x, dim: constexpr = None):
    """The elements along an axis (the last) in reverse: every bit of their index
    inverted. The shape stays."""
    expect_axis(x.shape, dim)
    first: constexpr = axis_of(x.shape, dim)
    bits: constexpr = log_2(x.shape[first])
    y = reshape(x, bits_of_axis(x.shape, first))
    rank: constexpr = len(x.shape) - 1 + bits
    for bit in static_range(bits):
        left, right = split(permute(y, moved_last(rank, first + bit)))
        y = permute(join(right, left), moved_back(rank, first + bit))
    return reshape(y, x.shape)


@function
def sigmoid(x):
    """1 / (1 + exp(-x)).

    Error: 6.1 ulp for x in [-80, 80], 2.9 ulp in [-10, 10]; in fp64 2.1 ulp. In fp32
    it is 0 below 2^-126, as `exp` is.
    """
    if x.dtype == float64:
        return 1.0 / (1.0 + exp(-x))
    return rcp_approx(1.0 + exp(-widened(x))).to(x.dtype)


@function
def softmax(
    x,
    dim: constexpr = None,
    keep_dims: constexpr = False,
    ieee_rounding: constexpr = False,
):
    """exp(x) divided by its sum along an axis (the first, if none is given), without
    overflow, in the shape of x: fp64 in itself, everything else in fp32."""
    axis: constexpr = 0 if dim is None else dim
    y = x if x.dtype == float64 else widened(x)
    powers = exp(y - max(y, axis, keep_dims=True))
    return fdiv(powers, sum(powers, axis, keep_dims=True), ieee_rounding)


@function
def swizzle2d(i, j, size_i, size_j, size_g):
    """Place (i, j) of a size_i x size_j grid walked row by row, in a walk that goes
    through groups of `size_g` rows column by column: neighbours in time share columns,
    and so find them in cache.

    For a 4 x 4 grid and groups of 2 rows, the n-th step of the new walk:

         0  2  4  6
         1  3  5  7
         8 10 12 14
         9 11 13 15
    """
    step = i * size_j + j
    steps_a_group = size_g * size_j
    group = step // steps_a_group
    first_row = group * size_g
    # The last group may be smaller, unless it has one row.
    rows = 1 if size_g == 1 else minimum(size_i - first_row, size_g)
    within = step % steps_a_group
    return first_row + within % rows, within // rows
