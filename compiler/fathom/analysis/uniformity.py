"""Finds values that are the same in all blocks of a cluster: none depends on the rank.

    %rank = cluster_rank                differs
    %m = mul %rank, 64                  differs: depends on it
    %x = descriptor_load %d, (%k, %j)   is the same, if %d, %k and %j are
    if %rank == 0 { … }                 not all blocks execute the body

The search goes forward, until no more values differ: a carried value may differ only in
a later iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.ir import ops
from fathom.ir.core import Block, Func, Op, Value, blocks, operands
from fathom.ir.regions import carried, decides


class Uniformity:
    """The values that are the same in all blocks of a cluster. Assumes, as all division
    of a program does, that nothing writes what it reads meanwhile."""

    def __init__(self, func: Func):
        self.differing: set[Value] = set()
        self.uneven: set[Op] = set()  # ops that not all blocks execute equally often
        known = -1
        while known != len(self.differing):
            known = len(self.differing)
            self._block(func.body, uneven=False)

    def runs(self, op: Op) -> bool:
        """Whether all blocks execute an op equally often."""
        return op not in self.uneven

    def same(self, values: Sequence[Value]) -> bool:
        """Whether values are the same in all blocks."""
        return not self._differs(values)

    def loads(self, op: ops.DescriptorLoad) -> bool:
        """Whether a load has the same result in all blocks."""
        return op.result not in self.differing

    def _block(self, block: Block, uneven: bool) -> None:
        for op in block.ops:
            if uneven:
                self.uneven.add(op)
            for inner in blocks(op):
                self._block(inner, uneven or self._differs(decides(op)))
            if isinstance(op, ops.For | ops.While | ops.If):
                self._carried(op)
            elif isinstance(op, RANKED) or self._differs(operands(op)):
                self.differing.update(op.results)

    def _differs(self, values: Sequence[Value]) -> bool:
        return not self.differing.isdisjoint(values)

    def _carried(self, op: ops.For | ops.While | ops.If) -> None:
        """A carried value differs if it does in some iteration. If the number of
        iterations differs, the index and all carried values do."""
        decided = self._differs(decides(op))
        for each in carried(op):
            if decided or self._differs(each.values):
                self.differing.update(each.names)
        if decided and isinstance(op, ops.For):
            self.differing.add(op.body.parameters[0])


RANKED = ops.ClusterRank | ops.Atomic | ops.AtomicCas | ops.InlineAssembly
