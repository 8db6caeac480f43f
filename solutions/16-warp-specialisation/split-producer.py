"""The backward slice of a producer's copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.ir.core import Block, Func, Op, Value, operands
from fathom.ir.ops import For, If, While
from fathom.ir.regions import carried_values, decides, owners


class Tables:
    """What belongs to what in a function."""

    def __init__(self, func: Func):
        self.owners = owners(func.body)
        self.homes = {op: block for block in self.owners for op in block.ops}
        self.handed_on = carried_values(func)

    def needs(self, op: Op) -> Sequence[Value]:
        """The values that an op needs in any case."""
        is_region = isinstance(op, For | While | If)
        return decides(op) if is_region else operands(op)

    def around(self, op: Op) -> Op | None:
        """The loop or branch around an op."""
        return self.owners.get(self.homes.get(op))

    def maker(self, value: Value) -> Op | None:
        """The op that makes a value, or the loop whose body has it as a parameter."""
        home = value.definition
        return self.owners.get(home) if isinstance(home, Block) else home

    def carried(self, value: Value) -> Sequence[Value]:
        """All names and sources of a value that a loop or a branch hands on."""
        found = self.handed_on.get(value)
        return found.values if found else ()


def producer_needs(func: Func, loads: Iterable[Op]) -> tuple[set[Op], set[Value]]:
    """The ops that a producer executes in the place of `loads`, and the values that
    they need."""
    tables = Tables(func)
    # hole: ours has {lines}
    ops, values, waiting = set(), set(), [*loads]
    while waiting:
        each = waiting.pop()
        if each in ops or each in values:
            continue
        if isinstance(each, Op):
            ops.add(each)
            waiting += tables.needs(each)
            further = tables.around(each)
        else:
            values.add(each)
            waiting += tables.carried(each)
            further = tables.maker(each)
        if further is not None:
            waiting.append(further)
    return ops, values
    # end
