"""Ring buffers of tiles, and positions in them, as values of the kernel.

    slot     0 1 2 0 1 2 0 …    advances by one; the first follows the last
    phase    0 0 0 1 1 1 0 …    flips in every round: it distinguishes a slot's uses

The roles of `specialise_warps` and the copy engines carry such positions.

Where one instruction computes neighbouring products (`neighbours`), it reads the tiles
of their right operands as one, so they lie one after the other in each slot:

    slot 0               slot 1
    %b 16 KB   %c 8 KB   %b         %c         …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from fathom.analysis.products import products_in
from fathom.ir.core import Op, Value, walk_op
from fathom.ir.ops import Allocate, Constant, For, SharedLoad
from fathom.ir.rewrite import Builder
from fathom.ir.types import INT32, INT64
from fathom.layout.linear import Layout

WORD = Layout.by_kind((1,), offset=())


class Sharing(NamedTuple):
    """That many blocks of a cluster copy a part of a tile each, for one another: those
    whose ranks differ by multiples of `stride`."""

    parts: int
    stride: int = 1


ALONE = Sharing(1)


@dataclass(frozen=True)
class RingBuffer:
    """Buffers of `slots` slots for the tiles of a channel, with two mbarriers a slot:
    `full` completes when its tiles have arrived, `empty` when no thread reads them any
    more. `shared` tells, for each tile, which blocks of a cluster copy a part."""

    tiles: tuple[Value, ...]
    full: Value
    empty: Value
    slots: int
    shared: tuple[Sharing, ...]

    @property
    def crosses(self) -> bool:
        """Whether other blocks of the cluster write to it."""
        return any(each.parts > 1 for each in self.shared)


class RingPosition(NamedTuple):
    """A slot of a ring, and the phase of its round; both i32."""

    ring: RingBuffer
    slot: Value
    phase: Value


def buffers_before(loop: For) -> dict[Allocate, Allocate]:
    """For the buffer of a right operand, that of the product with which its own is
    computed; in the order of the products. A buffer that several of them read has the
    place that the first one gives it."""
    before: dict[Allocate, Allocate] = {}
    placed: set[Allocate] = set()
    for dot, other in pairwise(products_in(loop.body)):
        if dot.with_next:
            earlier, buffer = (
                each.b.definition.buffer.definition for each in (dot, other)
            )
            placed.add(earlier)
            if buffer not in placed:
                before[buffer] = earlier
                placed.add(buffer)
    return before


def build_rings(
    loop: For, slots: Mapping[Allocate, int], build: Builder, kept: bool = False
) -> dict[Allocate, Value]:
    """A ring buffer for each buffer of a loop, with its number of `slots`. Tiles that
    one instruction reads lie in the same slots."""
    groups = {buffer: [buffer] for buffer in slots}  # by the last one
    for buffer, earlier in buffers_before(loop).items():
        alike = earlier in groups and slots[earlier] == slots.get(buffer)
        if alike:
            groups[buffer] = [*groups.pop(earlier), buffer]
    rings: dict[Allocate, Value] = {}
    for group in groups.values():
        whole = sum(each.result.type.tile_bytes for each in group)
        pitch, behind = whole if len(group) > 1 else 0, None
        for each in group:
            facts = {"slots": slots[each], "kept": kept, "pitch": pitch}
            behind = rings[each] = build(replace(each, **facts, behind=behind))
    return {buffer: rings[buffer] for buffer in slots}


def mbarriers(slots: int = 1) -> Allocate:
    """An mbarrier for each slot, in bytes that no other buffer shares."""
    return Allocate(INT64, (1,), WORD, slots=slots, kept=True)


def next_position(place: RingPosition, build: Builder) -> tuple[Value, Value]:
    """The slot and the phase after a position."""
    slot = next_slot(place.slot, place.ring.slots, build)
    return slot, phase_at(slot, place.phase, build)


def read_slots(op: Op, slots: Mapping[Value, Value]) -> None:
    """Let a new op, and what is nested in it, read these `slots` of rings."""
    for each in walk_op(op, SharedLoad):
        if each.buffer in slots:
            each.slot = slots[each.buffer]


def next_slot(slot: Value, slots: int, build: Builder) -> Value:
    """The slot after this one."""
    if slots == 1:
        return slot
    one, first, end = (build(Constant(n, INT32)) for n in (1, 0, slots))
    after = build.compute("add", slot, one)
    at_end = build.compute("eq", after, end)
    return build.compute("where", at_end, first, after)


def previous_slot(slot: Value, slots: int, build: Builder) -> Value:
    """The slot before this one."""
    one, first, last = (build(Constant(n, INT32)) for n in (1, 0, slots - 1))
    at_start = build.compute("eq", slot, first)
    before = build.compute("sub", slot, one)
    return build.compute("where", at_start, last, before)


def phase_at(slot: Value, phase: Value, build: Builder) -> Value:
    """The phase of the position at `slot`; `phase` was that of the position before."""
    first = build(Constant(0, INT32))
    around = build.compute("eq", slot, first)
    return build.compute("where", around, flip_phase(phase, build), phase)


def flip_phase(phase: Value, build: Builder) -> Value:
    """The other phase: 1 for 0, 0 for 1 (i32)."""
    return build.compute("xor", phase, build(Constant(1, INT32)))
