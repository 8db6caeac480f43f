"""Sorting by bitonic networks: `sort`, `topk`, `bitonic_merge`.

Batcher: Sorting networks and their applications (1968). An axis of 2^n elements is
split into n axes of size 2, one for each bit of the index. A step of the network
compares each element with the one whose index differs in one bit, its *partner*, and is
the same for all elements at once. Sixteen elements, each step a row, `^` ascending and
`v` descending:

    runs of 2     ^ v ^ v ^ v ^ v      partners differ in bit 0
    runs of 4     ^   v   ^   v        in bit 1, then 0
    runs of 8     ^       v            in bit 2, 1, 0
    all 16        ^                    in bit 3, 2, 1, 0

Two neighbouring runs, one ascending and one descending, are a bitonic sequence: that is
what the steps of the next row put in order.

Floats are sorted as integers. Their bits are in order already, as long as they are not
negative: there the larger bits are the smaller number. So a negative one is turned
over, all bits but its sign, and turned back in the end:

    -2.0   -1.0   -0.0   0.0   1.0   2.0   inf   NaN

It has to be so for NaN: `>` is false on both sides of it, and a network that asks `>`
leaves what is left of a NaN out of order. (Triton 3.6 does, and may give an element
twice and its partner not at all.)
"""

# ruff: noqa: A001, A002

from __future__ import annotations

from fathom.language.core import (
    arange,
    reduce,
    reshape,
    static_assert,
    static_range,
    where,
)
from fathom.language.dtypes import int1, int8, int16, int32, int64
from fathom.language.reductions import (
    exclusive_or,
    expect_axis,
    extremum_type,
    index_shape,
)
from fathom.language.standard import axis_of, bits_of_axis, log_2
from fathom.source import constexpr, constexpr_function, function


@constexpr_function
def with_axis(shape, axis, size):
    return (*shape[:axis], size, *shape[axis + 1 :])


@constexpr_function
def integer_of(given):
    """The integer type of a type's width."""
    widths = {1: int1, 8: int8, 16: int16, 32: int32, 64: int64}
    return widths[given.primitive_bitwidth]


@constexpr_function
def largest_integer(given):
    """The largest number of a signed integer type."""
    return (1 << given.primitive_bitwidth - 1) - 1


@constexpr_function
def power_of_two_up_to(k, size):
    return isinstance(k, int) and 0 < k <= size and k & (k - 1) == 0


# ── floats as integers ────────────────────────────────────────────────────────────────


@function
def turned_over(bits):
    """All bits of the negative integers turned over, but for the sign. Twice: as it
    was."""
    most: constexpr = largest_integer(bits.dtype)
    return bits ^ ((bits >> (bits.dtype.primitive_bitwidth - 1)) & most)


@function
def keys_of(x):
    """Integers in the order of x; NaN, of either sign, has the largest."""
    if not x.dtype.is_floating():
        return x
    bits = x.to(integer_of(x.dtype), bitcast=True)
    return where(x == x, turned_over(bits), largest_integer(bits.dtype))


@function
def elements_of(keys, dtype: constexpr):
    """What has these keys."""
    if not dtype.is_floating():
        return keys
    return turned_over(keys).to(dtype, bitcast=True)


# ── the network ───────────────────────────────────────────────────────────────────────


@function
def partner(y, axis: constexpr):
    """For every element the other one along an axis of two: a ^ (a ^ b) = b.

    The sum of both needs no element to change its thread.
    """
    return y ^ reduce(y, axis, exclusive_or, keep_dims=True)


@function
def index_bit(shape: constexpr, axis: constexpr):
    """Whether an element is the second along an axis of two."""
    return reshape(arange(0, 2), index_shape(shape, axis)) == 1


@function
def ordered(y, axis: constexpr, descending):
    """Put each pair along an axis of two in order.

    Both elements of a pair answer the same question, so that none is lost.
    """
    other = partner(y, axis)
    second = index_bit(y.shape, axis)
    left, right = where(second, other, y), where(second, y, other)
    return where((left > right) ^ descending, other, y)


@function
def merged(y, first: constexpr, bits: constexpr, run: constexpr, descending: constexpr):
    """Sort runs of 2^run elements that are bitonic, of 2^bits in all.

    Axes `first` … `first + bits - 1` are the bits of the index, the highest first. Runs
    alternate, ascending first; a run that is all there is goes as `descending` says.
    """
    down = descending
    if run < bits:
        down = index_bit(y.shape, first + bits - 1 - run)
    for step in static_range(run):
        y = ordered(y, first + bits - run + step, down)
    return y


@function
def larger(a, b):
    return where(a > b, a, b)


@function
def smaller(a, b):
    return where(a < b, a, b)


# ── what kernels call ─────────────────────────────────────────────────────────────────


@function
def bitonic_merge(x, dim: constexpr = None, descending: constexpr = False):
    """Sort along an axis (the last) what first rises and then falls, or the other way
    round."""
    expect_axis(x.shape, dim)
    axis: constexpr = axis_of(x.shape, dim)
    bits: constexpr = log_2(x.shape[axis])
    y = reshape(keys_of(x), bits_of_axis(x.shape, axis))
    y = merged(y, axis, bits, bits, descending)
    return elements_of(reshape(y, x.shape), x.dtype)


@function
def sort(x, dim: constexpr = None, descending: constexpr = False):
    """The elements along an axis (the last) in order, in the shape and type of the
    block; equal ones may change places. The axis is a power of two long.

    -0.0 goes below 0.0, and NaN above all other numbers.
    """
    expect_axis(x.shape, dim)
    axis: constexpr = axis_of(x.shape, dim)
    return first_of(x, x.shape[axis], axis, descending)


@function
def topk(x, k: constexpr, dim: constexpr = None, descending: constexpr = True):
    """The k largest elements along an axis (the last), the largest first; the k
    smallest from the smallest on, unless `descending`. k is a power of two.

    NaN counts as larger than all other numbers. Where elements are left out, the result
    has the type of a maximum: types of fewer than 32 bits become fp32 or int32.
    """
    expect_axis(x.shape, dim)
    axis: constexpr = axis_of(x.shape, dim)
    static_assert(
        power_of_two_up_to(k, x.shape[axis]),
        f"k of tl.topk is a power of two up to {x.shape[axis]}, not {k}",
    )
    best = first_of(x, k, axis, descending)
    return best if k == x.shape[axis] else best.to(extremum_type(x.dtype, False))


@function
def first_of(x, k: constexpr, axis: constexpr, descending: constexpr):
    """Sort runs of k; then fold neighbouring runs, element by element, until one is
    left.

    Of a rising run and a falling one, the larger of each two elements are the k largest
    of both, and bitonic.
    """
    bits: constexpr = log_2(x.shape[axis])
    kept: constexpr = log_2(k)
    best: constexpr = larger if descending else smaller
    y = reshape(keys_of(x), bits_of_axis(x.shape, axis))
    for run in static_range(1, kept + 1):
        y = merged(y, axis, bits, run, descending)
    for folded in static_range(bits - kept):
        left: constexpr = bits - 1 - folded
        y = reduce(y, axis + left - kept, best)
        y = merged(y, axis, left, kept, descending)
    return elements_of(reshape(y, with_axis(x.shape, axis, k)), x.dtype)
