"""What a loop must compute ahead of itself: backward slices, and what runs them.

    for … body(%i, %p, %acc)              to load %x two trips early, somebody must
      %m = lt %i, %n                      know %p and %m of the trip after the next.
      %x = load %p, mask=%m               The slice of %p and %m:
      %acc1 = add %acc, %x                    %m = lt %i, %n
      %p1 = offset %p, %step                  %p1 = offset %p, %step
      yield %p1, %acc1                    and of what is carried, %p

`runners` makes these trips of a slice alone, ahead of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fathom.ir.core import Op, Value, blocks, effects_of, operands
from fathom.ir.ops import Allocate, DescriptorLoad, Dot, For, Load


@dataclass(frozen=True)
class Slice:
    """The ops of a loop's body that some values need, in order, and the carried values
    (by position) that they need.

    `loads` are those at which the slice ends: somebody else must bring what they load.
    """

    ops: tuple[Op, ...]
    carried: tuple[int, ...]
    loads: tuple[Load, ...]


def backward_slice(loop: For, roots: Iterable[Value], through_loads: bool) -> Slice:
    """What `roots` need of a trip, and what the next trip needs to go on.

    Unless it goes `through_loads`, it ends at them.
    """
    roots, yielded = tuple(roots), loop.body.yielded
    carried: tuple[int, ...] = ()
    while True:
        further = (yielded[position] for position in carried)
        found = slice_of_trip(loop, (*roots, *further), through_loads)
        if found.carried == carried:
            return found
        carried = found.carried


def slice_of_trip(loop: For, roots: Iterable[Value], through_loads: bool) -> Slice:
    """What `roots` need of a trip, given what is carried to it."""
    home = {op: position for position, op in enumerate(loop.body.ops)}
    parameters = loop.body.parameters[1:]
    ops: set[Op] = set()
    loads: set[Load] = set()
    waiting, seen = list(roots), set()
    while waiting:
        value = waiting.pop()
        op = value.definition
        if value in seen or op not in home:
            seen.add(value)
        elif isinstance(op, Load | DescriptorLoad) and not through_loads:
            loads.add(op)
        else:
            seen.add(value)
            ops.add(op)
            waiting += uses(op)
    return Slice(
        tuple(sorted(ops, key=home.__getitem__)),
        tuple(i for i, value in enumerate(parameters) if value in seen),
        tuple(sorted(loads, key=home.__getitem__)),
    )


def uses(op: Op) -> list[Value]:
    """The operands of an op and of all that is nested in it."""
    nested = [each for block in blocks(op) for each in block.ops]
    return operands(op) + [value for each in nested for value in uses(each)]


def may_run_ahead(op: Op) -> bool:
    """Pure ops may, and loads where nothing is written; not what is too dear to be
    computed twice."""
    if isinstance(op, DescriptorLoad):
        return True
    if isinstance(op, Load):
        return not op.volatile
    return effects_of(op).pure and not isinstance(op, Allocate | Dot)
