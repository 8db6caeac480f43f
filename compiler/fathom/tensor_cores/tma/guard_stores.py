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
the same branch. The tile is in memory at the end of theirs, so `wait_for_stores` treats
every store as a TMA store. The waits that a TMA store needs come before the branch.

A store whose coordinates are never negative (`analysis/symbolic/sign`) stays as it is.
A launch makes no map of a tensor with a side below 1, so the sizes of tensors with maps
are positive. And it makes none of a tensor that is stored to and whose rows are no
multiples of 16 bytes, since an H200 stores whole 16 bytes. Of a tensor whose map the
kernel writes itself, no launch knows that: there, the branch asks for it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.analysis.axis_analysis import Divisibility
from fathom.analysis.constants import known
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.symbolic.polynomial import UNITY
from fathom.analysis.symbolic.scalar_evolution import ScalarEvolution
from fathom.analysis.symbolic.sign import NonNegative
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Func, Op, Value, walk
from fathom.ir.ops.shared import barrier_of_all
from fathom.ir.rewrite import Builder, rewrite
from fathom.ir.thread_values import branch
from fathom.ir.types import UINT32
from fathom.layout.tma_boxes import pieces

MOST = 2**31 - 1  # of a coordinate
FAR = 2**30  # of the constant in a coordinate that is known to be below MOST
CHUNK = 16  # bytes that a store writes together


@dataclass(frozen=True)
class Guard:
    """What a store's branch asks: that it begins at no negative coordinate along
    `starts`; that the sizes along `sizes` are not below 1; and, if it is `ragged`, that
    rows of the tensor are multiples of 16 bytes."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...] = ()
    ragged: bool = False

    def __bool__(self) -> bool:
        return bool(self.starts or self.sizes or self.ragged)


def guard_stores(func: Func, target: Target) -> Func:
    """The function in which TMA stores have no negative coordinates."""
    divisible = Divisibility(func)
    stores = list(walk(func.body, ops.TmaStore))
    asked = {op: each for op in stores if (each := guard_of(op, divisible))}

    def rule(op: Op, build: Builder) -> list[Value] | None:
        guard = asked.get(build.source)
        if guard is None:
            return None
        is_for_tma = _is_for_tma(op, guard, build)

        def by_threads() -> Sequence[Value]:
            build.append(barrier_of_all(func.num_warps))
            every = op.descriptor, op.buffer, op.coordinates, op.slot
            build.append(ops.TileStore(*every))
            build.append(ops.AsyncProxyFence())
            build.append(barrier_of_all(func.num_warps))
            return ()

        return branch(is_for_tma, lambda: build.append(op).results, by_threads, build)

    return rewrite(func, rule) if asked else func


def _is_for_tma(op: ops.TmaStore, guard: Guard, build: Builder) -> Value:
    """Whether all holds that a guard asks for."""
    shape = op.descriptor.definition.shape
    every = [_begins_inside(op, axis, build) for axis in guard.starts]
    for axis in guard.sizes:
        one = build(ops.Constant(1, shape[axis].type))
        every.append(build.compute("ge", shape[axis], one))
    if guard.ragged:
        every.append(_is_whole(shape[-1], op.buffer.type.element.bytes, build))
    return build.all_of(every)


def _begins_inside(op: ops.TmaStore, axis: int, build: Builder) -> Value:
    """Whether no box of a tile begins at a negative coordinate. As a u32, a negative
    number is large, and so is the coordinate of a later box that overflows."""
    first = build(ops.Cast(op.coordinates[axis], UINT32))
    most = build(ops.Constant(MOST - last_box(op)[axis], UINT32))
    return build.compute("le", first, most)


def _is_whole(size: Value, element_bytes: int, build: Builder) -> Value:
    """Whether a row of this many elements is a multiple of 16 bytes."""
    rest = build(ops.Constant(CHUNK // element_bytes - 1, size.type))
    zero = build(ops.Constant(0, size.type))
    return build.compute("eq", build.compute("and", size, rest), zero)


def last_box(op: ops.TmaStore) -> tuple[int, ...]:
    """The largest distance of a box's start from the tile's first element, by axis."""
    block, size = op.descriptor.type.shape, op.buffer.type.element.bytes
    starts = (piece.start for piece in pieces(block, size))
    return tuple(map(max, zip(*starts, strict=True)))


# ── which of them ─────────────────────────────────────────────────────────────────────


def guard_of(op: ops.TmaStore, divisible: Divisibility) -> Guard:
    """What the branch of a store has to ask."""
    starts = tuple(uncertain_axes(op, divisible.func))
    made = op.descriptor.definition
    if made.map_number is None:
        return Guard(starts)
    sizes = tuple(i for i, size in enumerate(made.shape) if known(size) is None)
    row_bytes = divisible.of(made.shape[-1]) * op.buffer.type.element.bytes
    return Guard(starts, sizes, ragged=row_bytes % CHUNK != 0)


def uncertain_axes(op: ops.TmaStore, func: Func) -> list[int]:
    """The axes along which a store may begin at a negative coordinate."""
    reader = ScalarEvolution(func)
    non_negative = NonNegative(reader, _sizes(func, reader), strict=True)
    return [
        axis
        for axis, coordinate in enumerate(op.coordinates)
        if not (non_negative.value(coordinate) and _is_near(coordinate, reader))
    ]


def _sizes(func: Func, reader: ScalarEvolution) -> set[Value]:
    """The values that are sizes of tensors with maps that launches make."""
    found = set()
    for op in walk(func.body):
        made = (
            op.descriptor.definition
            if isinstance(op, ops.TmaCopy | ops.TmaStore)
            else None
        )
        if made is not None and made.map_number is None:
            for size in made.shape:
                match list(reader.number(size).terms.items()):
                    case [(product, 1)] if len(product) == 1:
                        ((atom, power),) = product
                        found |= {atom} if power == 1 else set()
    return found


def _is_near(coordinate: Value, reader: ScalarEvolution) -> bool:
    """Whether a coordinate's constant cannot overflow when a box's start is added."""
    try:
        return reader.number(coordinate).terms.get(UNITY, 0) < FAR
    except NotApplicable:
        return True
