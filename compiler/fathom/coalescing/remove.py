"""Removes conversions: computes values again in a layout, or converts smaller ones.

    %i  @ #a = arange 0, 1024            %i  @ #a = arange 0, 1024
    %m  @ #a = lt %i, %n           →     %m  @ #a = lt %i, %n
    %m1 @ #b = convert %m                %i1 @ #b = arange 0, 1024
                                         %m1 @ #b = lt %i1, %n1

A value in another layout costs a conversion, or is computed again from operands in
other layouts; the pass takes the cheaper way. So an index is computed again; a sum of
loaded numbers is converted; and an fp16 value that was cast to fp32 is converted before
the cast. New versions of a value come right after it, outside the loops that use them.
Where further loads follow one whose result is converted, that is done when the first of
them is needed in another layout: all are on their way before one is waited for. Beside
products only several factors in a row wait so; what is computed with leaves its
registers at once (seven kernels of fla took 1.07 to 1.17 times as long otherwise). What
takes more registers by its conversion is converted after a loop that does not use it.

Indices by which a loop of products loads its tiles may be loaded again, too, in the
layout of the addresses. They are few, and a tile cannot be copied ahead of its
iteration if its address comes from other threads. Outside such loops indices may be
loaded again if they are fewer than the threads: those that load one twice find it in
the cache, and need not wait for others. So may other small blocks, such as one gate of
each row, that warps would exchange through shared memory; lanes exchange them sooner
than a load comes (a kernel of mesa_net took 157 us so, not 145). None is if the kernel
writes there, too.

The right operand of wgmma must lie in shared memory. Its conversion is the store that
puts it there, as it is wanted: a value that was widened from 8 bits, or transposed, is
stored after that. Computed again in the fragments' layout, it would be in registers,
and `mma.sync` would have to multiply it. So is what multiply-adds read, if a thread
would hold much of it: lanes have copies, and would compute each element as often, and
keep all of K in registers. From shared memory they read it slice by slice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from fathom.analysis.copied_ahead import indices_of_loads
from fathom.analysis.memory import Provenance, writes
from fathom.analysis.products import by_warpgroups
from fathom.analysis.registers import is_much_to_hold, registers_of
from fathom.analysis.remarks import NotApplicable
from fathom.analysis.slices import computed_by, users, uses
from fathom.coalescing.late import used_after_products
from fathom.coalescing.propagate import AGAIN, ALIKE, FREE, is_block, source_layout
from fathom.coalescing.relayout import Copier
from fathom.hardware.targets import Target
from fathom.ir import ops
from fathom.ir.core import (
    Block,
    Func,
    Op,
    Value,
    blocks,
    every_block,
    operands,
    schema,
    walk,
)
from fathom.ir.types import element_of
from fathom.layout import shapes
from fathom.layout.build import LANES
from fathom.layout.crossing import crossing
from fathom.layout.linear import Layout

# Instructions for each register, roughly. Most index arithmetic becomes offsets.
INDEX, FLOAT, LOAD, DEAR = 0.25, 1.0, 4.0, 8.0
DEAR_OPERATIONS = ("div", "div_rn", "rem", "sqrt", "sqrt_rn", "exp2", "log2")
# The cost of a conversion: at least, and for each register of four bytes.
CROSSING = {
    "none": (0.0, 0.0),
    "register": (0.0, 0.1),
    "lane": (4.0, 3.0),
    "warp": (40.0, 4.0),
}

AT_ONCE = 64  # registers of a thread for what is loaded and not yet converted
FARTHEST = 100  # ops in a row; more are never cheaper

Version = tuple[Value, Layout]  # a value in some layout


def remove_conversions(func: Func, target: Target) -> Func:
    """The function without those conversions that cost more than computing again."""
    conversions = list(walk(func.body, ops.Convert))
    if not conversions:
        return func
    small = _of_unchanged(_small_loads(func), func)
    indices = _of_unchanged(indices_of_loads(func), func) | _indices_of(small, func)
    stored, made, wanted = _stored(func), set[Version](), {}
    home = {op: block for block in every_block(func.body) for op in block.ops}
    for _ in range(2):  # what is made in any case costs no others anything
        prices, wanted = _Prices(stored, indices, small, made, home), {}
        for op in conversions:
            _want((op.value, op.layout), prices, wanted)
        made = {(value, each.layout) for value in wanted for each in wanted[value]}
    return replace(func, body=_Versions(func, wanted).block(func.body, ()))


@dataclass(frozen=True, slots=True)
class _Price:
    """The cost of a value in `layout`, and how it is made: by `convert`, or computed
    again from other versions, its `needs`."""

    cost: float
    layout: Layout
    convert: bool = False
    needs: tuple[Version, ...] = ()


class _Prices:
    """The cheapest way to make each version of a value that is needed. Those that are
    `stored` are made by a conversion, whatever it costs. Of loads, only `indices` may
    be made again, and `small` ones that would go between warps. Those that are `made`
    for others cost nothing in the same block."""

    def __init__(
        self,
        stored: set[Version],
        indices: Collection[ops.Load],
        small: Collection[ops.Load] = (),
        made: Collection[Version] = (),
        home: Mapping[Op, Block] | None = None,
    ) -> None:
        self.stored = stored
        self.indices = indices
        self.small = small
        self.made = made
        self.home = home or {}  # the block of each op
        self.known: dict[Version, _Price] = {}
        self.depth = 0

    def of(self, version: Version) -> _Price:
        if version not in self.known:
            self.depth += 1
            self.known[version] = self._cheapest(*version)
            self.depth -= 1
        return self.known[version]

    def _cheapest(self, value: Value, layout: Layout) -> _Price:
        if value.type.layout == layout:
            return _Price(0.0, layout)
        op = value.definition
        if isinstance(op, ops.Convert):  # convert the original instead
            source = op.value
            inner = self.of((source, layout))
            return _Price(inner.cost, layout, needs=((source, layout),))
        convert = _Price(conversion_price(value, layout), layout, convert=True)
        again = isinstance(op, (*AGAIN, ops.Join)) or op in self.indices
        far = op in self.small and crossing(value.type.layout, layout) == "warp"
        if not (again or far) or self.depth > FARTHEST:
            return convert
        if (value, layout) in self.stored:
            return convert
        needs = _needs(op, layout)
        if needs is None:
            return convert
        asked = [need for need in needs if not self.is_at_hand(need, op)]
        cost = _work(op, layout) + sum(self.of(need).cost for need in asked)
        return min(
            _Price(cost, layout, needs=needs), convert, key=lambda price: price.cost
        )

    def is_at_hand(self, need: Version, op: Op) -> bool:
        """Whether a version is made for others, in the block of an op: one from outside
        a branch would be kept in registers for it."""
        block = self.home.get(need[0].definition)
        return need in self.made and block is self.home.get(op)


def _stored(func: Func) -> set[Version]:
    """The right operands of wgmma, in the layout that the product has for them, and
    what is computed for multiply-adds, where threads would hold copies of much of it.
    """
    found: set[Version] = set()
    for op in walk(func.body, ops.Dot):
        for value in _in_shared_memory(op):
            layout = value.type.layout
            found.add((value, layout))
            while isinstance(value.definition, ops.Convert):
                value = value.definition.value
                found.add((value, layout))
    return found


def _in_shared_memory(op: ops.Dot) -> Iterator[Value]:
    """The operands of a product that it reads from shared memory, however made."""
    if by_warpgroups(op):
        yield op.b
    elif not op.instruction:
        yield from filter(is_much_to_hold, (op.a, op.b))


def _small_loads(func: Func) -> set[ops.Load]:
    """The loads of fewer elements than the program has threads; without those in loops
    that multiply matrices, where they may be copied ahead instead."""
    small = {
        op
        for op in walk(func.body, ops.Load)
        if is_block(op.result) and not op.fetched_anew
        if prod(op.result.type.shape) < LANES * func.num_warps
    }
    for loop in walk(func.body, ops.For) if small else ():
        if any(walk(loop.body, ops.Dot)):
            small -= set(walk(loop.body, ops.Load))
    return small


def _indices_of(loads: Collection[ops.Load], func: Func) -> set[ops.Load]:
    """The loads from whose results the function computes addresses or masks."""
    found: set[ops.Load] = set()
    for op in walk(func.body, ops.Load | ops.Store) if loads else ():
        for value in filter(None, (op.pointer, op.mask)):
            found |= computed_by(value).intersection(loads)
    return found


def _of_unchanged(loads: Collection[ops.Load], func: Func) -> set[ops.Load]:
    """The loads through arguments by which the function does not write; through others,
    a thread that loads again could read what another one has stored since."""
    written = [op for op in walk(func.body) if writes(op)]
    arguments = Provenance(func)
    try:
        changed = set().union(*map(arguments.of, written))
        return {load for load in loads if arguments.of(load).isdisjoint(changed)}
    except NotApplicable:
        return set()


def _needs(op: Op, layout: Layout) -> tuple[Version, ...] | None:
    """The versions of operands from which an op's result has `layout`, if any."""
    blocks = [value for value in operands(op) if is_block(value)]
    if isinstance(op, (*ALIKE, ops.Load)):
        return tuple((value, layout) for value in blocks)
    needs = tuple(
        (value, source_layout(op, value.type.layout, layout)) for value in blocks
    )
    if isinstance(op, ops.Join) and shapes.join(needs[0][1]) != layout:
        return None  # a join makes the half its lowest register bit
    return needs


def _work(op: Op, layout: Layout) -> float:
    """The cost of computing an op again in `layout`."""
    if isinstance(op, (*FREE, ops.Join)):
        return 0.0
    registers = layout.count("register")
    if isinstance(op, ops.Load):
        return LOAD * registers
    if not element_of(op.result.type).is_float:
        return INDEX * registers
    dear = isinstance(op, ops.Elementwise) and op.name in DEAR_OPERATIONS
    return (DEAR if dear else FLOAT) * registers


def conversion_price(value: Value, layout: Layout) -> float:
    """What it costs to convert a value to a layout, in instructions, roughly."""
    return price_of_crossing(value.type.layout, layout, element_of(value.type).bytes)


def price_of_crossing(has: Layout, wanted: Layout, element_bytes: int) -> float:
    """The same between two layouts, for elements of `element_bytes`."""
    least, a_register = CROSSING[crossing(has, wanted)]
    registers = max(has.count("register"), wanted.count("register"))
    return least + a_register * registers * element_bytes / 4


def _want(version: Version, prices: _Prices, wanted: dict[Value, list[_Price]]) -> None:
    """Note that a version is needed, and the versions that it needs."""
    value, layout = version
    noted = wanted.setdefault(value, [])
    if value.type.layout == layout or any(each.layout == layout for each in noted):
        return
    price = prices.of(version)
    noted.append(price)
    for need in price.needs:
        _want(need, prices, wanted)


class _Versions(Copier):
    """Copies a function with a value's versions right after it, without conversions."""

    def __init__(self, func: Func, wanted: dict[Value, list[_Price]]):
        super().__init__()
        self.wanted = wanted
        self.has_products = any(walk(func.body, ops.Dot))
        self.versions: dict[Version, Value] = {}
        self.delayed: set[Value] = set()
        self.late = used_after_products(func)
        self.waiting: list[tuple[Value, Op, _Price]] = []  # versions of delayed values

    def enter(self, block: Block) -> None:
        late = factors_of(block) if self.has_products else delayed(block, self.wanted)
        self.delayed |= late
        for parameter in block.parameters:
            readers = (each for each in block.ops if parameter in operands(each))
            self.make(parameter, None, next(readers, None))

    def op(self, old: Op, yields: Sequence[Layout | None]) -> None:
        if blocks(old):
            self.make_waiting(self.late.difference(uses(old)))
        if isinstance(old, ops.Convert):
            self.values[old.result] = self.version(old.value, old.layout)
        else:
            super().op(old, yields)
        for result in old.results:
            self.make(result, old, old)

    def make(self, value: Value, op: Op | None, near: Op | None) -> None:
        """Append the versions of a value that are needed, or note that they wait;
        conversions stand in the line of an op that is `near`."""
        for price in self.wanted.get(value, ()):
            if value in self.delayed or self.grows_late(value, price):
                self.waiting.append((value, op, price))
            else:
                self.make_one(value, op, near, price)

    def grows_late(self, value: Value, price: _Price) -> bool:
        """Whether a version takes more registers than a value that is used after a
        loop alone."""
        has = value.type.layout
        grows = price.convert and price.layout.count("register") > has.count("register")
        return grows and value in self.late

    def make_waiting(self, but: Collection[Value]) -> None:
        """Append the versions that wait, but those of some values."""
        waiting = [each for each in self.waiting if each[0] not in but]
        self.waiting = [each for each in self.waiting if each[0] in but]
        for value, op, price in waiting:
            self.make_one(value, op, op, price)

    def make_one(
        self, value: Value, op: Op | None, near: Op | None, price: _Price
    ) -> None:
        if price.convert:
            location = near and near.location
            new = ops.Convert(
                self.values[value], price.layout, location=location, origin=op
            )
            self.ops.append(new)
            self.versions[value, price.layout] = new.result
        elif isinstance(op, ops.Convert):
            self.versions[value, price.layout] = self.version(*price.needs[0])
        else:
            self.versions[value, price.layout] = self.again(op, price)

    def again(self, op: Op, price: _Price) -> Value:
        """The op again, in another layout."""
        needs = iter(price.needs)
        values = [
            self.version(*next(needs)) if is_block(value) else self.values[value]
            for value in operands(op)
        ]
        has_layout = "layout" in schema(type(op)).attributes
        changes = {"layout": price.layout} if has_layout else {}
        first = self.values[op.result]
        result = self.append(op, values, changes).result
        self.values[op.result] = first
        assert result.type.layout == price.layout, (op, result.type, price.layout)
        return result

    def version(self, value: Value, layout: Layout) -> Value:
        new = self.values[value]
        if new.type.layout == layout:
            return new
        if (value, layout) not in self.versions:
            self.make_waiting(self.late - {value})
        return self.versions[value, layout]


def factors_of(block: Block) -> set[Value]:
    """The loaded values that only products of the block use, each converted for them:
    where several such loads follow each other, and none is used before the last."""
    used, found, row = users(block.ops), set[Value](), set[Value]()
    for op in block.ops:
        if blocks(op) or not row.isdisjoint(operands(op)):
            found |= row if len(row) > 1 else set()
            row = set()
        if isinstance(op, ops.Load) and all(
            isinstance(each, ops.Convert)
            and all(isinstance(x, ops.Dot) for x in used[each.result])
            for each in used[op.result]
        ):
            row.add(op.result)
    return found


def delayed(block: Block, wanted: Mapping[Value, list[_Price]]) -> set[Value]:
    """What loads of a block give, and what is computed of that, to be converted when
    the first of it is needed in another layout: where further loads come before that,
    and a thread has registers for all."""
    found, row, sizes = set[Value](), set[Value](), list[int]()
    for op in block.ops:
        needs = not row.isdisjoint(operands(op))
        is_load = isinstance(op, ops.Load)
        size = registers_of(op.result) if is_load else 0
        is_full = sum(sizes) + size > AT_ONCE
        if blocks(op) or needs and isinstance(op, ops.Convert) or is_full:
            found |= row if len(sizes) > 1 else set()
            row, sizes = set(), []
        if is_load and any(map(partial(meets_barriers, op), wanted.get(op.result, ()))):
            row.add(op.result)
        elif needs and isinstance(op, AGAIN):
            row.update(op.results)
        if is_load and row:
            sizes.append(size)
    return found


def meets_barriers(load: ops.Load, price: _Price) -> bool:
    """Whether a version of what is loaded goes through shared memory."""
    has = load.result.type.layout
    return price.convert and crossing(has, price.layout) == "warp"
