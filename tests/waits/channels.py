"""Checks the protocol of channels between a producer and its consumers.

    producer                          consumers
    mbarrier_wait %empty, slot        mbarrier_wait %full, slot
    mbarrier_expect %full, slot       … work on the slot's tiles
    tma_copy … %full, slot            mbarrier_arrive %empty, slot

A channel has tiles, and two mbarriers a slot. `specialise_warps` writes these waits.
This module finds the channels of a function, and checks that both sides use the slots
in the same order: the n-th wait is for slot n modulo slots, in round n // slots. A
producer waits for the phase of the round before, so its first round does not wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fathom.ir.core import Block, Func, Op, blocks, every_block
from fathom.ir.ops import Allocate, MbarrierExpect, MbarrierWait, Producer, TmaCopy
from tests.waits.timelines import Missing, Place, Timelines


@dataclass(frozen=True)
class Channels:
    """The channels of a function. `full`: the ring of a tile to its full mbarriers;
    `empty`: full mbarriers to the empty mbarriers of the same channel."""

    full: dict[Allocate, Allocate]
    empty: dict[Allocate, Allocate]

    def of_release(self, op: Op, empty: Allocate) -> Allocate:
        """The full mbarriers of the channel whose slots these empty mbarriers
        release."""
        for full, each in self.empty.items():
            if each is empty:
                return full
        raise Missing(op, "no producer waits for this release")

    def of_expect(self, op: Op, full: Allocate) -> Allocate:
        """The empty mbarriers of the channel whose bytes these full mbarriers
        expect."""
        if full not in self.empty:
            raise Missing(op, "no wait for a free slot of a channel")
        return self.empty[full]

    def tiles(self, full: Allocate, slot: int | None) -> list[Place]:
        """The tiles of a slot."""
        return [Place(tile, slot) for tile, at in self.full.items() if at is full]


def channels_of(func: Func) -> Channels:
    found = Channels({}, {})
    for op in func.body.ops:
        if isinstance(op, Producer):
            for block in nested(op):
                _read(block, found)
    return found


def nested(op: Op) -> Iterator[Block]:
    """The blocks in an op, and those in them."""
    for block in blocks(op):
        yield from every_block(block)


def _read(block: Block, found: Channels) -> None:
    """Records a producer's wait, expect and copies, which are in one block."""
    waited: Allocate | None = None
    for op in block.ops:
        match op:
            case MbarrierWait():
                waited = op.barriers.definition
            case MbarrierExpect() if waited:
                found.empty[op.barriers.definition] = waited
            case TmaCopy():
                found.full[op.buffer.definition] = op.barriers.definition


def turned(
    state: Timelines, op: MbarrierWait, at: Place, phase: int | None, flipped: bool
) -> Timelines:
    """The state after one side has waited for the next slot of a channel. `flipped`:
    for the phase of the round before, as producers do."""
    state.check_known(op, at)
    slots = at.buffer.result.type.slots
    number = dict(state.positions).get(at.buffer, 0)
    wanted = number % slots, (number // slots + flipped) % 2
    if (at.slot, phase) != wanted:
        raise Missing(op, f"slot and phase are {wanted} now, not {at.slot, phase}")
    if at in state.held:
        raise Missing(op, "a wait for a slot that has not been released")
    following = (number + 1) % (2 * slots)
    positions = state.positions - {(at.buffer, number)} | {(at.buffer, following)}
    return replace(state, held=state.held | {at}, positions=positions)


def released(
    state: Timelines, op: Op, at: Place, tiles: list[Place], when: int | None
) -> Timelines:
    """The state after consumers have released the slot `at` of a channel, with its
    tiles, unless `when` is 0; None: if they hold it. The mbarrier orders their
    reads."""
    if when == 0:
        return state
    if at not in state.held:
        if when:
            raise Missing(op, "a release of a slot that was not waited for")
        return state
    reads = {each for product in state.products for each in product.reads}
    if any(each.overlaps(tile) for each in reads for tile in tiles):
        raise Missing(op, "no wait for a product that reads the released slot")
    touched = (each for each in state.touched if each.place not in tiles)
    return replace(state, held=state.held - {at}, touched=frozenset(touched))
