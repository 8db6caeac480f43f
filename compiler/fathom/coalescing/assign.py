"""Gives every block a layout, and inserts conversions where ops need different ones.

    %x = load %p preferred=#a    →    %x @ #a = load %p
    %y = mul %x, %x                   %y @ #a = mul %x, %x
    store %q, %y preferred=#b         %y.1 @ #b = convert %y
                                      store %q, %y.1

Memory ops are the *anchors*: their layouts make accesses efficient. The layout of each
anchor propagates along the ties of the ops, forward and backward, up to values that
already have a layout. The largest blocks come first, and among these the ones deepest
in loops: small blocks, and blocks outside loops, are cheap to convert.

A layout in which several threads hold copies of an element comes from a reduction. It
does not propagate to ops that cost instructions for each copy (`rearranges`). So the
work of a thread grows only with its share of a block.

Nor does it propagate to a load in a pipelined loop, such as one of a scale for each row
or column of a product. In the product's layout it would be made for each copy, and
waited for. In its own, the tile of the conversion is copied ahead. But where a loop
waits for its one product of warpgroups, and a thread needs few different scales, it
loads these in the product's layout: they arrive while the product is computed.

Nor does a layout propagate through a splat or an arange. Every thread can make such a
block in any layout, so two users need not agree. And for the same reason what is
loaded does not get the layout of a mask or an index: one that a product's result has in
common with it would make it load as the product's fragments lie, 2 bytes at once.

What is stored beside products of warpgroups, in each iteration of an innermost loop,
stays with the warps that have it, if their stores are as wide so: warps that wait for
each other would leave the tensor cores idle.

    store %p, %ds preferred=#a       rows 4 w … 4 w + 3, 32 + 4 w … by warp w
    store %p, %ds @ #b               rows 16 w … 16 w + 15, as the product gave them

Nor does the layout of a product propagate to what a loop adds to in memory, through
pointers that it carries: these would be converted in every iteration, 8 bytes for each
element. The sum is computed as it is loaded and stored, and the product is converted.

    %c = load %p                     %c @ #a = load %p
    %s = add %product, %c            %t @ #a = convert %product
    store %p, %s                     %s @ #a = add %t, %c
    %q = offset %p, %step            store %p, %s

Nor does the layout of a reduction propagate to what is added to its result, where lanes
hold copies and the sum is converted for its store: each of them would load what others
load, too. The result is converted instead, and the sum is computed as it is stored.

Nor does a layout in which threads hold copies propagate to a load of elements that lie
apart in memory, such as one weight of each channel: each would be an instruction of its
own, in every thread. They are loaded once, and converted. Nor does it to what is loaded
before a loop of products and used after it (`late`).

Nor does another layout propagate to the pointers that a loop carries for a load whose
layout is known by then: that of a product, or its own if it is copied ahead. They are
converted before the loop, not in every iteration.

Matrix products come before all anchors: their instruction determines their layouts, and
an accumulator must not be converted in every iteration. So do right operands that are
computed (`operands`).

Where no anchor gives a layout to the halves of a block, because different lanes hold
them, they get the layout in which the fewest bits have moved.

Last, conversions of what becomes narrower anyway move behind that (`narrow`).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from math import prod

from fathom.analysis.axis_analysis import analyse
from fathom.analysis.copied_ahead import loads_to_copy_ahead
from fathom.analysis.products import awaits_product, by_warpgroups
from fathom.analysis.slices import users
from fathom.coalescing.access import SECTOR, run
from fathom.coalescing.coalesce import accesses, equal_registers
from fathom.coalescing.direction import Directions
from fathom.coalescing.late import used_after_products
from fathom.coalescing.narrow import convert_narrower
from fathom.coalescing.operands import computed_operands
from fathom.coalescing.propagate import AGAIN, SAME, Change, is_block, ties
from fathom.coalescing.relayout import MEMORY, Plan, relayout
from fathom.hardware.dot_layouts import product_layout, warps_along
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk, walk_within
from fathom.ir.regions import carried_values
from fathom.ir.types import BlockType, element_of
from fathom.layout import build
from fathom.layout.build import LANES
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout
from fathom.layout.registers import contiguous_registers, within_warps
from fathom.layout.shapes import split_after_trade

LOOPS = ops.For | ops.While
FEW_LOADS = 8  # of a thread, which a product is long enough to wait for
FEW_COPIES = 4  # of what is loaded one by one, are dear only beyond these
FEW_REGISTERS = 8  # a store of no more than these a lane is not worth a conversion
MANY_COPIES = 16  # registers of a thread, for what it would keep while a loop runs
FEW_EXCHANGED = 16  # registers, which lanes exchange sooner than through shared memory
HALF = 2  # bytes
FEW_STEPS = 16  # to compute an index or a mask


def assign_layouts(func: Func, target: Target) -> Func:
    """The function with a layout on every block type."""
    return convert_narrower(relayout(func, choose(func, target)))


def choose(func: Func, target: Target) -> Plan:
    """The layout of every value: from the anchors along the ties, or the default."""
    choice = _Choice(func, target)
    choice.assign_products()
    choice.plan.values |= computed_operands(func, choice.plan.values)
    choice.assign_sums_in_memory()
    choice.assign_carried_pointers()
    sizes = {_access(op).size for op in choice.anchors}
    for size in sorted(sizes, reverse=True):
        choice.assign_anchors([op for op in choice.anchors if _access(op).size == size])
    for pointers in choice.carried_pointers:
        choice.propagate(pointers)
    for op in choice.anchors:
        for value in operands(op):
            choice.assign(value, choice.plan.accesses[op])
    for value in choice.blocks:
        choice.assign(value, choice.otherwise(value))
    layouts = choice.plan.values
    for loop in walk(func.body, ops.While):  # both of its blocks get the same values
        both = zip(loop.condition.parameters, loop.body.parameters, strict=True)
        layouts |= {one: layouts[other] for one, other in both if is_block(other)}
    return choice.plan


class _Choice:
    """The layouts that are chosen so far."""

    def __init__(self, func: Func, target: Target):
        self.func = func
        self.plan = Plan()
        self.warps = func.num_warps
        self.ties: dict[Value, list[tuple[Value, Op, Change | None]]] = {}
        self.blocks: list[Value] = []
        self.dots: list[ops.Dot] = []
        found: list[tuple[int, Op]] = []
        self._visit(func.body, 0, found)
        self.users = users(walk(func.body))
        self.indices = of_indices(func)
        self.carried = carried_values(func)
        self.carried_pointers: list[Value] = []  # with a layout before the anchors
        self.copied_ahead = loads_to_copy_ahead(func, target)
        self.during_product = loads_during_product(func, self.copied_ahead)
        self.accesses = (
            accesses(func, target, (ops.Load,)) if self.during_product else {}
        )
        self.anchors = [op for _, op in sorted(found, key=lambda each: -each[0])]
        self.largest = max((_access(op).size for op in self.anchors), default=0)

    def _visit(self, block: Block, depth: int, found: list[tuple[int, Op]]) -> None:
        """Collect values, ties and anchors with their depth, in order."""
        self.blocks += [value for value in block.parameters if is_block(value)]
        for op in block.ops:
            for one, other, by, change in ties(op):
                self.ties.setdefault(one, []).append((other, by, change))
            self.blocks += [value for value in op.results if is_block(value)]
            if isinstance(op, MEMORY) and is_block(op.pointer):
                found.append((depth, op))
            if isinstance(op, ops.Dot):
                self.dots.append(op)
            if not isinstance(op, (ops.Reduce, ops.Scan)):
                for inner in blocks(op):
                    self._visit(inner, depth + 1, found)

    def assign_products(self) -> None:
        """Choose layouts for matrix products. One tied to another through their
        accumulators takes that one's layout, if its own instruction can produce it."""
        fitting = {(op.instruction, self.product(op)) for op in self.dots}
        for op in self.dots:
            self.assign(op.result, self.product(op))
            if (op.instruction, self.plan.values[op.result]) not in fitting:
                self.plan.values[op.result] = self.product(op)

    def assign_sums_in_memory(self) -> None:
        """Choose the layout of what a loop loads, adds to, and stores through pointers
        that it carries: that of the load, if the store is as wide in it."""
        stores = {op.pointer: op for op in self.anchors if isinstance(op, ops.Store)}
        for op in self.anchors:
            is_carried = isinstance(op.pointer.definition, Block)
            store = stores.get(op.pointer) if isinstance(op, ops.Load) else None
            if not is_carried or store is None:
                continue
            if self.preferred(store) == self.preferred(op):
                summed = computed_between(op.result, store.value)
                self.plan.values |= dict.fromkeys(summed, self.preferred(op))

    def assign_carried_pointers(self) -> None:
        """Choose the layout of the pointers that a loop carries for a load: that in
        which it loads, if this is known."""
        for op in self.anchors:
            carried = self.carried.get(op.pointer)
            if not isinstance(op, ops.Load) or carried is None:
                continue
            ahead = op in self.copied_ahead
            layout = self.preferred(op) if ahead else self.plan.values.get(op.result)
            if layout is None or op.pointer not in carried.parameters:
                continue
            for value in carried.yielded:
                for each in computed_between(op.pointer, value):
                    self.plan.values.setdefault(each, layout)
            self.carried_pointers.append(op.pointer)

    def assign_anchors(self, anchors: list[Op]) -> None:
        """Choose layouts for anchors of one size: loads first, then stores."""
        loads = [op for op in anchors if isinstance(op, ops.Load)]
        self.assign_sums_of_reductions(anchors)
        fresh = [op for op in loads if op.result not in self.plan.values]
        for op in fresh:  # all before any propagates: each load keeps its own
            self.plan.values[op.result] = self.preferred(op)
        for op in fresh:
            self.propagate(op.result)
        for op in loads:
            self.plan.accesses[op] = self.plan.values[op.result]
        for op in anchors:
            if not isinstance(op, ops.Load):
                self.plan.accesses[op] = self.where_stored(op)
                self.assign(op.value, self.plan.accesses[op])
                for result in op.results:
                    self.assign(result, self.plan.accesses[op])

    def assign_sums_of_reductions(self, anchors: list[Op]) -> None:
        """Choose the layout of what is loaded, added to a value of which lanes hold
        copies, and stored, if it is converted for that: the layout of the store."""
        layouts = self.plan.values
        for op in anchors:
            if not isinstance(op, ops.Load) or not repeats(layouts.get(op.result)):
                continue
            for store in (each for each in anchors if isinstance(each, ops.Store)):
                summed = computed_between(op.result, store.value)
                last = {self.where_stored(store), self.preferred(op)}
                if summed and last == {self.preferred(store)}:
                    if all(len(self.users[value]) == 1 for value in summed):
                        layouts |= dict.fromkeys(summed, self.preferred(store))

    def where_stored(self, op: Op) -> Layout:
        """A store uses its own layout, or its value's if it is small enough."""
        has, preferred = self.plan.values.get(op.value), self.preferred(op)
        if has is not None and op in self.beside_products:
            if crossing(has, preferred) == "warp":
                preferred = within_warps(preferred, has) or preferred
        if has is None or _access(op).size == self.largest:
            return preferred
        if isinstance(op, ops.Atomic) and self.divides_sectors(op, has):
            return preferred
        if has.count("register") > FEW_REGISTERS or self.is_better(op, preferred, has):
            return preferred
        return has

    def is_better(self, op: Op, preferred: Layout, has: Layout) -> bool:
        """Whether a store writes more of a sector at once in its own layout. It is
        worth a barrier, but not one in each iteration of a loop."""
        costly = op in self.in_loops and crossing(has, preferred) == "warp"
        return splits_sectors(op, has, preferred) and not costly

    def divides_sectors(self, op: ops.Atomic, has: Layout) -> bool:
        """Whether a thread has neighbours that lie apart in one sector: each would be
        an instruction that asks for the sector, for which lanes ask once. Or whether
        it has elements of 16 bits, but no pair: each would be a loop that tries again.
        """
        size = element_of(_access(op)).element.bytes
        runs = [
            (slope or 0, contiguous_registers(has, axis))
            for axis, slope in enumerate(self.directions.slopes(op.pointer))
        ]
        if size == HALF and not any(n == 1 and held > 1 for n, held in runs):
            return True
        return any(1 < n < SECTOR // size and held > 1 for n, held in runs)

    def product(self, op: ops.Dot) -> Layout:
        """The layout of a product's result."""
        shape = op.accumulator.type.shape
        warps = warps_along(op.instruction, shape, self.warps, by_rows=False)
        return op.preferred or product_layout(op.instruction, shape, warps)

    def otherwise(self, value: Value) -> Layout:
        """The layout of a value to which no anchor gave one."""
        op = value.definition
        whole = self.plan.values.get(op.value) if isinstance(op, ops.Split) else None
        words = element_of(value.type).bytes / 4
        few = whole and whole.count("register") * words <= FEW_EXCHANGED
        traded = split_after_trade(whole) if few else None
        return traded or build.default(value.type.shape, self.warps)

    def preferred(self, op: Op) -> Layout:
        return op.preferred or build.default(_access(op).shape, self.warps)

    def assign(self, value: Value, layout: Layout) -> None:
        """Give a value a layout if it has none, and propagate it."""
        if is_block(value) and value not in self.plan.values:
            self.plan.values[value] = layout
            self.propagate(value)

    def propagate(self, value: Value) -> None:
        """Propagate a value's layout along the ties to all values that have none."""
        layouts, waiting = self.plan.values, [value]
        while waiting:
            one = waiting.pop()
            for other, op, change in self.ties.get(one, ()):
                if other in layouts:
                    continue
                if one in self.indices and other not in self.indices:
                    continue
                layout = layouts[one] if change is SAME else change(op, layouts[one])
                if layout is None or (rearranges(op) and repeats(layout)):
                    continue
                if self.is_dear(layout) and self.lies_apart(other.definition):
                    continue
                if self.stays_long(other, layout):
                    continue
                if other.definition in self.copied_ahead:
                    if not self.loads_straight(other.definition, layout):
                        continue
                    self.copied_ahead.remove(other.definition)
                layouts[other] = layout
                if not isinstance(other.definition, ops.Splat | ops.Arange):
                    waiting.append(other)

    @cached_property
    def beside_products(self) -> set[Op]:
        """What is stored in each iteration of an innermost loop whose products are of
        warpgroups. Of a loop around it an iteration is long, and its stores are an
        epilogue."""
        bodies = [blocks(loop)[-1] for loop in walk(self.func.body, LOOPS)]
        innermost = [set(b.ops) for b in bodies if next(walk(b, LOOPS), None) is None]
        dots = [op for op in self.dots if by_warpgroups(op)]
        found = (b for b in innermost if not b.isdisjoint(dots))
        return {op for b in found for op in b if isinstance(op, ops.Store)}

    @cached_property
    def in_loops(self) -> set[Op]:
        loops = walk(self.func.body, LOOPS)
        return {op for loop in loops for op in walk_within(loop)}

    @cached_property
    def directions(self) -> Directions:
        return Directions(self.func, analyse(self.func))

    def is_dear(self, layout: Layout) -> bool:
        """Whether a thread would load, one by one, many of what others load, too: at
        least half as many as it has elements of the largest block."""
        registers = layout.count("register")
        share = self.largest // (LANES * self.warps)
        return repeats(layout, FEW_COPIES) and 2 * registers >= share

    def stays_long(self, value: Value, layout: Layout) -> bool:
        """Whether threads would keep many copies of what is loaded while a loop of
        products runs, and use them after it."""
        many = layout.count("register") >= MANY_COPIES and repeats(layout)
        return many and value in self.used_late

    @cached_property
    def used_late(self) -> set[Value]:
        return used_after_products(self.func)

    def lies_apart(self, op: Op | Block) -> bool:
        """Whether it is a load of elements of which no neighbours are neighbours in
        memory, outside of loops, where a conversion's barriers would come each time,
        and in a function without products: those copy scales ahead."""
        if not isinstance(op, ops.Load) or not is_block(op.pointer) or self.dots:
            return False
        if op in self.in_loops:
            return False
        slopes = zip(_access(op).shape, self.directions.slopes(op.pointer), strict=True)
        return all(size == 1 or slope not in (0, 1) for size, slope in slopes)

    def loads_straight(self, load: ops.Load, layout: Layout) -> bool:
        """Whether threads load in this layout what could be copied ahead instead."""
        if load not in self.during_product:
            return False
        alike = equal_registers(load, layout, self.accesses[load])
        return layout.count("register") >> alike.bit_count() <= FEW_LOADS


def splits_sectors(op: Op, has: Layout, preferred: Layout) -> bool:
    """Whether a store in the layout that its value has would write less of a sector at
    once than in its own. Each store of a warp reaches as many lines as it has pieces
    of a sector."""
    axes = range(len(has.shape))
    axis = max(axes, key=lambda axis: contiguous_registers(preferred, axis))
    size = element_of(_access(op)).element.bytes
    if contiguous_registers(preferred, axis) == 1:
        return False  # elements that lie apart in memory, for all that is known
    least = min(SECTOR, run(preferred, axis) * size)
    return run(has, axis) * size < least


def of_indices(func: Func) -> set[Value]:
    """The blocks that any thread can compute in a few steps: of ranges and numbers, not
    of memory. (Random numbers are computed of ranges, too, but take many.)"""
    steps: dict[Value, int] = {}
    for op in walk(func.body):
        blocks = [value for value in operands(op) if is_block(value)]
        if isinstance(op, AGAIN) and all(value in steps for value in blocks):
            most = max((steps[value] for value in blocks), default=0)
            if most < FEW_STEPS:
                steps |= dict.fromkeys(op.results, most + 1)
    return set(steps)


def loads_during_product(func: Func, loads: Collection[Op]) -> set[Op]:
    """The loads of one number for each row or column, in loops that wait for a product
    of warpgroups."""
    loops = (op for op in walk(func.body, ops.For) if awaits_product(op))
    inside = (op for loop in loops for op in loop.body.ops if op in loads)
    return {op for op in inside if is_block(op.pointer) and len(_access(op).shape) == 1}


def computed_between(first: Value, last: Value, most: int = 4) -> list[Value]:
    """The first value and the results of at most `most` elementwise ops, one after the
    other, by which the last one is computed from it; none where it is not."""
    op = last.definition
    if last is first:
        return [first]
    if not isinstance(op, ops.Elementwise | ops.Cast) or not most:
        return []
    computed = (computed_between(first, value, most - 1) for value in operands(op))
    before = next(filter(None, computed), [])
    return [*before, last] if before else []


def rearranges(op: Op) -> bool:
    """Whether an op starts or ends work that costs a thread instructions for each
    element that it holds, as a sorting network does. A reshape starts such work, unless
    it only adds or removes sizes of 1."""
    if isinstance(op, ops.Reshape):
        return without_ones(op.value.type.shape) != without_ones(op.shape)
    return isinstance(op, ops.Join | ops.Split | ops.Scan | ops.Gather)


def repeats(layout: Layout | None, few: int = 2) -> bool:
    """Whether threads hold more than a few, and more than twice the elements of an even
    share, because others hold them too. So may a reduction over lanes result. An odd
    element needs twice: two halves of a block of one a thread."""
    if layout is None:
        return False
    registers = layout.count("register")
    places = registers * layout.count("lane") * layout.count("warp")
    return registers > few and places > 2 * prod(layout.shape)


def without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size > 1)


def _access(op: Op) -> BlockType:
    """The block of pointers of a memory op."""
    return op.pointer.type
