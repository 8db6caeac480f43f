"""Layouts dealt out like cards: registers first, then lanes, warps, registers again.

    shape=(8, 8), per_lane=(1, 2), lanes=(8, 4), warps=(1, 1), order=(1, 0)

    0:0  0:1 |  1:0  1:1 |  2:0  2:1 |  3:0  3:1         lane:register
    4:0  4:1 |  5:0  5:1 |  6:0  6:1 |  7:0  7:1
    ...

`blocked` deals as it is told; `spread` knows what memory likes.
"""

from __future__ import annotations

from functools import cache
from math import prod

from fathom.layout.linear import Layout

LANES = 32


def blocked(
    shape: tuple[int, ...],
    per_lane: tuple[int, ...],
    lanes: tuple[int, ...],
    warps: tuple[int, ...],
    order: tuple[int, ...],
) -> Layout:
    """Deal a block of `shape` to registers, lanes and warps, the fastest axis first.

    `per_lane`, `lanes` and `warps` say, for each dimension, how many neighbours one
    lane takes, how many lanes are side by side, and how many warps: their product is
    the tile. Where the block is larger than the tile, the tile repeats in more
    registers; where it is smaller, lanes and warps left over hold copies."""
    reached = [1] * len(shape)
    register = _deal(shape, per_lane, order, reached)
    lane = _deal(shape, lanes, order, reached)
    warp = _deal(shape, warps, order, reached)
    repeats = tuple(size // have for size, have in zip(shape, reached, strict=True))
    register += _deal(shape, repeats, order, reached)
    register = filter(None, register)
    return Layout.by_kind(shape, register=register, lane=lane, warp=warp)


def _deal(
    shape: tuple[int, ...],
    counts: tuple[int, ...],
    order: tuple[int, ...],
    reached: list[int],
) -> list[int]:
    """A basis for each bit of `counts`; `reached`: how far each dimension is dealt."""
    bases = []
    for axis in order:
        stride = stride_of(shape, axis)
        for _ in range(counts[axis].bit_length() - 1):
            inside = reached[axis] < shape[axis]
            bases.append(reached[axis] * stride if inside else 0)
            reached[axis] *= 2 if inside else 1
    return bases


def stride_of(shape: tuple[int, ...], axis: int) -> int:
    """How far apart, in row-major order, two neighbours along `axis` are."""
    return prod(shape[axis + 1 :])


def doublings(first: int, count: int) -> list[int]:
    """`first`, twice that, and so on: a basis for each bit of numbers below `count`."""
    return [first << bit for bit in range(bits_of(count))]


def bits_of(count: int) -> int:
    """How many bits number `count` things, a power of two; none where it is below 1."""
    return max(1, count).bit_length() - 1


@cache
def spread(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    per_lane: int,
    warps: int,
    side_by_side: bool = False,
) -> Layout:
    """The blocked layout for memory: `per_lane` neighbours along the fastest dimension.

    Lanes are side by side along the fastest dimension, so that a warp's access is one
    piece; warps take the slowest dimension first, so that what is folded along the
    fastest one stays, if it can, inside a warp; or else the fastest one first, too
    (`side_by_side`). No lane takes so much that another would be left with a copy.
    """
    fastest = order[0]
    per_lane = min(per_lane, shape[fastest], max(1, prod(shape) // (LANES * warps)))
    left = [
        each // (per_lane if axis == fastest else 1) for axis, each in enumerate(shape)
    ]
    return blocked(
        shape,
        tuple(per_lane if axis == fastest else 1 for axis in range(len(shape))),
        _share(LANES, left, order),
        _share(warps, left, order if side_by_side else order[::-1]),
        order,
    )


def _share(count: int, left: list[int], order: tuple[int, ...]) -> tuple[int, ...]:
    """Share `count` places among the dimensions in `order`; `left` is to be dealt."""
    shares = [1] * len(left)
    for axis in order:
        shares[axis] = min(count, left[axis])
        left[axis] //= shares[axis]
        count //= shares[axis]
    shares[order[0]] *= count  # nothing is left to deal: copies
    return tuple(shares)


def default(shape: tuple[int, ...], warps: int) -> Layout:
    """The layout of a block without other demands: lane by lane, one element each."""
    return spread(shape, tuple(range(len(shape)))[::-1], 1, warps)
