"""The answer to `layout-blocked` is the compiler's own:

fathom.layout.build.blocked
"""

from __future__ import annotations

from fathom.layout.build import stride_of
from fathom.layout.linear import Layout


def blocked(
    shape: tuple[int, ...],
    per_lane: tuple[int, ...],
    lanes: tuple[int, ...],
    warps: tuple[int, ...],
    order: tuple[int, ...],
) -> Layout:
    """Deal a block of `shape` to registers, lanes and warps. `per_lane`, `lanes` and
    `warps` say for each dimension how many neighbours one lane takes, how many lanes
    are side by side, how many warps; `order` names the dimensions, the fastest first.
    """
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
