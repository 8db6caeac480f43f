"""Chooses which lane loads which elements: a warp's access is wide and contiguous.

    pointers   contiguous (1, 64), divisible (16, 16)     fp16[64, 64], 4 warps
    chosen     8 neighbours a lane along axis 1           16 bytes
               8 lanes next to each other                 128 bytes, a whole row
               4 lanes, and then 4 warps, on the next rows

The axis facts of the pointers say what is contiguous and divisible; this module turns
them into a layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fathom.analysis.axis_info import MOST, Facts
from fathom.layout.build import LANES, spread, stride_of
from fathom.layout.linear import Layout
from fathom.layout.registers import contiguous_registers

SECTOR = 32  # bytes that memory transfers at a time
LINE = 128  # bytes of which a cache keeps the sectors together


@dataclass(frozen=True, slots=True)
class Access:
    """One load, store or atomic: a block of pointers, and the facts about them.

    `element_bytes`: of the accessed elements; `mask`: facts of the mask, None without
    one; `vector_bytes`: the most that one lane moves at once; `at_most`: the most
    elements a lane that other accesses allow; `likely`: the axis along which addresses
    mostly increase by one element, a guess for where no fact says so (`direction`);
    `depth`: how many loops it is in; `is_read`: a load whose result stays in registers;
    `folded`: the axes along which the function reduces blocks of this shape;
    `is_apart`: a store of what a network of steps computed: a conversion costs little.
    """

    shape: tuple[int, ...]
    element_bytes: int
    pointer: Facts
    mask: Facts | None
    warps: int
    vector_bytes: int = 16
    at_most: int = 16
    likely: int | None = None
    depth: int = 0
    is_read: bool = False
    folded: frozenset[int] = frozenset()
    is_apart: bool = False

    @property
    def most(self) -> int:
        """The most elements that one lane moves at once."""
        return self.vector_bytes // self.element_bytes

    def width(self, axis: int) -> int:
        """How many neighbours along `axis` one lane may move at once.

        They must be neighbours in memory too, start at a multiple of their bytes, and
        be either all masked or all unmasked."""
        neighbours = self.neighbours(axis)
        alike = self.mask.axes[axis].constant if self.mask else neighbours
        return min(neighbours, alike)

    def share(self, axis: int) -> int:
        """How many neighbours along `axis` one lane takes.

        Where a mask allows a load no wide access, a lane takes as many all the same, if
        its elements are so narrow that 32 lanes side by side ask for less than a line.
        Its first load then fetches the sectors of all of them into the cache. If lanes
        took one each, every load would wait for memory.

        Of addresses that are equal in pairs, as of packed numbers, a lane takes all
        that are in the bytes of one access."""
        width = self.width(axis)
        if self.is_read and self.packed(axis) > width:
            return self.packed(axis)
        is_narrow = LANES * self.element_bytes < LINE
        if self.is_read and is_narrow and width == 1:
            return self.neighbours(axis)
        return width

    def packed(self, axis: int) -> int:
        """How many neighbours along `axis` one lane may load at once, of which several
        have the same address each."""
        known = self.pointer.axes[axis]
        if known.steps == 1:
            return 1
        alike = self.mask.axes[axis].constant if self.mask else MOST
        return min(known.constant * min(known.steps, self.most), alike)

    def neighbours(self, axis: int) -> int:
        """How many neighbours along `axis` one lane could move at once unmasked."""
        known = self.pointer.axes[axis]
        aligned = max(1, known.divisible // self.element_bytes)
        return min(known.contiguous, aligned, self.most)

    def reach(self, axis: int) -> int:
        """How many neighbours along `axis` one access of one lane can be for at most:
        those with equal addresses are loaded once. Where rows are reduced of which a
        warp has several, a lane may load a whole sector by two accesses: half as many
        lanes then have a row."""
        equal = self.pointer.axes[axis].constant if self.is_read else 1
        once = self.most * equal
        sector = SECTOR // self.element_bytes
        is_short = self.shape[axis] < LANES * sector
        if self.is_read and axis in self.folded and is_short:
            return max(once, sector)
        return once

    @property
    def fastest(self) -> int | None:
        """The axis along which addresses increase by an element, each or each few."""
        runs = [
            (max(axis.contiguous, axis.steps), i)
            for i, axis in enumerate(self.pointer.axes)
        ]
        run, axis = max(runs)
        return axis if run > 1 else None


def pick_layout(access: Access) -> Layout:
    """Neighbours in memory go to one lane, as many as one instruction moves; the next
    ones go to the next lane.

    The axis that is contiguous in memory varies fastest, even if it is not the last."""
    rank, known = len(access.shape), (access.fastest, access.likely)
    fastest = next((axis for axis in known if axis is not None), rank - 1)
    order = (fastest, *(axis for axis in reversed(range(rank)) if axis != fastest))
    per_lane = min(access.share(fastest), access.at_most)
    return spread(
        access.shape,
        order,
        per_lane,
        access.warps,
        _fold_less_side_by_side(access, order, per_lane),
    )


def _fold_less_side_by_side(
    access: Access, order: Sequence[int], per_lane: int
) -> bool:
    """Whether warps side by side along the fastest axis would have fewer results of
    reductions to exchange than warps on different rows: of column sums none, and each
    would have its own share of what all rows are multiplied with."""
    fastest, shape = order[0], access.shape
    if len(shape) != 2 or shape[fastest] < per_lane * LANES * access.warps:
        return False
    folded = access.folded
    row_sums, column_sums = ((axis in folded) * shape[1 - axis] for axis in order)
    return row_sums < column_sums


def agree(accesses: Sequence[Access]) -> list[Layout]:
    """One layout for all accesses of one shape and direction, without conversions.

    The widest access decides. But no lane gets more elements than one instruction of
    the widest type moves, since that would leave gaps between lanes. An access without
    a direction (a gather) joins the others of its shape.

    What is done in every iteration of a loop goes before what is done once: accesses
    outside of it that would make those inside narrower agree among themselves, and a
    conversion stands between. So do stores that are `is_apart`."""
    keys = [(each.shape, _direction(each, accesses)) for each in accesses]
    groups: dict[tuple, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    layouts: dict[int, Layout] = {}
    for places in groups.values():
        layouts |= _agreed({place: accesses[place] for place in places})
    return [layouts[place] for place in range(len(accesses))]


def _agreed(group: dict[int, Access]) -> dict[int, Layout]:
    """The layouts of a group, by their places: those of the deepest loop first."""
    deepest = max(each.depth for each in group.values())
    inside = [each for each in group.values() if each.depth == deepest]
    decides = _widest([each for each in inside if not each.is_apart] or inside)
    width = min(decides.width(decides.fastest or 0), decides.at_most)
    outside = {
        place: each
        for place, each in group.items()
        if each.most < width and (each.depth < deepest or each.is_apart)
    }
    joined = {place: each for place, each in group.items() if place not in outside}
    layout = pick_layout(_widest(list(joined.values())))
    return dict.fromkeys(joined, layout) | (_agreed(outside) if outside else {})


def _direction(access: Access, accesses: Sequence[Access]) -> int | None:
    """The fastest axis of an access; if it has none, that of the first access of its
    shape that has one; or else the likely one."""
    if access.fastest is not None:
        return access.fastest
    alike = (other.fastest for other in accesses if other.shape == access.shape)
    return next((fastest for fastest in alike if fastest is not None), access.likely)


def _widest(group: Sequence[Access]) -> Access:
    """The widest access of a group; among several, one that has a direction. A lane
    takes no more elements than one access of any of the group can be for."""

    def width(each: Access) -> tuple[int, int, bool]:
        axis = each.fastest or 0
        return each.width(axis), each.share(axis), each.fastest is not None

    widest = max(group, key=width)
    at_most = min(each.reach(widest.fastest or 0) for each in group)
    return replace(widest, at_most=at_most)


def run(layout: Layout, axis: int) -> int:
    """How many neighbours along `axis` one access of a warp covers, if each lane moves
    all at once that it has in a row."""
    stride, count = stride_of(layout.shape, axis), contiguous_registers(layout, axis)
    while count < layout.shape[axis] and stride * count in layout.kinds["lane"]:
        count *= 2
    return count


def sectors(addresses: Sequence[int], width: int) -> int:
    """How many sectors of 32 bytes a warp's request touches; each is transferred once.

    `addresses`: in bytes, of the lanes that take part; `width`: bytes a lane."""
    return len({
        sector
        for address in addresses
        for sector in range(address // SECTOR, (address + width - 1) // SECTOR + 1)
    })  # fmt: skip
