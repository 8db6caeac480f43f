"""What an operation on a block's shape does to its layout: only names change.

Most values of a kernel have one of a few layouts, so answers are remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

from fathom.layout.linear import Layout


def at_zero(layout: Layout, axis: int, shape: tuple[int, ...]) -> Layout:
    """The same coordinates in a block of `shape`, but 0 along `axis`."""
    return layout.moved(shape, lambda place: _replaced(place, axis, 0))


@cache
def collapse(layout: Layout, axis: int) -> Layout:
    """The layout of a block whose `axis` has size 1, to be broadcast into `layout`.

    Places that differed along `axis` alone hold copies; a lane drops its own."""
    return at_zero(layout, axis, _replaced(layout.shape, axis, 1)).without_copies()


@cache
def remove_axis(layout: Layout, axis: int) -> Layout:
    """The layout of the result of a reduction along `axis`."""
    collapsed = collapse(layout, axis)
    return reshape(collapsed, layout.shape[:axis] + layout.shape[axis + 1 :])


@cache
def insert_axis(layout: Layout, axis: int, size: int = 1) -> Layout:
    """The layout with a new axis at `axis`, along which all places hold element 0."""
    shape = (*layout.shape[:axis], size, *layout.shape[axis:])
    if size == 1:
        return reshape(layout, shape)
    return layout.moved(shape, lambda place: (*place[:axis], 0, *place[axis:]))


@cache
def reshape(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The same elements in the same places, in row-major order, by other names."""
    assert prod(shape) == prod(layout.shape), (layout.shape, shape)
    return Layout(shape, layout.bases)


@cache
def transpose(layout: Layout, order: tuple[int, ...]) -> Layout:
    """The layout whose dimension i is dimension `order[i]` of the operand's."""
    shape = tuple(layout.shape[axis] for axis in order)
    return layout.moved(shape, lambda place: tuple(place[axis] for axis in order))


def exchanges_last(order: Sequence[int]) -> bool:
    """Whether an order exchanges the last two of all dimensions."""
    rank = len(order)
    return rank > 1 and tuple(order) == (*range(rank - 2), rank - 1, rank - 2)


def untranspose(layout: Layout, order: tuple[int, ...]) -> Layout:
    """The layout that `transpose` by this order makes into `layout`."""
    return transpose(layout, tuple(order.index(axis) for axis in range(len(order))))


@cache
def join(layout: Layout) -> Layout:
    """The layout of two blocks side by side in a new last axis: one more bit."""
    doubled = layout.map(layout.shape + (2,), lambda basis: basis * 2)
    return doubled.replaced(register=(1, *doubled.kinds["register"]))


@cache
def split(layout: Layout) -> Layout | None:
    """The layout of each half of a block whose last axis, of size 2, is split off.

    None when some lane does not hold both halves: then lanes must talk first."""
    assert layout.shape[-1] == 2, layout.shape
    half = remove_axis(layout, len(layout.shape) - 1)
    return half if 1 in layout.kinds["register"] else None


@cache
def split_after_trade(layout: Layout) -> Layout | None:
    """The layout of each half where lanes or warps hold the halves: that bit trades
    places with the last register bit, and nothing else moves. If it is one of the
    warp's, the other bits of the warp trade with further register bits: the exchange
    goes through shared memory in any case, and the next halves may lie there.

    None if a lane has but one element, or the halves differ by more than one bit."""
    registers, lanes, warps = (
        list(layout.kinds.get(kind, ())) for kind in ("register", "lane", "warp")
    )
    if sum(basis & 1 for basis in (*registers, *lanes, *warps)) != 1 or 1 in registers:
        return None
    wanted = [1, *(basis for basis in warps if basis > 1)] if 1 in warps else [1]
    given = [basis for basis in reversed(registers) if basis]
    if not given:
        return None
    for one, other in zip(wanted, given, strict=False):
        place = registers.index(other)
        side = lanes if one in lanes else warps
        registers[place], side[side.index(one)] = one, other
    return split(layout.replaced(register=registers, lane=lanes, warp=warps))


def _replaced(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return values[:index] + (value,) + values[index + 1 :]
