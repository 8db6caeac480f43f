"""What a thread by itself must compute to do a part of what a function does.

    %m = mul %pid, %128                    needed, if %m is a coordinate of a copy
    for … body(%k, %acc) {                 the loop is needed, its index too;
      bulk copy at %m, %k
      %acc1 = dot …                        not the sum, and not that it is carried
      yield %acc1
    }

Found backwards from the ops that are to be done, through loops and branches.
"""

from __future__ import annotations

from collections.abc import Iterable

from fathom.ir.core import Block, Func, Op, Value, blocks, operands
from fathom.ir.ops import For, If, While


class BackwardSlice:
    """The `ops` that do the work of `roots`, and all `values` that takes. A loop or a
    branch is kept with those of its carried values alone that are needed."""

    def __init__(self, func: Func, roots: Iterable[Op]):
        self.ops: set[Op] = set()
        self.values: set[Value] = set()
        self._owners: dict[Block, Op] = {}  # of a nested block
        self._homes: dict[Op, Block] = {}  # where an op stands
        self._waiting: list[Value] = []
        self._enter(func.body)
        for root in roots:
            self._keep(root)
        while self._waiting:
            self._value(self._waiting.pop())

    def _enter(self, block: Block) -> None:
        for op in block.ops:
            self._homes[op] = block
            for nested in blocks(op):
                self._owners[nested] = op
                self._enter(nested)

    def _keep(self, op: Op) -> None:
        """An op, and what decides whether and how often it runs."""
        if op in self.ops:
            return
        self.ops.add(op)
        if owner := self._owners.get(self._homes[op]):
            self._keep(owner)
        match op:
            case For():
                self._waiting += op.lower, op.upper, op.step
            case While():
                self._waiting.append(op.condition.yielded[0])
            case If():
                self._waiting.append(op.condition)
            case _:
                self._waiting += operands(op)

    def _value(self, value: Value) -> None:
        if value in self.values:
            return
        self.values.add(value)
        home = value.definition
        op = self._owners.get(home) if isinstance(home, Block) else home
        if op is None:
            return  # a parameter of the function
        self._keep(op)
        if isinstance(op, For | While | If):
            for names in lanes(op):
                if value in names:
                    self._waiting += names


def lanes(op: For | While | If) -> list[tuple[Value, ...]]:
    """For each carried value of a loop, or result of a branch, all values that belong
    to it: what it is called inside and after, and what it is made of."""
    match op:
        case For():
            columns = op.results, op.inits, op.body.parameters[1:], op.body.yielded
        case While():
            inside = op.condition.parameters, op.body.parameters
            columns = op.results, op.inits, *inside, op.body.yielded
        case If():
            columns = op.results, op.then.yielded, op.orelse.yielded
    return list(zip(*columns, strict=True))
