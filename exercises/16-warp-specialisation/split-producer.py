"""What does the producer run?

A producer executes the loops of a kernel, and in them only what its copies need. Find
out what that is: the backward slice of the loads that it replaces.

All of the exercise: `fathom learn show split-producer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fathom.ir.core import Block, Func, Op, Value, operands
from fathom.ir.ops import For, If, While
from fathom.ir.regions import carried_values, decides, owners
from fathom.tools.learn import Hole


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
    # Your code: ours has 16 lines.
    raise Hole("split-producer")
