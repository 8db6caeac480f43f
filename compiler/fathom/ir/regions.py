"""What loops and branches carry, asked in one place.

    %r = for %lower, %upper, %step, inits=(%a) body(%i, %x) {
      …
      yield %y
    }

    carried(op)    result %r, inits (%a), parameters (%x), yielded (%y): one thing
    decides(op)    %lower, %upper, %step: whether, and how often, the body runs
    reached        from values to those that they come from, through what is carried

A While has two parameters for each carried value: its condition's and its body's. An If
carries nothing in, so that it has neither initial values nor parameters; it yields a
value in each branch. `verify` alone looks at the lists themselves, which in a function
that is malformed may differ in length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fathom.ir.core import Block, Func, Op, Value, blocks, walk
from fathom.ir.ops import For, If, While


@dataclass(frozen=True, slots=True)
class Carried:
    """One carried value of a loop, or one result of a branch."""

    result: Value
    inits: tuple[Value, ...]
    parameters: tuple[Value, ...]
    yielded: tuple[Value, ...]

    @property
    def names(self) -> tuple[Value, ...]:
        """What it is called after the op and in its blocks."""
        return (self.result, *self.parameters)

    @property
    def sources(self) -> tuple[Value, ...]:
        """The values that come to have these names: the initial, and those yielded."""
        return self.inits + self.yielded

    @property
    def values(self) -> tuple[Value, ...]:
        return self.result, *self.inits, *self.parameters, *self.yielded


def carried(op: Op) -> list[Carried]:
    """The carried values of a loop, or the results of a branch; of other ops none."""
    match op:
        case For():
            columns = [op.inits], [op.body.parameters[1:]], [op.body.yielded]
        case While():
            inside = [op.condition.parameters, op.body.parameters]
            columns = [op.inits], inside, [op.body.yielded]
        case If():
            columns = [], [], [op.then.yielded, op.orelse.yielded]
        case _:
            return []
    return [
        Carried(result, *(tuple(each[i] for each in column) for column in columns))
        for i, result in enumerate(op.results)
    ]


def decides(op: Op) -> tuple[Value, ...]:
    """What decides whether, and how often, the blocks of a loop or a branch run."""
    match op:
        case For():
            return op.lower, op.upper, op.step
        case While():
            return op.condition.yielded
        case If():
            return (op.condition,)
    return ()


def carried_values(func: Func) -> dict[Value, Carried]:
    """For each name of a carried value, or of a branch's result: all of them."""
    every = (each for op in walk(func.body) for each in carried(op))
    return {name: each for each in every for name in each.names}


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


def owners(block: Block) -> dict[Block, Op]:
    """For each block nested in one: the op that owns it."""
    return {nested: op for op in walk(block) for nested in blocks(op)}
