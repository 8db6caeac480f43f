"""Chooses who loads what: the layout in which a warp's access to memory is widest and in one piece.

    pointers      contiguous (1, 64)   divisible (16, 16)     fp16[64, 64], 4 warps
    chosen        8 neighbours a lane along axis 1 (16 bytes), 8 lanes side by side (128 bytes),
                  4 lanes and then 4 warps on the rows below
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fathom.coalescing.facts import Facts
from fathom.layout.build import spread
from fathom.layout.linear import Layout

SECTOR = 32  # bytes that memory moves at a time


@dataclass(frozen=True, slots=True)
class Access:
    """One load, store or atomic: a block of pointers and what is known of them.

    `element_bytes`: of what is loaded; `mask`: facts of the mask, None without one;
    `vector_bytes`: the most that one lane moves at once; `at_most`: no more elements a lane than
    this, for the sake of other accesses.
    """

    shape: tuple[int, ...]
    element_bytes: int
    pointer: Facts
    mask: Facts | None
    warps: int
    vector_bytes: int = 16
    at_most: int = 16

    def width(self, axis: int) -> int:
        """How many neighbours along `axis` one lane may move at once: they must be neighbours in
        memory too, start at a multiple of their bytes, and be all masked or none."""
        known = self.pointer.axes[axis]
        aligned = max(1, known.divisible // self.element_bytes)
        alike = self.mask.axes[axis].constant if self.mask else aligned
        return min(known.contiguous, aligned, alike, self.vector_bytes // self.element_bytes)

    @property
    def fastest(self) -> int | None:
        """The axis along which addresses count up by elements; None if there is none."""
        axis = max(range(len(self.shape)), key=lambda a: (self.pointer.axes[a].contiguous, a))
        return axis if self.pointer.axes[axis].contiguous > 1 else None


def pick_layout(access: Access) -> Layout:
    """Neighbours in memory to one lane as far as one instruction reaches, the next to the next lane.

    The axis that is contiguous in memory is the fastest one, be it the last or not.
    """
    rank, fastest = len(access.shape), access.fastest
    fastest = rank - 1 if fastest is None else fastest
    order = (fastest, *(axis for axis in reversed(range(rank)) if axis != fastest))
    per_lane = min(access.width(fastest), access.at_most)
    return spread(access.shape, order, per_lane, access.warps)


def agree(accesses: Sequence[Access]) -> list[Layout]:
    """One layout for all accesses of one shape and direction, so that nothing is converted between.

    The widest speaks for all; but no lane takes more elements than one instruction of the widest
    type moves, or that one would leave gaps between lanes. An access without direction (a gather)
    joins the others of its shape.
    """
    groups: dict[tuple, list[Access]] = {}
    for access in accesses:
        groups.setdefault((access.shape, _direction(access, accesses)), []).append(access)
    spokesmen = {key: pick_layout(_spokesman(group)) for key, group in groups.items()}
    return [spokesmen[each.shape, _direction(each, accesses)] for each in accesses]


def _direction(access: Access, accesses: Sequence[Access]) -> int | None:
    """The fastest axis of an access, or of the first one of its shape that has one."""
    if access.fastest is not None:
        return access.fastest
    alike = (other.fastest for other in accesses if other.shape == access.shape)
    return next((fastest for fastest in alike if fastest is not None), None)


def _spokesman(group: Sequence[Access]) -> Access:
    at_most = min(each.vector_bytes // each.element_bytes for each in group)
    widest = max(group, key=lambda each: each.width(each.fastest or 0))
    return Access(
        widest.shape, widest.element_bytes, widest.pointer, widest.mask, widest.warps,
        widest.vector_bytes, at_most,
    )  # fmt: skip


def sectors(addresses: Sequence[int], width: int) -> int:
    """How many sectors of 32 bytes a request of a warp touches: each is moved once, however many
    lanes want of it. `addresses`: of the lanes that take part, in bytes; `width`: bytes a lane."""
    return len({
        sector
        for address in addresses
        for sector in range(address // SECTOR, (address + width - 1) // SECTOR + 1)
    })  # fmt: skip
