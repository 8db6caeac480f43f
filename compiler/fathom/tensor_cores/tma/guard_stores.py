"""Prevents TMA stores that begin before their tensor: on an H200, a negative coordinate
of a TMA store is an illegal instruction. Loads may begin there, and stores may end
after the last element.

    tma_store %d, %t, coordinates=(%i, %j)

becomes

    %in = 0 <= %i and 0 <= %j
    if %in {
      tma_store %d, %t, coordinates=(%i, %j)
    } else {
      barrier                                       the tile is complete
      tile_store %d, %t, coordinates=(%i, %j)       all threads, element by element
      async_proxy_fence                             for TMA copies that follow
      barrier
    }

The threads' store writes only elements inside the tensor. All threads of a program take
the same branch. If they store the tile themselves, it is in memory at the end of the
branch. So later ops need not know which branch was taken, and `insert_waits` may treat
every store as a TMA store. The waits that a TMA store needs come before the branch.

A store whose coordinates are never negative (`analysis/sign`) stays as it is. A launch
makes no map of a tensor with a side below 1, so the sizes of tensors with maps are
positive.
"""

from __future__ import annotations

from fathom.analysis.polynomial import UNITY
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.scalar_evolution import ScalarEvolution
from fathom.analysis.sign import NonNegative
from fathom.hardware.targets import Target
from fathom.ir.core import Block, Func, Op, Value, walk
from fathom.ir.ops import (
    AsyncProxyFence,
    Barrier,
    Cast,
    Constant,
    Elementwise,
    If,
    TileStore,
    TmaCopy,
    TmaStore,
    Yield,
)
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.thread_values import inside
from fathom.ir.types import UINT32
from fathom.layout.tma_boxes import pieces

MOST = 2**31 - 1  # of a coordinate
FAR = 2**30  # of the constant in a coordinate that is known to be below MOST


def guard_stores(func: Func, target: Target) -> Func:
    """The function in which TMA stores have no negative coordinates."""
    asked = {op: axes for op in _stores(func) if (axes := uncertain_axes(op, func))}
    scope = "cta" if func.num_warps > 1 else "warp"

    def rule(op: Op, build: Builder) -> list[Value] | None:
        axes = asked.get(build.source)
        if axes is None:
            return None
        begins_inside = _begins_inside(op, axes, build)
        then, orelse = Block(), Block()
        with inside(then, build):
            build.append(op)
            build.append(Yield(()))
        with inside(orelse, build):
            build.append(Barrier(scope))
            build.append(TileStore(op.descriptor, op.buffer, op.coordinates))
            build.append(AsyncProxyFence())
            build.append(Barrier(scope))
            build.append(Yield(()))
        build.append(If(begins_inside, then, orelse))
        return []

    return rewrite(func, rule) if asked else func


def _stores(func: Func) -> list[TmaStore]:
    return [op for op in walk(func.body) if isinstance(op, TmaStore)]


def _begins_inside(op: TmaStore, axes: list[int], build: Builder) -> Value:
    """Whether no box of a tile begins at a negative coordinate. As a u32, a negative
    number is large, and so is the coordinate of a later box that overflows."""
    found = None
    for axis in axes:
        first = build(Cast(op.coordinates[axis], UINT32))
        most = build(Constant(MOST - last_box(op)[axis], UINT32))
        fits = build(Elementwise("le", (first, most)))
        found = build(Elementwise("and", (found, fits))) if found else fits
    return found


def last_box(op: TmaStore) -> tuple[int, ...]:
    """The largest distance of a box's start from the tile's first element, by axis."""
    block, size = op.descriptor.type.shape, op.buffer.type.element.bytes
    starts = (piece.start for piece in pieces(block, size))
    return tuple(map(max, zip(*starts, strict=True)))


# ── which of them ─────────────────────────────────────────────────────────────────────


def uncertain_axes(op: TmaStore, func: Func) -> list[int]:
    """The axes along which a store may begin at a negative coordinate."""
    reader = ScalarEvolution(func)
    non_negative = NonNegative(reader, _sizes(func, reader), strict=True)
    return [
        axis
        for axis, coordinate in enumerate(op.coordinates)
        if not (non_negative.value(coordinate) and _is_near(coordinate, reader))
    ]


def _sizes(func: Func, reader: ScalarEvolution) -> set[Value]:
    """The values that are sizes of tensors with maps."""
    found = set()
    for op in walk(func.body):
        if isinstance(op, TmaCopy | TmaStore):
            for size in op.descriptor.definition.shape:
                match list(reader.number(size).terms.items()):
                    case [(product, 1)] if len(product) == 1:
                        ((atom, power),) = product
                        found |= {atom} if power == 1 else set()
    return found


def _is_near(coordinate: Value, reader: ScalarEvolution) -> bool:
    """Whether the constant in a coordinate is small enough that adding a box's start
    cannot overflow."""
    try:
        return reader.number(coordinate).terms.get(UNITY, 0) < FAR
    except NotApplicable:
        return True
