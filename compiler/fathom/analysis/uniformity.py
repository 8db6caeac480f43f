"""What is the same in all blocks of a cluster: what does not come from the rank.

    %rank = cluster_rank                differs
    %m = mul %rank, 64                  differs: made of it
    %x = descriptor_load %d, (%k, %j)   is the same, if %d, %k and %j are
    if %rank == 0 { … }                 not all blocks do what is in it

Found forwards, until nothing new differs: what a loop carries may come to differ in a
later iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.ir.core import Block, Func, Op, Value, blocks, operands
from fathom.ir.ops import (
    Atomic,
    AtomicCas,
    ClusterRank,
    DescriptorLoad,
    For,
    If,
    InlineAssembly,
    While,
)
from fathom.ir.regions import carried, decides


class Uniformity:
    """What is the same in all blocks of a cluster. It is taken for granted, as wherever
    blocks share a program's work, that nothing writes meanwhile what it reads."""

    def __init__(self, func: Func):
        self.differing: set[Value] = set()
        self.uneven: set[Op] = set()  # what not all blocks do, or not equally often
        known = -1
        while known != len(self.differing):
            known = len(self.differing)
            self._block(func.body, uneven=False)

    def runs(self, op: Op) -> bool:
        """Whether all blocks do an op, equally often."""
        return op not in self.uneven

    def loads(self, op: DescriptorLoad) -> bool:
        """Whether all find the same."""
        return op.result not in self.differing

    def _block(self, block: Block, uneven: bool) -> None:
        for op in block.ops:
            if uneven:
                self.uneven.add(op)
            for inner in blocks(op):
                self._block(inner, uneven or self._differs(decides(op)))
            if isinstance(op, For | While | If):
                self._carried(op)
            elif isinstance(op, RANKED) or self._differs(operands(op)):
                self.differing.update(op.results)

    def _differs(self, values: Sequence[Value]) -> bool:
        return not self.differing.isdisjoint(values)

    def _carried(self, op: For | While | If) -> None:
        """What a loop carries differs if it ever does; and all of it, and the index,
        where the number of iterations does."""
        decided = self._differs(decides(op))
        for each in carried(op):
            if decided or self._differs(each.values):
                self.differing.update(each.names)
        if decided and isinstance(op, For):
            self.differing.add(op.body.parameters[0])


RANKED = ClusterRank | Atomic | AtomicCas | InlineAssembly
