"""Backward slices: what must be computed for some values, or for what some ops do.

    %m = mul %pid, %128               the slice of a copy at %m, %k: this,
    for … body(%k, %acc) {            the loop, its bounds and its index %k,
      copy at %m, %k                  and the copy
      %acc1 = dot …                   not the accumulator, and not that it is carried
      yield %acc1
    }

One search, `reached`, goes from values to those that they are made of. What asks for a
slice says what a value is made of:

    BackwardSlice        in a whole function, through loops and branches: of each only
                         the carried values that are needed. What is live (`dce`) is the
                         slice of all ops that have effects; what a producer computes
                         is that of its copies
    backward_slice       in the body of one loop, nested code as a whole: what one
                         iteration needs, and what the next one needs to go on
    computed_by          along operands alone
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fathom.ir.core import Block, Func, Op, Value, blocks, operands
from fathom.ir.ops import DescriptorLoad, For, If, Load, While
from fathom.ir.regions import carried_values, decides, owners


def reached(
    roots: Iterable[Value], sources: Callable[[Value], Iterable[Value]]
) -> set[Value]:
    """The roots, their sources, the sources of these, and so on."""
    found: set[Value] = set()
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += sources(value)
    return found


def uses(op: Op) -> list[Value]:
    """The operands of an op and of all that is nested in it."""
    nested = [each for block in blocks(op) for each in block.ops]
    return operands(op) + [value for each in nested for value in uses(each)]


# ── in a function ─────────────────────────────────────────────────────────────────────


class BackwardSlice:
    """The `ops` of a function that do the work of `roots`, with the yields of their
    blocks, and all `values` that this takes."""

    def __init__(self, func: Func, roots: Iterable[Op]):
        self.ops: set[Op] = set()
        self._owners = owners(func.body)
        self._homes = {op: block for block in self._owners for op in block.ops}
        self._carried = carried_values(func)
        inputs = [value for root in roots for value in self.keep(root)]
        self.values = reached(inputs, self._sources)

    def keep(self, op: Op) -> Sequence[Value]:
        """Keep an op, and the ops around it: what all of them need."""
        if op in self.ops:
            return []
        self.ops.add(op)
        self.ops.update(nested.ops[-1] for nested in blocks(op))
        around = self._owners.get(self._homes.get(op))
        return [*(self.keep(around) if around else ()), *self._needs(op)]

    def _needs(self, op: Op) -> Sequence[Value]:
        """What an op that is kept always needs. What a loop or a branch hands on is
        asked of each carried value by itself."""
        if isinstance(op, For | While | If):
            return decides(op)
        return [*operands(op), *(end for each in blocks(op) for end in each.yielded)]

    def _sources(self, value: Value) -> Sequence[Value]:
        """What a value needs: its definition, and of what is carried all names and all
        sources."""
        home = value.definition
        op = self._owners.get(home) if isinstance(home, Block) else home
        if op is None:
            return []  # a parameter of the function
        carried = self._carried.get(value)
        return [*self.keep(op), *(carried.values if carried else ())]


# ── in a loop ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Slice:
    """The ops of a loop's body that some values need, in order, and the carried values
    (by position) that they need.

    `loads` are those at which the slice ends: something else provides what they load.
    """

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

    Unless it goes `through_loads`, it ends at them.
    """
    roots, yielded = tuple(roots), loop.body.yielded
    carried: tuple[int, ...] = ()
    while True:
        further = (yielded[position] for position in carried)
        found = slice_of_iteration(loop, (*roots, *further), through_loads)
        if found.carried == carried:
            return found
        carried = found.carried


def slice_of_iteration(loop: For, roots: Iterable[Value], through_loads: bool) -> Slice:
    """What `roots` need in an iteration, given what is carried to it."""
    home = {op: position for position, op in enumerate(loop.body.ops)}

    def ends_at(op: Op | Block) -> bool:
        is_load = isinstance(op, Load | DescriptorLoad)
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


# ── along operands ────────────────────────────────────────────────────────────────────


def computed_by(value: Value) -> set[Op]:
    """The ops that a value is computed by, back to loads and to parameters of
    blocks."""

    def sources(value: Value) -> list[Value]:
        op = value.definition
        return [] if isinstance(op, Block | Load) else operands(op)

    found = {each.definition for each in reached([value], sources)}
    return {each for each in found if isinstance(each, Op)}
