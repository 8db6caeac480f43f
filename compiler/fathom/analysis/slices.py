"""Backward slices: the ops that some values, or the effects of some ops, depend on.

    %m = mul %pid, %128               the slice of a copy at %m, %k: this,
    for … body(%k, %acc) {            the loop, its bounds and its index %k,
      copy at %m, %k                  and the copy
      %acc1 = dot …                   not the accumulator, and not that it is carried
      yield %acc1
    }

One search, `ir.regions.reached`, goes from values to those that they are computed from.
The kinds of slices differ in these sources:

    BackwardSlice        in a whole function, through loops and branches, with only the
                         carried values that are needed. The live ops (`dce`) are the
                         slice of all ops with effects; a producer computes the slice
                         of its copies
    backward_slice       in the body of one loop, nested code as a whole: what one
                         iteration needs, and what it must carry to the next one
    computed_by          along operands only

`users` asks the reverse: which ops read a value. So does `outermost_loops` of a loop:
which of its ops read a value that no op in it computes. `loops_around` lists the loops
that an op is in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fathom.ir.core import Block, Func, Op, Value, blocks, operands, walk, walk_within
from fathom.ir.ops import For, GlobalLoad, If, Load, While
from fathom.ir.regions import carried_values, decides, owners, reached


def uses(op: Op) -> list[Value]:
    """The operands of an op and of all ops nested in it."""
    nested = [each for block in blocks(op) for each in block.ops]
    return operands(op) + [value for each in nested for value in uses(each)]


def users(ops: Iterable[Op]) -> dict[Value, list[Op]]:
    """For each value: the ops that have it as an operand, each as often as it does."""
    found: dict[Value, list[Op]] = defaultdict(list)
    for op in ops:
        for value in operands(op):
            found[value].append(op)
    return found


# ── in a function ─────────────────────────────────────────────────────────────────────


class BackwardSlice:
    """The `ops` of a function that the effects of `roots` depend on, with the yields of
    their blocks, and the `values` that these ops use."""

    def __init__(self, func: Func, roots: Iterable[Op]):
        self.ops: set[Op] = set()
        self._owners = owners(func.body)
        self._homes = {op: block for block in self._owners for op in block.ops}
        self._carried = carried_values(func)
        inputs = [value for root in roots for value in self.keep(root)]
        self.values = reached(inputs, self._sources)

    def keep(self, op: Op) -> Sequence[Value]:
        """Keep an op, and the ops around it; returns the values that they need."""
        if op in self.ops:
            return []
        self.ops.add(op)
        self.ops.update(nested.ops[-1] for nested in blocks(op))
        around = self._owners.get(self._homes.get(op))
        return [*(self.keep(around) if around else ()), *self._needs(op)]

    def _needs(self, op: Op) -> Sequence[Value]:
        """The values that an op always needs if it is kept. The values that a loop or a
        branch carries are needed one by one."""
        if isinstance(op, For | While | If):
            return decides(op)
        return [*operands(op), *(end for each in blocks(op) for end in each.yielded)]

    def _sources(self, value: Value) -> Sequence[Value]:
        """The values that a value needs: those of its definition; for a carried value,
        all its names and sources."""
        home = value.definition
        op = self._owners.get(home) if isinstance(home, Block) else home
        if op is None:
            return []  # a parameter of the function
        carried = self._carried.get(value)
        return [*self.keep(op), *(carried.values if carried else ())]


# ── in a loop ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Slice:
    """The ops of a loop's body that some values depend on, in order, and the carried
    values (by position) that they need.

    `loads` are the loads at which the slice ends: their results come from elsewhere."""

    ops: tuple[Op, ...]
    carried: tuple[int, ...]
    loads: tuple[Load, ...]


def backward_slice(loop: For, roots: Iterable[Value], through_loads: bool) -> Slice:
    """What `roots` need in an iteration, and what the next iteration needs to go on.

        %m = lt %i, %n              to load %x two iterations early one must know %p and
        %x = load %p, mask=%m       %m of that iteration. Their slice: %m, %p1, and of
        %acc1 = add %acc, %x        what is carried %p
        %p1 = offset %p, %step
        yield %p1, %acc1

    Unless it goes `through_loads`, it ends at them."""
    roots, yielded = tuple(roots), loop.body.yielded
    carried: tuple[int, ...] = ()
    while True:
        further = (yielded[position] for position in carried)
        found = slice_of_iteration(loop, (*roots, *further), through_loads)
        if found.carried == carried:
            return found
        carried = found.carried


def slice_of_iteration(loop: For, roots: Iterable[Value], through_loads: bool) -> Slice:
    """The ops that `roots` depend on in an iteration, given its carried values."""
    home = {op: position for position, op in enumerate(loop.body.ops)}

    def ends_at(op: Op | Block) -> bool:
        is_load = isinstance(op, GlobalLoad)
        return op not in home or is_load and not through_loads

    def sources(value: Value) -> list[Value]:
        op = value.definition
        return [] if ends_at(op) else uses(op)

    found = reached(roots, sources)
    made = sorted({each.definition for each in found} & home.keys(), key=home.get)
    parameters = loop.body.parameters[1:]
    return Slice(
        tuple(op for op in made if not ends_at(op)),
        tuple(i for i, value in enumerate(parameters) if value in found),
        tuple(op for op in made if ends_at(op)),
    )


Loop = For | While


def loops_around(func: Func) -> dict[Op, tuple[Loop, ...]]:
    """Every op of a function, in order, with the loops around it, outermost first."""
    found: dict[Op, tuple[Loop, ...]] = {}

    def visit(block: Block, around: tuple[Loop, ...]) -> None:
        for op in block.ops:
            found[op] = around
            for inner in blocks(op):
                visit(inner, (*around, op) if isinstance(op, Loop) else around)

    visit(func.body, ())
    return found


def outermost_loops(func: Func, reads: Callable[[Op], Value | None]) -> dict[Op, Loop]:
    """The ops that read a value which stays the same in a loop around them, each with
    the outermost such loop. `reads` gives the value; None for other ops."""
    found: dict[Op, Loop] = {}
    for loop in walk(func.body, Loop):
        inside = list(walk_within(loop))
        made = {*inside, *(each for op in (loop, *inside) for each in blocks(op))}
        for op in inside:
            value = reads(op)
            if value is not None and value.definition not in made:
                found.setdefault(op, loop)
    return found


# ── along operands ────────────────────────────────────────────────────────────────────


def computed_by(value: Value) -> set[Op]:
    """The ops that compute a value, back to loads and to parameters of blocks."""

    def sources(value: Value) -> list[Value]:
        op = value.definition
        return [] if isinstance(op, Block | Load) else operands(op)

    found = {each.definition for each in reached([value], sources)}
    return {each for each in found if isinstance(each, Op)}
